"""The joint rule: decide on whole label sets, by a posterior over them."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding._rule import (
    BoolArray,
    Config,
    Features,
    FloatArray,
    Rule,
    Validation,
    check_metric,
)
from zlpr.decoding._seen_sets import single_precision_product
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding.set_posterior import Posterior, SetPosterior
from zlpr.decoding.threshold import PerLabelThreshold, Threshold
from zlpr.metrics import Empty
from zlpr.metrics._inputs import check_empty

__all__ = ["LabelSets"]

BACKGROUND = 32
"""Sets that stand for all that are no candidates, where expectations are taken."""
TRIED = 8
"""Most probable candidates of which the expected Jaccard index is computed."""
SIZES_TRIED = 4
"""Best sets by expected F1, each of another size, of which it is computed as well."""
_CUTS: dict[str, type[Threshold] | type[PerLabelThreshold]] = {
    "micro_f1": Threshold,
    "macro_f1": PerLabelThreshold,
    "weighted_f1": PerLabelThreshold,
}


@dataclass
class LabelSets(Rule):
    r"""Predict the label set that a posterior over whole sets finds best for the metric.

    `fit` learns the chances of a sample's candidate sets (see `SetPosterior`) from validation
    scores and, given `train_labels`, from the sets seen in training. The decision is then

    - for subset accuracy the most probable set;
    - for example F1 the set with the highest expected F1 of all there are (Dembczyński et al.,
      2011: with $P(l \in Y, |Y| = k)$ known, the best set of each size takes the labels with the
      largest $\sum_k P(l, k) / (k + \text{size})$);
    - for the Jaccard index the best of the eight most probable sets and of four sets of different
      sizes, those with the highest expected F1;
    - for Hamming loss the labels more likely in than out;
    - for micro F1 the labels whose chance exceeds a fitted threshold; for macro and weighted F1
      one per label, with rare labels guarded as in `PerLabelThreshold`.

    Args:
        posterior: the chances of label sets.
        metric: what to decide for.
        empty: what an empty prediction for an empty truth counts.
        cut: how the labels' chances are cut, for the F1 measures of whole data.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> either = generator.integers(2, size=400)  # one of two labels, never none or both
        >>> true = np.stack([either == 0, either == 1], axis=1)
        >>> scores = 2.0 * true - 1.5 + generator.normal(size=true.shape)
        >>> rule = LabelSets().fit(true[:200], scores[:200], metric="subset_accuracy")
        >>> bool((rule(scores[200:]).sum(axis=1) == 1).all())
        True
    """

    name: ClassVar[str] = "label_sets"
    needs_all_labels: ClassVar[bool] = True
    posterior: SetPosterior = field(default_factory=SetPosterior)
    metric: str = "micro_f1"
    empty: Empty = "paper"
    cut: Rule | None = None

    def __post_init__(self) -> None:
        check_metric(self.metric)
        check_empty(self.empty)
        wanted = _CUTS.get(self.metric)
        if self.posterior.seen is not None and wanted and not isinstance(self.cut, wanted):
            raise UserError(f"label_sets for {self.metric} needs a cut of kind {wanted.name!r}")

    def learn(self, data: Validation) -> None:
        """Fit the posterior and, where the metric needs one, the cut of the labels' chances."""
        self.posterior.learn(data)
        self.metric, self.empty, self.cut = data.metric, data.empty, None
        if data.metric in _CUTS:
            self.cut = _CUTS[data.metric]()
            self.cut.learn(replace(data, scores=self.probabilities(data.scores)))

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The best set of each sample."""
        if self.metric in _CUTS and self.cut is not None:
            return self.cut.decide(self.probabilities(scores))
        if self.metric == "hamming_loss":
            return self.probabilities(scores) > 0.5
        chosen = np.zeros(scores.shape, dtype=bool)
        for rows, posterior in self.posterior.posteriors(scores):
            sets = self._best_sets(posterior)
            np.put_along_axis(chosen[rows], posterior.candidates.labels.numpy(), sets.numpy(), 1)
        return chosen

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """The posterior's chance of each label, of the scores' shape and type."""
        return self.posterior.probabilities(scores)

    def _best_sets(self, posterior: Posterior) -> Tensor:
        """Which of the labels in play are chosen, bool of shape (samples, M)."""
        candidates = posterior.candidates
        if self.metric == "subset_accuracy":
            return _pick(candidates.sets, posterior.chances.argmax(1)) > 0
        sets, chances = _with_background(posterior)
        by_size, values = _best_of_each_size(sets, chances, self.empty)
        if self.metric == "example_f1":
            return _pick(by_size, values.argmax(1)) > 0
        likely = posterior.chances.topk(min(TRIED, sets.shape[1] - BACKGROUND), dim=1).indices
        promising = values.topk(min(SIZES_TRIED, values.shape[1]), dim=1).indices
        tried = torch.cat([_pick(by_size, promising), _pick(candidates.sets, likely)], 1)
        value, best = _expected_jaccard(tried, sets, chances, self.empty).max(1, keepdim=True)
        # Where nothing is worth anything, as with impossible labels alone, no label is predicted.
        return (_pick(tried, best.squeeze(1)) > 0) & (value > 0)

    def to_config(self) -> Config:
        """The rule as plain JSON."""
        cut = None if self.cut is None else self.cut.to_config()
        return super().to_config() | {"posterior": self.posterior.to_config(), "cut": cut}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The rule that `to_config` described."""
        posterior = SetPosterior.from_config(config.get("posterior"))
        cut = _cut_from_config(config.get("cut"))
        seen = posterior.seen
        if seen and isinstance(cut, PerLabelThreshold) and len(cut.thresholds) != seen.num_labels:
            raise UserError(
                f"the cut has {counted(len(cut.thresholds), 'label')}, the seen sets "
                f"{seen.num_labels}"
            )
        return super().from_config(config | {"posterior": posterior, "cut": cut})


def _cut_from_config(config: Any) -> Rule | None:
    if config is None:
        return None
    for kind in (Threshold, PerLabelThreshold):
        if isinstance(config, dict) and config.get("rule") == kind.name:
            return kind.from_config(config)
    raise UserError("the cut of label_sets must be a threshold or per_label_threshold")


def _pick(sets: Tensor, which: Tensor) -> Tensor:
    """Sets by number: one per sample, (samples, M), or several, (samples, several, M)."""
    if which.ndim == 1:
        return sets[torch.arange(len(sets)), which]
    return sets.gather(1, which[:, :, None].expand(-1, -1, sets.shape[2]))


def _with_background(posterior: Posterior) -> tuple[Tensor, Tensor]:
    """The candidates, and sets of independent labels that share the chance of none of them.

    The sets are drawn with the same evenly spread numbers for every sample, so that each label
    is in as many as its chance says, and nothing depends on a random state.
    """
    width = posterior.outside.shape[1]
    even = (np.arange(BACKGROUND) + 0.5) / BACKGROUND
    spread = np.random.default_rng(0).permuted(np.tile(even, (width, 1)), axis=1).T
    drawn = posterior.outside[:, None] > torch.from_numpy(spread.copy())
    sets = torch.cat([posterior.candidates.sets, drawn.double()], 1)
    inside = posterior.inside[:, None]
    rest = ((1 - inside) / BACKGROUND).expand(-1, BACKGROUND)
    return sets, torch.cat([inside * posterior.chances, rest], 1)


def _best_of_each_size(sets: Tensor, chances: Tensor, empty: Empty) -> tuple[Tensor, Tensor]:
    """The set of each size with the highest expected F1, and that F1.

    The best set may be larger than any that has a chance: of three labels, one of which is true,
    each as likely as the others, all three (1/2, and 1/3 for one alone). So sizes run to the number
    of labels in play, whatever the sets are.

    Returns:
        Shapes (samples, M + 1, M) and (samples, M + 1); sizes run from 0 up.
    """
    size = sets.sum(2)
    sizes = torch.arange(1, sets.shape[2] + 1, dtype=sets.dtype)
    weighted = chances[:, :, None] * (size[:, :, None] == sizes)
    joint = sets.mT @ weighted  # P(label, size), shape (samples, M, sizes)
    gains = joint @ (2 / (sizes[:, None] + sizes))  # of each label in a set of each size
    descending, order = gains.sort(dim=1, descending=True, stable=True)
    first = torch.ones(len(sizes), len(sizes), dtype=sets.dtype).triu()  # rank before size
    chosen = torch.zeros_like(gains).scatter_(1, order, first.expand_as(gains)).mT
    none = (chances * (size == 0)).sum(1, keepdim=True)
    values = torch.cat([none if empty == "paper" else 0 * none, (descending * first).sum(1)], 1)
    return torch.cat([torch.zeros_like(chosen[:, :1]), chosen], 1), values


def _expected_jaccard(decisions: Tensor, sets: Tensor, chances: Tensor, empty: Empty) -> Tensor:
    """Expected Jaccard index of each decision, shape (samples, decisions).

    In float32, which holds the small whole numbers exactly: half the memory to go through.
    """
    decisions, sets, chances = decisions.float(), sets.float(), chances.float()
    taken, sizes = decisions.sum(2), sets.sum(2)
    both = single_precision_product(decisions, sets.mT)
    either = (taken[:, :, None] + sizes[:, None]).sub_(both).clamp_(min=1)
    values = single_precision_product(both.div_(either), chances[:, :, None]).squeeze(2)
    if empty == "paper":
        values += (taken == 0) * (chances * (sizes == 0)).sum(1, keepdim=True)
    return values
