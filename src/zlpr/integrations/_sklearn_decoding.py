"""Thresholds and other decoding rules around any scikit-learn classifier, and scorers by name.

Import both from `zlpr.integrations.sklearn`.
"""

import re
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from zlpr import decoding
from zlpr.metrics import Empty, evaluate, info
from zlpr.metrics import available as available_metrics
from zlpr.metrics._inputs import check_empty

__all__ = ["DecodedClassifier", "Scorer"]


class DecodedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of label sets with a decoding rule in place of its own threshold.

    As `sklearn.model_selection.TunedThresholdClassifierCV`, but for several labels: the rule is
    fitted on scores that cross-validation gives for samples unseen, and the classifier at last on
    all of the data. Scores are those of `decision_function`, or the log-odds of `predict_proba`.
    Where y has one label per sample there is nothing to decode, and the classifier decides alone.

    Args:
        estimator: any multi-label classifier with `decision_function` or `predict_proba`.
        rule: a name of `zlpr.decoding.available()`, or "auto" for the rule that cross-validation on
            the scores finds best.
        metric: what the rule is chosen and fitted for.
        empty: what empty cases count in it: as scikit-learn does, or "paper"; see `zlpr.metrics`.
        cv: the folds that the scores come from, as in `cross_val_predict`.
        n_jobs: processes that the folds are spread over.

    Attributes:
        estimator_: the classifier, fitted on all samples.
        rule_: the fitted rule; None where y had one label per sample.
        classes_: the labels' numbers, or the classes of y.

    Examples:
        >>> from sklearn.datasets import make_multilabel_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.multiclass import OneVsRestClassifier
        >>> X, y = make_multilabel_classification(300, n_classes=4, random_state=0)
        >>> base = OneVsRestClassifier(LogisticRegression())
        >>> decoded = DecodedClassifier(base, "per_label_threshold", metric="macro_f1").fit(X, y)
        >>> decoded.predict(X[:1]).shape
        (1, 4)
    """

    def __init__(
        self,
        estimator: Any,
        rule: str = "auto",
        *,
        metric: str = "micro_f1",
        empty: Empty = "sklearn",
        cv: Any = 5,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.rule = rule
        self.metric = metric
        self.empty = empty
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the rule on scores of samples unseen, and the classifier on all samples.

        Args:
            X: what the classifier takes.
            y: an indicator of shape (samples, labels), dense or sparse, or one label per sample.
            **fit_params: for the classifier's `fit`, such as `sample_weight`, which the rule does
                not look at.
        """
        y = y.toarray() if hasattr(y, "toarray") else y  # which few classifiers take sparse
        is_indicator = _is_indicator(y)
        self.rule_ = self._fit_rule(X, y, fit_params) if is_indicator else None
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        known = self.estimator_
        self.classes_ = np.arange(np.shape(y)[1]) if is_indicator else known.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(known, name):
                setattr(self, name, getattr(known, name))
        return self

    def _fit_rule(self, X: Any, y: Any, fit_params: dict[str, Any]) -> decoding.Rule:
        _method(self.estimator)  # or an error, before anything is fitted
        scores = cross_val_predict(
            _Scoring(self.estimator), X, y, cv=self.cv, n_jobs=self.n_jobs, params=fit_params
        )
        names = decoding.by_preference(decoding.rules_of_scores())
        return decoding.choose(
            y,
            scores,
            self.metric,
            rules=names if self.rule == "auto" else (self.rule,),
            empty=self.empty,
        )

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """The classifier's own."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """The classifier's own."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    def predict(self, X: Any) -> Any:
        """The label sets, an indicator of shape (samples, labels); or one label per sample."""
        check_is_fitted(self)
        if self.rule_ is None:
            return self.estimator_.predict(X)
        return np.asarray(self.rule_(scores_of(self.estimator_, X))).astype(np.int64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


class _Scoring(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that predicts its scores: `cross_val_predict` takes these as they are.

    Of other methods it puts the columns in order by classes, and fails for those of a
    `ClassifierChain`.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        return scores_of(self.estimator_, X)

    def get_metadata_routing(self) -> MetadataRouter:
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=to_fit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


class Scorer:
    """A metric of `zlpr.metrics` as `scoring` of `GridSearchCV`, `cross_val_score` and the like.

    Larger is better: a metric of which smaller is better has its sign changed, as in scikit-learn.

    Args:
        metric: a name of `zlpr.metrics.available()`, or one at another k, as "precision_at_10".
        empty: what empty cases count, see `zlpr.metrics`.

    Raises:
        ValueError: a metric that does not judge, or that needs the labels' frequencies in training.

    Examples:
        >>> Scorer("example_f1")
        Scorer('example_f1')
    """

    def __init__(self, metric: str, *, empty: Empty = "sklearn") -> None:
        known = info(metric)
        if known.larger_is_better is None:
            raise ValueError(f"{metric} describes and does not judge; take one of: {judging()}")
        check_empty(empty)
        at = re.fullmatch(r".+_at_(\d+)", known.name)
        self._ks = (int(at[1]),) if at else ()
        if known.name not in available_metrics(self._ks):
            raise ValueError(
                f"{metric} needs the labels' frequencies in training, which a scorer does not know"
            )
        self.metric, self.empty = known.name, empty

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """The figure of a fitted classifier on an indicator y of shape (samples, labels)."""
        known = info(self.metric)
        if known.needs == "scores":
            figures = evaluate(y, scores_of(estimator, X), empty=self.empty, ks=self._ks)
        else:
            figures = evaluate(y, y_pred=estimator.predict(X), empty=self.empty, ks=())
        return known.sign * figures[self.metric]

    def __repr__(self) -> str:
        return f"Scorer({self.metric!r})"


def judging() -> str:
    """The metrics that a scorer can be, for people."""
    names = available_metrics(())
    return ", ".join(name for name in names if info(name).larger_is_better is not None)


def _is_indicator(y: Any) -> bool:
    """Whether y has a 0 or 1 per label; False where it has one label per sample.

    Raises:
        ValueError: y is neither, and a rule could not be fitted to it.
    """
    kind = type_of_target(y, input_name="y")
    if kind == "unknown" and any(isinstance(labels, set | frozenset) for labels in y):
        raise ValueError(
            "y holds sets of labels, of which sklearn.preprocessing.MultiLabelBinarizer makes an "
            "indicator"
        )
    if kind == "multiclass-multioutput":
        raise ValueError("y holds more than 0 and 1: an indicator has one of them for each label")
    return bool(kind.startswith("multilabel"))


def _method(estimator: Any) -> str:
    for name in ("decision_function", "predict_proba"):
        if hasattr(estimator, name):
            return name
    raise ValueError(f"{estimator!r} has neither decision_function nor predict_proba")


def scores_of(estimator: Any, X: Any) -> NDArray[np.float64]:
    """A classifier's scores, shape (samples, labels), cut at 0: log-odds for probabilities."""
    while isinstance(estimator, Pipeline):  # whose last step may be decoded
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        estimator = estimator[-1]
    if isinstance(estimator, DecodedClassifier):  # whose classes are those of the indicator
        estimator = estimator.estimator_
    method = _method(estimator)
    values = getattr(estimator, method)(X)
    if isinstance(values, list):  # an array (samples, classes) per label, as of forests
        parts = zip(values, estimator.classes_, strict=True)
        values = np.stack([_of_class_one(np.asarray(part), own) for part, own in parts], axis=1)
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"{method} gave the shape {array.shape}, expected (samples, labels)")
    if method == "predict_proba":
        with np.errstate(divide="ignore"):
            return np.log(array) - np.log1p(-array)
    return array


def _of_class_one(chances: NDArray[Any], classes: Any) -> NDArray[Any]:
    """The probabilities of a label, also where it was always 0 or always 1 in training."""
    if chances.shape[1] == 2:
        return chances[:, 1]
    if np.shape(classes) != (1,):
        raise ValueError("a label is always 0 or always 1 in what the classifier was fitted on")
    return np.full(len(chances), float(classes[0]))
