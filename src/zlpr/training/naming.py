"""The first stage of the model for many labels, as it is trained: what names the candidates."""

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr.data import Dataset
from zlpr.models.candidates import SAMPLE_FEATURES, as_matrix
from zlpr.models.mixed_candidates import (
    as_rows,
    keep_largest,
    label_sums,
    nearest,
    rows_times,
    unit_rows,
)
from zlpr.models.mixed_matrix import sparse_part, stack
from zlpr.training.linear_features import ExtractedFeatures
from zlpr.training.shortlist import ShortlistConfig

_log = logging.getLogger("zlpr.training")

# Entries of a label's centroid that are kept: the rest is many small numbers.
CENTROID_ENTRIES = 200
# A centroid of n samples may have the length n**lift, so that labels of many samples are named more
# readily; a larger lift must find this much more of the labels, on so many samples of validation.
# (Little more is no gain: frequent labels then crowd out near ones. German records have a recall of
# 45.3 instead of 44.3 % with a lift of 0.25, and a Micro-F1 of 20.0 instead of 21.9.)
LIFTS = (0.0, 0.25, 0.5)
LEAST_GAIN, JUDGED_SAMPLES = 0.05, 2000
# Where nobody says how many: so many labels at least, and so many for each that a sample has.
LEAST_NAMED, NAMED_PER_LABEL = 50, 10
# Names name their labels where this share of them finds its own among so many nearest labels.
NAMES_FOUND, AMONG_NEAREST = 0.25, 10


@dataclass(frozen=True, eq=False)
class Samples:
    """What a model is fitted to: features and labels, names of labels among them.

    Attributes:
        features: CSR of shape (samples, features), float32, or n-grams beside embeddings.
        labels: CSR of shape (samples, labels).
    """

    features: Any
    labels: Any

    @classmethod
    def of(cls, features: Any, labels: Any) -> "Samples":
        """Of matrices of any sparse kind, or of mixed features."""
        return cls(as_rows(features), sparse.csr_array(labels))

    @property
    def by_ngrams(self) -> "Samples":
        """The same without embeddings; themselves where there are none."""
        ngrams = sparse_part(self.features)
        return self if ngrams is self.features else replace(self, features=ngrams)

    @cached_property
    def looked_at(self) -> Any:
        """The largest features of each sample."""
        return keep_largest(self.features, SAMPLE_FEATURES)

    @cached_property
    def sums(self) -> Any:
        """Of each label's samples, without the smallest entries."""
        return label_sums(self.looked_at, self.labels, CENTROID_ENTRIES)

    @cached_property
    def centroids(self) -> Any:
        """The sums as directions."""
        return unit_rows(self.sums)

    def lifted(self, lift: float) -> Any:
        """Centroids whose length is a power of the number of samples; of none it is 1.

        Args:
            lift: the power.
        """
        if lift == 0.0:
            return self.centroids
        counts = np.maximum(np.asarray(self.labels.sum(axis=0), dtype=np.float64).ravel(), 1.0)
        return rows_times(self.centroids, (counts**lift).astype(np.float32))


def count_of(asked: int | None, labels: Any) -> int:
    """How many labels to name for a sample: never more than there are.

    Args:
        asked: what the user wants; None for ten times as many as samples have, 50 at least.
        labels: the training samples' own, CSR.

    Examples:
        >>> one, twelve = (sparse.csr_array(np.ones((5, n)), shape=(5, 900)) for n in (1, 12))
        >>> count_of(None, one), count_of(None, twelve), count_of(7, twelve), count_of(999, one)
        (50, 120, 7, 900)
    """
    samples, num_labels = labels.shape
    if asked is None:
        mean = labels.nnz / max(samples, 1)
        asked = max(LEAST_NAMED, round(NAMED_PER_LABEL * mean))
    return min(asked, int(num_labels))


def choose_lift(samples: Samples, features: Any, labels: Any, count: int) -> float:
    """The smallest lift whose candidates hold nearly as many labels of other samples as any do.

    Args:
        samples: whose centroids name.
        features: of the other samples, CSR.
        labels: of the same, CSR.
        count: candidates of each.
    """
    features, labels = features[:JUDGED_SAMPLES], labels[:JUDGED_SAMPLES]
    found = {
        lift: recall_of(nearest(features, samples.lifted(lift), count), labels) for lift in LIFTS
    }
    enough = max(found.values()) - LEAST_GAIN
    return min(lift for lift, recall in found.items() if recall >= enough)


def recall_of(candidates: NDArray[np.integer[Any]], labels: Any) -> float:
    """The share of the samples' labels that are among their candidates; 1 where there are none.

    Args:
        candidates: label indices of shape (samples, k), -1 for none.
        labels: the samples' own, CSR.
    """
    if labels.nnz == 0:
        return 1.0
    there = as_matrix(candidates, labels.shape[1])
    return float(there.multiply(labels).nnz / labels.nnz)


def name_features(
    samples: Samples, train: Dataset, inputs: ExtractedFeatures, config: ShortlistConfig
) -> Any:
    """Features of the labels' names; None where they are no training texts.

    Args:
        samples: of the training part.
        train: tells the names.
        inputs: tells how texts are read.
        config: whether names are training texts, or whether that is to be found out.
    """
    if inputs.text_features is None or config.label_texts == "no":
        return None
    names = list(train.label_names)
    ngrams = sparse.csr_array(inputs.text_features.transform(names))
    if config.label_texts == "yes" or _name_their_labels(ngrams, samples.by_ngrams):
        return inputs.beside(ngrams, names)
    return None


def _name_their_labels(names: Any, samples: Samples) -> bool:
    """Whether names, read as texts, are near the samples of their own labels."""
    seen = np.flatnonzero(np.asarray(samples.labels.sum(axis=0)).ravel())
    read = seen[np.diff(names.indptr)[seen] > 0]
    if 2 * len(read) < len(seen):
        return False
    drawn = np.random.default_rng(0).permutation(read)[:1000]
    near = nearest(names[drawn], samples.centroids, AMONG_NEAREST)
    found = bool((near == drawn[:, None]).any(axis=1).mean() >= NAMES_FOUND)
    if found:
        _log.info("the labels' names name them: each is one more training text of its label")
    return found


def with_names(samples: Samples, names: Any) -> Samples:
    """The samples, and the names of the labels that some of them have as samples of their own.

    Args:
        samples: of any part.
        names: features of the labels' names, or None.
    """
    if names is None:
        return samples
    seen = np.asarray(samples.labels.sum(axis=0)).ravel() > 0
    rows = np.flatnonzero(seen & (np.diff(sparse_part(names).indptr) > 0))
    own = sparse.csr_array(
        (np.ones(len(rows), dtype=bool), rows, np.arange(len(rows) + 1)),
        shape=(len(rows), samples.labels.shape[1]),
    )
    return Samples.of(
        stack([samples.features, names[rows]]),
        sparse.vstack([samples.labels, own], format="csr"),
    )
