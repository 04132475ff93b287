"""Rows on their way from a file into a `Dataset`: what the user asked for and what was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._errors import UserError
from zlpr.data.columns import Columns
from zlpr.data.dataset import Dataset
from zlpr.data.feature_columns import FeatureColumns, decode
from zlpr.data.problems import quote_all

Column = str | int
"""A column by its name or by its position, from 0; digits that are no name are a position, too."""

UnknownLabels = Literal["error", "drop"]


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read; what is None is found out from the file.

    Attributes:
        text: the column of the texts, or several whose texts are joined by a space.
        features: columns of numbers and of categories to learn from instead of a text, as names,
            patterns (`sensor_*`) or ranges (`first:last`); all columns of numbers where there is
            no text.
        categories: those of them that are categories although they hold numbers.
        labels: the column of label sets, or several columns of 0 and 1, one per label.
        id: the column of identifiers; False for none. A column that is only called "id" is taken
            where every one of the first rows has a name or an integer in it.
        group: the column of groups that a split keeps together.
        split: the column that says "train", "validation" or "test"; False for none. A column that
            is only called "split" is taken where all of the first rows say one of these.
        label_delimiter: what separates the labels in one cell; "" for one label per cell.
        header: whether a table's first row names the columns.
        quoted: whether a table's fields may stand in double quotes.
        encoding: the encoding of a text file.
        labelled: False to read texts alone: every label set is empty.
        like: how another file was read; what is not said is read in the same way.
        label_names: all labels in order, which name those of a format that has numbers alone.
    """

    text: Column | Sequence[Column] | None = None
    features: Column | Sequence[Column] | None = None
    categories: Column | Sequence[Column] | None = None
    labels: Column | Sequence[Column] | None = None
    id: Column | Literal[False] | None = None
    group: Column | None = None
    split: Column | Literal[False] | None = None
    label_delimiter: str | None = None
    header: bool | None = None
    quoted: bool | None = None
    encoding: str = "utf-8"
    labelled: bool = True
    like: Columns | None = None
    label_names: tuple[str, ...] | None = None

    @property
    def names_features(self) -> bool:
        """Whether the user said which columns are features."""
        return bool(listed(self.features) or listed(self.categories))

    def columns(self) -> list[tuple[str, Column]]:
        """All columns that the user named or numbered, each with what it is to be."""
        roles = ("text", "labels", "id", "group", "split")
        return [(role, column) for role in roles for column in listed(getattr(self, role))]

    def all_columns(self) -> list[Column]:
        """All that the user named or numbered, the ends of ranges of features among them."""
        features = [*listed(self.features), *listed(self.categories)]
        ends = [end for column in features for end in str(column).split(":")]
        return [*(column for _, column in self.columns()), *ends]


@dataclass
class Block:
    """Consecutive rows of a file, column by column.

    Attributes:
        labels: the label names of each row, in the order and as often as the file has them.
        lines: the number of the line where each row starts, for messages.
        texts: a text per row, or None where there are features.
        features: a matrix with a row per row, dense or CSR.
        cells: of a table's columns that are features: numbers, NaN where missing, and categories;
            `zlpr.data.feature_columns` makes a matrix of them.
        ids: an identifier per row.
        groups: a group per row.
        split: the part each row belongs to.
        label_names: all labels in order, where the file declares them.
        columns: what was read as what, where the format has columns.
    """

    labels: list[Sequence[str]]
    lines: Sequence[int]
    texts: list[str] | None = None
    features: sparse.csr_array[Any] | NDArray[Any] | None = None
    cells: Mapping[str, Any] | None = None
    ids: list[str] | None = None
    groups: list[str] | None = None
    split: list[str] | None = None
    label_names: tuple[str, ...] | None = None
    columns: Columns | None = None

    def inputs(self, file: str) -> Any:
        """What a model reads of the rows: their texts, or their features.

        Args:
            file: for the message.

        Raises:
            UserError: they hold categories, and nothing says which features these are.
        """
        if self.texts is None and self.features is None:
            held = None if self.columns is None else self.columns.features
            names = quote_all(tuple(held.categories), 3) if held is not None else "the columns"
            raise UserError(
                f"{file}: categories ({names}) are features only where a model was trained on "
                "such columns, and this one was not; leave them out of the features"
            )
        return self.features if self.texts is None else self.texts


def is_position(column: Column) -> bool:
    """Whether a column that has no such name is meant by its position."""
    return isinstance(column, int) or (column.isascii() and column.isdigit())


def listed(asked: Column | Sequence[Column] | Literal[False] | None) -> list[Column]:
    """The columns that an option names: none, one or several."""
    if asked is None or asked is False:
        return []
    return [asked] if isinstance(asked, str | int) else list(asked)


def answered_before(
    asked: Mapping[str, Any], first: Columns, *, another_part: bool
) -> dict[str, str | None]:
    """What to ask for of columns in more data in place of what was asked of the first, by role.

    A position means the column that stands there in the first data, by its name: None leaves it to
    how that was read. Ids and groups may be absent in other parts.

    Args:
        asked: columns by name or position.
        first: what was found of them.
        another_part: whether this is another part, and not more rows of the same.

    Examples:
        >>> first = Columns("csv", text=("body",), labels=("tags",), group="user")
        >>> asked = {"text": "1", "labels": "tags", "group": "user"}
        >>> answered_before(asked, first, another_part=True)
        {'text': None, 'group': None}
    """
    answered: dict[str, str | None] = {}
    for role in ("text", "labels") if first.header else ():
        if getattr(first, role) and any(map(is_position, listed(asked.get(role)))):
            answered[role] = None
    for role in ("id", "group"):
        if listed(asked.get(role)):
            answered[role] = None if another_part else getattr(first, role)
    return answered


def texts_of(dataset: Dataset) -> Sequence[str]:
    """The texts, for a format that holds nothing else."""
    if dataset.texts is None:
        other = "csv" if table_columns(dataset) else "svm or mulan"
        raise UserError(f"the data has features, and this format holds texts; use {other}")
    return dataset.texts


def features_of(dataset: Dataset) -> Any:
    """The features, for a format that holds nothing else."""
    if dataset.features is None:
        raise UserError("the data has texts, and this format holds features; use jsonl or csv")
    features: Any = dataset.features
    if not np.isfinite(features.data if hasattr(features, "tocsr") else features).all():
        other = "; use csv" if table_columns(dataset) else ""
        raise UserError(f"the data has missing numbers, which this format cannot hold{other}")
    return features


def table_columns(dataset: Dataset) -> FeatureColumns | None:
    """The columns of a table that features were made of, where they were."""
    if dataset.features is None or dataset.columns is None:
        return None
    return dataset.columns.features


def sample_columns(dataset: Dataset) -> dict[str, Sequence[Any]]:
    """Samples as a table: id, text or a table's own columns, labels, group, split, as far as known.

    Raises:
        UserError: the features were not made of a table's columns, or one of these is called as
            another column of the table that would be written.
    """
    columns: dict[str, Sequence[Any]] = {} if dataset.ids is None else {"id": dataset.ids}
    held = table_columns(dataset)
    if held is None:
        columns["text"] = texts_of(dataset)
    else:
        both = {"id", "labels", "group", "split"} & set(held.columns)
        if both:
            raise UserError(
                f"the column {min(both)!r} of the features is called as one that is written beside "
                "them; call it otherwise"
            )
        columns.update(decode(held, np.asarray(dataset.features)))
    columns["labels"] = dataset.label_sets()
    if dataset.groups is not None:
        columns["group"] = dataset.groups
    if dataset.split is not None:
        columns["split"] = dataset.split.tolist()
    return columns


def number_columns(dataset: Dataset) -> tuple[str, ...]:
    """Those of `sample_columns` that hold numbers."""
    held = table_columns(dataset)
    return () if held is None else held.numbers
