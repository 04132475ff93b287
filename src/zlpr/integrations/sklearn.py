"""The linear model as a scikit-learn estimator, and frozen encoders as a transformer."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from zlpr import decoding
from zlpr._counted import counted
from zlpr.decoding import Calibrator, Probabilities
from zlpr.integrations._sklearn_decoding import DecodedClassifier as DecodedClassifier
from zlpr.integrations._sklearn_decoding import Scorer as Scorer
from zlpr.integrations._sklearn_embedder import TextEmbedder as TextEmbedder
from zlpr.integrations._sklearn_text import TextVectoriser as TextVectoriser
from zlpr.losses import registry
from zlpr.models.feature_config import FeatureConfig
from zlpr.models.features import TextFeatures
from zlpr.training.config import AUTO
from zlpr.training.judging import ScoredPart
from zlpr.training.linear import LinearConfig
from zlpr.training.loss import check_finite
from zlpr.training.objective import Weights, csr
from zlpr.training.selection import choose_probabilities, choose_rule
from zlpr.training.solvers import WholeData, choose_solver

_NUMBERS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}

FEW = 10
"""Held-out samples that a rule needs to be chosen on."""

LARGEST_FEATURE = 1e15
"""Squares of larger ones, summed over the samples, leave single precision."""

LARGEST_OFFSET = 30
"""Standard deviations that a sparse feature's mean may be away from 0 without a warning."""


class MultiLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier of label sets, trained on any loss of `zlpr.losses`.

    Minimises `sum of losses + regularisation/2 |W|^2` over dense or CSR features, or over those of
    raw texts (`zlpr.models.features`), by L-BFGS over all samples; by Adam in batches where these
    do not fit in memory or the loss draws at random.
    Dense features are centred on the way, which changes neither weights nor scores but lets single
    precision find them; a fit that is not at its end warns with a `ConvergenceWarning`.

    Labels may come as an indicator matrix (dense or sparse), as one set of labels per sample, or as
    one label per sample; `predict` answers in the form that `fit` was given.

    Args:
        loss: a name of `zlpr.losses.available()`, or the short form "zlpr:pos_weight=2.7".
        loss_params: the loss's own parameters, such as `{"pos_weight": 2.7}`.
        regularisation: at least 0; the inverse of scikit-learn's `C`. The default suits TF-IDF
            features; choose it by cross-validation.
        decode: how scores become label sets. "auto" takes the rule that cross-validation on a
            held-out part of the training data finds best (the loss's own bound of 0 where that
            part would have fewer than ten samples); "zero" is the bound, with nothing held out;
            any other rule of `zlpr.decoding` is fitted on the held-out part. Where something is
            held out, the probabilities are fitted there as well.
        decode_metric: what a rule is chosen and fitted for.
        empty: what empty cases count in it: as scikit-learn does, or "paper"; see `zlpr.metrics`.
        validation_fraction: the share of the training data held out, at random, to fit a rule. The
            weights are fitted twice then: without that part, and at last on all of the data.
        max_iter: iterations of L-BFGS, or epochs of Adam, at least 1; None takes as many as it
            needs.
        tol: L-BFGS stops once an iteration gains less than this share of all gain.
        random_state: draws the held-out part, and the batches of Adam. As with every estimator of
            scikit-learn, None draws anew in each call of `fit`; pass a whole number for the same
            result every time. With `decode="zero"` and a loss that L-BFGS minimises nothing is
            drawn.
        features: how raw texts are read, a `zlpr.models.FeatureConfig`; None reads them as
            `zlpr train` does. For X of numbers it says nothing.

    Attributes:
        classes_: the labels, of shape (labels,).
        coef_: weights of shape (labels, features).
        intercept_: biases of shape (labels,).
        decoder_: the rule that turns scores into label sets.
        calibrator_: what turns scores into probabilities.
        n_iter_: iterations or epochs taken.
        n_features_in_: columns of X in `fit`; not there after a fit to raw texts.
        text_features_: what makes features of raw texts; None after a fit to numbers.

    Examples:
        >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
        >>> classifier = MultiLabelClassifier(regularisation=0.1)
        >>> classifier.fit(X, [{"red"}, {"blue"}, {"red", "blue"}, set()]).predict([[0.0, 1.0]])
        [{'blue'}]
        >>> texts = ["red wine", "blue sky", "red and blue", "nothing"]
        >>> classifier.fit(texts, [{"red"}, {"blue"}, {"red", "blue"}, set()]).predict(["red sun"])
        [{'red'}]
    """

    def __init__(
        self,
        loss: str = "zlpr",
        *,
        loss_params: dict[str, Any] | None = None,
        regularisation: float = 0.3,
        decode: str = "auto",
        decode_metric: str = "micro_f1",
        empty: Literal["sklearn", "paper"] = "sklearn",
        validation_fraction: float = 0.2,
        max_iter: int | None = None,
        tol: float = 1e-6,
        random_state: Any = None,
        features: FeatureConfig | None = None,
    ) -> None:
        self.loss = loss
        self.loss_params = loss_params
        self.regularisation = regularisation
        self.decode = decode
        self.decode_metric = decode_metric
        self.empty = empty
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.features = features

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit weights and biases, the rule that decides and what makes probabilities.

        Args:
            X: features of shape (samples, features), dense or sparse; or a text per sample, in a
                list, an array or a pandas column.
            y: an indicator of shape (samples, labels), dense or sparse; or a set of labels per
                sample; or a label per sample.
            sample_weight: at least 0, of shape (samples,): a sample of weight 3 counts as three
                times the same sample, one of weight 0 as none. The part that is held out is drawn
                whatever the weights, which then count in what is fitted on it as they compare with
                each other.
        """
        texts = _texts(X)
        if texts is None:
            X = validate_data(self, X, **_NUMBERS, accept_large_sparse=False)
        else:
            for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit
                self.__dict__.pop(name, None)
        _check_count("max_iter", self.max_iter)
        data = _Samples(X if texts is None else texts, None, self._weights(X, texts, sample_weight))
        if data.weight is not None:
            some = np.flatnonzero(data.weight > 0)
            y = y.tocsr() if hasattr(y, "tocsr") else y  # of which rows can be taken
            data, y = data.select(some), _safe_indexing(y, some) if len(some) < len(data) else y
        labels = self._learn_labels(y)
        if labels.shape[0] != len(data):
            raise ValueError(f"X has {counted(len(data), 'sample')}, y has {labels.shape[0]}")
        data = replace(data, labels=labels)
        generator = check_random_state(self.random_state)
        config = self._config(int(generator.randint(2**31 - 1)))
        read = self._learn_features(data)
        self.decoder_, self.calibrator_ = self._fit_decoder(data, read, config, generator)
        solved = self._solve(data, read, config)
        self.text_features_, self.n_iter_ = read, solved.steps
        self.coef_, self.intercept_ = np.ascontiguousarray(solved.weight.T), solved.bias
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of shape (samples, labels); of shape (samples,) where y had two classes."""
        scores = self._scores(self._checked(X))
        if self._form == "single" and len(self.classes_) == 2:
            difference: NDArray[np.float64] = scores[:, 1] - scores[:, 0]
            return difference
        return scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of shape (samples, labels), by what `fit` learned on its held-out part.

        With nothing held out they are the loss's own link, which nothing has calibrated. Where y
        had one label per sample, they are the softmax of the scores, uncalibrated too.
        """
        scores = self._scores(self._checked(X))
        if self._form == "single":
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True))
        return np.asarray(self.calibrator_(scores), dtype=np.float64)

    def predict(self, X: Any) -> Any:
        """Labels, in the form that `fit` was given."""
        X = self._checked(X)
        scores = self._scores(X)
        if self._form == "single":
            return self.classes_[scores.argmax(axis=1)]
        chosen = np.asarray(self.decoder_(scores, features=X))
        if self._form == "sets":
            return [set(self.classes_[row].tolist()) for row in chosen]
        return (
            sparse.csr_array(chosen.astype(int)) if self._form == "sparse" else chosen.astype(int)
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Subset accuracy, scikit-learn's own score for label sets."""
        predicted = self.predict(X)
        if self._form == "sets":  # compared as they are: y may hold labels that `fit` never saw
            hits = [set(labels) == guess for labels, guess in zip(y, predicted, strict=True)]
            return float(np.average(hits, weights=sample_weight))
        if self._form in ("dense", "sparse"):
            _check_zeros_and_ones(sparse.csr_array(y))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        texts = _texts(X)
        if self.text_features_ is None:
            if texts is not None:
                raise ValueError("X holds texts, and this classifier was fitted to numbers")
            return validate_data(self, X, **_NUMBERS, reset=False)
        if texts is None:
            raise ValueError("X holds no texts, and this classifier was fitted to texts")
        return self.text_features_.transform(texts)

    def _weights(self, X: Any, texts: list[str] | None, given: Any) -> Weights | None:
        """The samples' weights, one finite number of at least 0 each; None without any."""
        if given is None:
            return None
        samples = X if texts is None else np.empty((len(texts), 1))
        checked: Weights = _check_sample_weight(
            given, samples, dtype=np.float64, ensure_non_negative=True
        )
        return checked

    def _scores(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(X @ self.coef_.T + self.intercept_, dtype=np.float64)

    def _learn_labels(self, y: Any) -> sparse.csr_array[Any]:
        """Classes and form of y, and y as a CSR indicator."""
        if (sets := _label_sets(y)) is not None:
            self._form = "sets"
            names = _ordered(sets)
            self.classes_ = _as_array(names)
            return _indicator(sets, names)
        check_classification_targets(y)
        if sparse.issparse(y) or type_of_target(y, input_name="y").startswith("multilabel"):
            self._form = "sparse" if sparse.issparse(y) else "dense"
            matrix = sparse.csr_array(y)
            _check_zeros_and_ones(matrix)
            self.classes_ = np.arange(matrix.shape[1])
            labels = matrix.astype(bool)
            labels.eliminate_zeros()
            return labels
        return self._learn_single(y)

    def _learn_single(self, y: Any) -> sparse.csr_array[Any]:
        self._form = "single"
        column = np.asarray(y)
        if column.ndim == 2 and column.shape[1] == 1:
            _warn_of_column()
            column = column.ravel()
        elif column.ndim != 1:
            raise ValueError(f"y has the shape {column.shape}; expected labels or an indicator")
        self.classes_, numbers = np.unique(column, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class, {self.classes_[0]!r}; a classifier needs two")
        ones = np.ones(len(column), dtype=bool)
        shape = (len(column), len(self.classes_))
        return sparse.csr_array((ones, (np.arange(len(column)), numbers)), shape=shape)

    def _config(self, seed: int) -> LinearConfig:
        return LinearConfig(
            loss=self.loss,
            loss_params=self.loss_params or {},
            decode=self.decode,
            decode_metric=self.decode_metric,
            empty=self.empty,
            seed=seed,
        )

    def _learn_features(self, data: "_Samples") -> TextFeatures | None:
        """What makes features of these texts; None of numbers."""
        if not data.are_texts:
            return None
        text_features = TextFeatures(self.features)
        text_features.fit_transform(sorted(set(data.X)))  # whatever is repeated, and how often
        return text_features

    def _solve(
        self, data: "_Samples", read: TextFeatures | None, config: LinearConfig
    ) -> "_Solved":
        """Weights and biases of some samples, of texts by their features."""
        if not 0 <= self.regularisation < np.inf:
            raise ValueError(
                f"regularisation {self.regularisation!r}: expected a number of at least 0"
            )
        if not 0 <= self.tol < np.inf:
            raise ValueError(f"tol {self.tol!r}: expected a number of at least 0")
        data = data.read_by(read).merged()
        centred, centre = _centred(data.X, data.weight)
        solver = choose_solver(
            *(centred, data.labels, config),
            tolerance=self.tol,
            max_iterations=self.max_iter,
            sample_weight=data.weight,
        )
        solution = solver.solve(solver.start(), self.regularisation)
        check_finite(solution.loss, config)
        if isinstance(solver, WholeData) and solution.steps >= solver.max_iterations:
            _warn(f"not at its end after {solution.steps} iterations; give more with max_iter")
        weight, bias = (part.astype(np.float64) for part in solver.model(solution.parameters))
        return _Solved(weight, bias - centre @ weight, solution.steps)

    def _fit_decoder(
        self, data: "_Samples", read: TextFeatures | None, config: LinearConfig, generator: Any
    ) -> tuple[decoding.Rule, Probabilities]:
        """The rule and the probabilities, fitted on held-out samples where there is a need.

        Scores are of features that had not seen the held-out texts. A rule that reads features gets
        those that it will decide by, for others have other columns.
        """
        info = registry.info(config.scored_as)
        few = self.decode == AUTO and self.validation_fraction * len(data) < FEW
        link = Calibrator(link_scale=info.link_scale or 1.0)
        if self.decode == "zero" or self._form == "single" or (few and info.decides):
            return decoding.create("zero"), link
        drawn = generator.permutation(len(data))[: self._held_out(len(data))]
        kept = data.select(np.setdiff1d(np.arange(len(data)), drawn))
        drawn = drawn[data.select(drawn).copies()]
        held = data.select(drawn)
        unseen = self._learn_features(kept)
        solved = self._solve(kept, unseen, config)
        X = held.read_by(unseen).X
        scores = np.asarray(X @ solved.weight + solved.bias, dtype=np.float32)
        part = ScoredPart(held.labels, scores, held.read_by(read).X, groups=drawn)
        chosen = choose_probabilities(config.scored_as, kept.labels, part)
        return choose_rule(config, kept.labels, part).rule, chosen.probabilities

    def _held_out(self, samples: int) -> int:
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction {self.validation_fraction!r}: expected between 0 and 1"
            )
        count = round(self.validation_fraction * samples)
        if not 1 <= count < samples:
            few = counted(samples, "sample is", "samples are")
            raise ValueError(f"{few} too few to hold some out for {self.decode!r}")
        return count

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


@dataclass(frozen=True)
class _Solved:
    """What a fit of the weights found.

    Attributes:
        weight: of shape (features, labels).
        bias: of shape (labels,).
        steps: that it took.
    """

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]
    steps: int


@dataclass(frozen=True)
class _Samples:
    """Samples to be fitted to.

    Attributes:
        X: a list of texts, or features of shape (samples, features), dense or CSR.
        labels: CSR of shape (samples, labels).
        weight: how many samples each counts as, above 0; None is 1.
    """

    X: Any
    labels: Any
    weight: Weights | None

    def __len__(self) -> int:
        return len(self.X) if self.are_texts else int(self.X.shape[0])

    @property
    def are_texts(self) -> bool:
        """Whether features are yet to be made."""
        return isinstance(self.X, list)

    def read_by(self, text_features: TextFeatures | None) -> "_Samples":
        """With features in place of texts; as they are where there are none."""
        if text_features is None:
            return self
        return replace(self, X=text_features.transform(self.X))

    def select(self, rows: NDArray[np.int64]) -> "_Samples":
        """The samples at these places, in this order."""
        X = [self.X[row] for row in rows] if self.are_texts else self.X[rows]
        labels = None if self.labels is None else self.labels[rows]
        return _Samples(X, labels, None if self.weight is None else self.weight[rows])

    def copies(self) -> NDArray[np.int64]:
        """As many places as there are samples, each as often as its weight says.

        For what takes no weights. More copies than samples would make believe that there is more
        to fit to. They are rounded so that sums along the samples are right to a half.
        """
        if self.weight is None:
            return np.arange(len(self))
        ends = np.cumsum(self.weight)
        counts = np.diff(np.floor(ends * (len(self) / ends[-1]) + 0.5), prepend=0.0)
        return np.repeat(np.arange(len(self)), counts.astype(np.int64))

    def merged(self) -> "_Samples":
        """Equal samples as one with their summed weight, in an order of their content.

        So a weight of 3 and the same sample three times are one problem to the last bit, wherever
        the samples stand.
        """
        columns, dense = [self.labels.sorted_indices()], []
        if sparse.issparse(self.X):
            columns.append(csr(self.X).sorted_indices())
        else:
            dense.append(np.ascontiguousarray(self.X))
        keys = np.array([_digest(row, columns, dense) for row in range(len(self))], dtype="S32")
        known, first, group = np.unique(keys, return_index=True, return_inverse=True)
        if len(known) == len(keys) and self.weight is None:
            return self.select(first)
        weight = np.bincount(group, self.weight, minlength=len(known)).astype(np.float64)
        return replace(self.select(first), weight=weight)


def _digest(row: int, columns: Sequence[Any], dense: Sequence[NDArray[Any]]) -> bytes:
    """Of one row of some matrices, in hexadecimals: numpy's strings lose zeros at their end."""
    digest = blake2b(digest_size=16)
    for array in dense:
        digest.update(array[row].tobytes())
    for matrix in columns:
        here = slice(matrix.indptr[row], matrix.indptr[row + 1])
        digest.update(int(here.stop - here.start).to_bytes(8))  # where one ends, the next begins
        digest.update(matrix.indices[here].astype(np.int64).tobytes())
        digest.update(matrix.data[here].tobytes())
    return digest.hexdigest().encode()


def _texts(X: Any) -> list[str] | None:
    """A list of texts from anything that is a row of them; None where X is numbers.

    Raises:
        ValueError: some are texts and others are not, or X is one text.
    """
    if isinstance(X, str):
        raise ValueError("X is one text; give a list of texts, one per sample")
    row = isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1
    if not row or not len(X):
        return None
    values = list(X)
    texts = [isinstance(value, str) for value in values]
    if not any(texts):
        return None
    if not all(texts):
        place = texts.index(False)
        raise ValueError(
            f"X holds texts, but {values[place]!r} at place {place} is none; drop it or give "
            "an empty text"
        )
    return [str(value) for value in values]


def _label_sets(y: Any) -> list[Any] | None:
    """Each sample's labels where y gives them by name; None where it has a 0 or 1 per label."""
    column = getattr(y, "ndim", 0) == 1 and y.dtype.kind == "O"  # as in pandas
    if not (isinstance(y, Sequence) or column) or isinstance(y, str) or not len(y):
        return None
    rows = list(y)
    named = all(
        isinstance(labels, set | frozenset)
        or (isinstance(labels, list | tuple) and all(isinstance(label, str) for label in labels))
        for labels in rows
    )
    return rows if named else None


def _ordered(sets: Sequence[Any]) -> list[Any]:
    """All labels of some sets in their order, or a line that says why there is none."""
    names = {label for labels in sets for label in labels}
    if not names:
        raise ValueError("y holds no label: the set of every sample is empty")
    if any(name != name for name in names):  # which only NaN is
        raise ValueError("y holds NaN as a label")
    try:
        return sorted(names)
    except TypeError:
        kinds = ", ".join(sorted({type(name).__name__ for name in names}))
        raise ValueError(
            f"y holds labels that cannot be put in order ({kinds}); make all of them strings"
        ) from None


def _as_array(names: list[Any]) -> NDArray[Any]:
    r"""The labels as numpy has them, or as objects where it would change them (tuples, `"a\0"`)."""
    objects = np.fromiter(names, dtype=object, count=len(names))
    if any(isinstance(name, tuple) for name in names):
        return objects
    array = np.array(names)
    whole = array.dtype.kind == "f" and any(isinstance(name, Integral) for name in names)
    return array if array.tolist() == names and not whole else objects


def _indicator(sets: Sequence[Any], names: Sequence[Any]) -> sparse.csr_array[Any]:
    """A row per set, a column per name."""
    column = {name: number for number, name in enumerate(names)}
    rows = [(row, column[label]) for row, labels in enumerate(sets) for label in set(labels)]
    where = np.array(rows, dtype=np.int64).T
    shape = (len(sets), len(names))
    return sparse.csr_array((np.ones(where.shape[1], dtype=bool), tuple(where)), shape=shape)


def _check_zeros_and_ones(indicator: Any) -> None:
    """Refuse -1 and 1, or 0 and 2, in which every cell or none would count as a label."""
    values = np.unique(indicator.data)
    wrong = values[(values != 0) & (values != 1)]
    if len(wrong):
        raise ValueError(
            f"y holds {wrong[0]}: an indicator has 0 where a sample lacks a label and 1 where it "
            "has it; from -1 and 1, y > 0 makes one"
        )


def _centred(X: Any, weight: Weights | None) -> tuple[Any, NDArray[np.float64]]:
    """Dense features around 0, and what was taken off.

    The best weights are the same, for biases are not regularised, and single precision finds them
    also where a feature is far from 0 compared with its spread. Sparse ones stay as they are.
    """
    centre = np.zeros(X.shape[1])
    if sparse.issparse(X):
        _warn_of_offset(X)
    else:
        centre = np.average(np.asarray(X, dtype=np.float64), axis=0, weights=weight)
        X = X - centre
    values: Any = X.data if hasattr(X, "tocsr") else X
    largest = float(np.abs(values).max(initial=0.0))
    if not largest < LARGEST_FEATURE:
        raise ValueError(
            f"X spreads over {largest:.3g}, which is too much to compute with in single precision; "
            "scale it, as sklearn.preprocessing.StandardScaler does"
        )
    return X, centre


def _warn_of_offset(X: Any) -> None:
    """Sparse features that are far from 0 compared with their spread spoil each other's fit."""
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    squares = np.asarray(X.multiply(X).mean(axis=0), dtype=np.float64).ravel()
    deviation = np.sqrt(np.maximum(squares - mean**2, 0.0))
    if (np.abs(mean) > LARGEST_OFFSET * np.maximum(deviation, 1e-6 * np.abs(mean))).any():
        _warn(
            "sparse features far from 0 compared with their spread; give X as a dense array, which "
            "is centred, or take their means off"
        )


def _check_count(name: str, value: Any) -> None:
    """Refuse anything but None or a whole number of at least 1."""
    if value is not None and (not isinstance(value, Integral) or value < 1):
        raise ValueError(f"{name} {value!r}: expected a whole number of at least 1, or None")


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=4)


def _warn_of_column() -> None:
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected.",
        DataConversionWarning,
        stacklevel=4,
    )
