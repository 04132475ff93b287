"""The one form in which multi-label data lives in memory."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._ancestors import Ancestors
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.columns import Columns
from zlpr.data.hierarchy import Hierarchy
from zlpr.data.label_names import numbers
from zlpr.data.problems import quote

SplitName = Literal["train", "validation", "test"]
SPLIT_NAMES: tuple[SplitName, ...] = get_args(SplitName)

_SPLIT_SYNONYMS: dict[str, SplitName] = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev", "development"), "validation"),
    **dict.fromkeys(("test", "testing", "tst", "eval"), "test"),
}


def split_name(word: str) -> SplitName | None:
    """The part that a file or a cell means: "dev" is "validation"; None for any other word.

    Examples:
        >>> split_name("Dev"), split_name("review")
        ('validation', None)
    """
    return _SPLIT_SYNONYMS.get(word.strip().lower())


@dataclass(frozen=True, eq=False)
class Dataset:
    """Texts or features with their label sets.

    Attributes:
        labels: sparse indicator of shape (samples, labels), dtype bool.
        label_names: a name per column of `labels`.
        texts: a text per sample, or None where `features` are given.
        features: matrix of shape (samples, features), dense or CSR, or None.
        ids: an identifier per sample, or None.
        groups: a group per sample that a split must keep together, or None; a sample whose group is
            "" belongs to none.
        split: per sample one of "train", "validation", "test", or None where the data has no split.
        name: what to call the data in tables and records.
        notes: what reading the data had to say, such as how many bad rows were dropped.
        columns: what was read as what, where the data comes from a file.
        hierarchy: the labels' parents, where they have some; every label then comes with its
            ancestors, see `with_ancestors`.

    Examples:
        >>> data = Dataset.from_label_sets([{"red"}, {"blue", "red"}], texts=["a", "b"])
        >>> data.label_names, data.label_sets()
        (('blue', 'red'), [('red',), ('blue', 'red')])
    """

    labels: sparse.csr_array[Any]
    label_names: tuple[str, ...]
    texts: Sequence[str] | None = None
    features: sparse.csr_array[Any] | NDArray[Any] | None = None
    ids: Sequence[str] | None = None
    split: NDArray[np.str_] | None = None
    name: str = ""
    groups: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    columns: Columns | None = None
    hierarchy: Hierarchy | None = None

    def __post_init__(self) -> None:
        if not self.labels.data.all():  # a cell that is stored and false is no label
            held = self.labels.copy()
            held.eliminate_zeros()
            object.__setattr__(self, "labels", held)
        samples, labels = self.labels.shape
        if labels != len(self.label_names):
            raise ValueError(
                f"labels has {counted(labels, 'column')}, label_names "
                f"{counted(len(self.label_names), 'name')}"
            )
        if (self.texts is None) == (self.features is None):
            raise ValueError("a Dataset holds either texts or features")
        for field in ("texts", "ids", "groups", "split"):
            value = getattr(self, field)
            if value is not None and len(value) != samples:
                raise ValueError(
                    f"{field} has {len(value)} entries for {counted(samples, 'sample')}"
                )
        if self.features is not None and self.features.shape[0] != samples:
            rows = counted(self.features.shape[0], "row")
            raise ValueError(f"features has {rows} for {counted(samples, 'sample')}")

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    @property
    def num_labels(self) -> int:
        """How many labels there are."""
        return len(self.label_names)

    @property
    def inputs(self) -> Any:
        """What a model takes: the texts, or the features where there are no texts."""
        return self.texts if self.texts is not None else self.features

    def select(self, rows: Sequence[int] | NDArray[Any]) -> "Dataset":
        """The samples at these rows (positions or a boolean mask), in this order."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64)
        return replace(
            self,
            labels=self.labels[index],
            texts=None if self.texts is None else [self.texts[i] for i in index.tolist()],
            features=None if self.features is None else self.features[index],
            ids=None if self.ids is None else [self.ids[i] for i in index.tolist()],
            groups=None if self.groups is None else [self.groups[i] for i in index.tolist()],
            split=None if self.split is None else self.split[index],
        )

    def part(self, name: SplitName) -> "Dataset":
        """The samples of one split."""
        if self.split is None:
            raise ValueError("this data has no split; make one with zlpr.data.make_split")
        return self.select(self.split == name)

    def label_sets(self) -> list[tuple[str, ...]]:
        """The names of each sample's labels, in column order."""
        names, pointer = self.label_names, self.labels.indptr.tolist()
        columns = self.labels.sorted_indices().indices.tolist()
        return [
            tuple(names[c] for c in columns[start:end])
            for start, end in itertools.pairwise(pointer)
        ]

    def with_label_names(
        self, names: Sequence[str], *, unknown: Literal["error", "drop"] = "error"
    ) -> "Dataset":
        """The same samples with these labels in this order, as a fitted model needs them.

        Labels that the data does not know get empty columns. A label of the data that is not among
        `names` is an error if a sample has it, unless `unknown` is "drop": then it is left out of
        the label sets and a note says how often.
        """
        if tuple(names) == self.label_names:
            return self
        column = {name: number for number, name in enumerate(names)}
        order = np.array([column.get(name, -1) for name in self.label_names], dtype=np.int64)
        matrix = self.labels.tocoo()
        columns = order[matrix.col]
        strange = np.unique(matrix.col[columns < 0])
        notes = self.notes
        if len(strange):
            few = ", ".join(quote(self.label_names[i]) for i in strange[:5].tolist())
            lost = counted(int((columns < 0).sum()), "label")
            what = f"{lost} of {counted(len(strange), 'unknown kind')}: {few}"
            if unknown == "error":
                raise UserError(f"{self.name or 'the data'} has {what}; drop them to go on")
            notes = (*notes, f"{self.name or 'the data'}: left out {what}")
        kept = columns >= 0
        labels = sparse.csr_array(
            (np.ones(int(kept.sum()), dtype=bool), (matrix.row[kept], columns[kept])),
            shape=(len(self), len(names)),
        )
        return replace(self, labels=labels, label_names=tuple(names), notes=notes)

    def with_ancestors(self, hierarchy: Hierarchy) -> "Dataset":
        """The same samples, each label with all its ancestors.

        Ancestors that are no labels yet become labels, after the others.

        Raises:
            UserError: there are too many pairs of a label and an ancestor.

        Examples:
            >>> data = Dataset.from_label_sets([{"football"}, set()], texts=["a", "b"])
            >>> data.with_ancestors(Hierarchy({"football": ("sports",)})).label_sets()
            [('football', 'sports'), ()]
        """
        names = hierarchy.with_ancestors(self.label_names)
        matrix = self.labels.tocoo()
        try:
            ancestors = Ancestors.of(hierarchy.numbered(names))
        except ValueError as fault:
            raise UserError(f"the hierarchy of {self.name or 'the labels'}: {fault}") from None
        cells = ancestors.close(matrix.row.astype(np.int64) * len(names) + matrix.col)
        rows, columns = np.divmod(cells, max(1, len(names)))
        labels = sparse.csr_array(
            (np.ones(len(cells), dtype=bool), (rows, columns)), shape=(len(self), len(names))
        )
        return replace(self, labels=labels, label_names=names, hierarchy=hierarchy)

    def with_numbers_named(self, names: Sequence[str]) -> "Dataset":
        """The same samples, with the labels that are numbers named by their positions in `names`.

        A number that is no position stays a label of its own, after the others.

        Raises:
            ValueError: such a number is one of `names`, too.

        Examples:
            >>> data = Dataset.from_label_sets([{"2"}, {"0", "9"}], texts=["a", "b"])
            >>> data.with_numbers_named(["x", "y", "z"]).label_sets()
            [('z',), ('x', '9')]
        """
        position = dict(zip(numbers(len(names)), names, strict=True))
        meant = tuple(position.get(name, name) for name in self.label_names)
        strange = [name for name in self.label_names if name not in position]
        both = set(strange) & set(names)
        if both:
            raise ValueError(f"{min(both)!r} is a name and no position among {len(names)} names")
        return replace(self, label_names=meant).with_label_names((*names, *strange))

    @classmethod
    def from_label_sets(
        cls,
        label_sets: Sequence[Iterable[str]],
        *,
        label_names: Sequence[str] | None = None,
        **fields: Any,
    ) -> "Dataset":
        """Build the label matrix from sets of names; the names are sorted unless given.

        Raises:
            ValueError: a set is a text, whose letters would be its labels; a label is no text; or
                one is not among the names that were given.
        """
        label_sets = [labels if isinstance(labels, str) else list(labels) for labels in label_sets]
        for labels in label_sets:
            wrong = next((label for label in labels if not isinstance(label, str)), None)
            if isinstance(labels, str) or wrong is not None:
                what = f"got the text {labels!r}" if wrong is None else f"one holds {wrong!r}"
                raise ValueError(f"label_sets must be sets or lists of label names, {what}")
        sets = [sorted(set(labels)) for labels in label_sets]
        names = tuple(label_names or sorted({label for labels in sets for label in labels}))
        column = {name: index for index, name in enumerate(names)}
        strange = next((label for labels in sets for label in labels if label not in column), None)
        if strange is not None:
            raise ValueError(f"{strange!r} is not among the {len(names)} label_names")
        counts = [len(labels) for labels in sets]
        indices = np.array([column[label] for labels in sets for label in labels], dtype=np.int64)
        indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        matrix = sparse.csr_array(
            (np.ones(len(indices), dtype=bool), indices, indptr), shape=(len(sets), len(names))
        )
        matrix.sort_indices()
        return cls(labels=matrix, label_names=names, **fields)
