"""What was read as what: which columns of a file hold the texts, the labels, the identifiers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from zlpr._counted import counted
from zlpr._typed_json import from_plain, to_plain
from zlpr.data.feature_attributes import FeatureAttributes
from zlpr.data.feature_columns import FeatureColumns
from zlpr.data.problems import quote, quote_all

_SHOWN = 6


@dataclass(frozen=True)
class Columns:
    """How a file was understood; a model folder keeps it, so that other files are read alike.

    Attributes:
        format: the name of the file's format.
        text: the columns of the texts.
        labels: the column of label sets, or the columns of 0 and 1, one per label.
        indicators: whether `labels` are columns of 0 and 1.
        label_delimiter: what separates the labels in one cell; None where nothing was seen to, ""
            where the user said that nothing does.
        id: the column of identifiers.
        group: the column of groups.
        split: the column that names the part.
        header: whether the columns have names; else they are "column 0", "column 1", …
        numbered: whether labels are numbers that count names, listed elsewhere, from 0.
        num_features: the width of the feature matrix; None for texts.
        seen_width: whether that is only how far the rows go of a sparse file without a header; not
            kept in JSON.
        features: the columns of a table that it was made from, where it was.
        attributes: those of an ARFF file that it was made from, where it was.
        also_text: columns that look like texts and were not chosen; not kept in JSON.
        unread: columns that were not looked at otherwise; not kept in JSON.

    Examples:
        >>> columns = Columns("csv", text=("overview",), labels=("genres",), label_delimiter="|")
        >>> print(columns.describe())
        csv: text from 'overview', labels from 'genres' separated by '|'
        >>> Columns.from_json(columns.to_json()) == columns
        True
    """

    format: str = ""
    text: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    indicators: bool = False
    label_delimiter: str | None = None
    id: str | None = None
    group: str | None = None
    split: str | None = None
    header: bool = True
    numbered: bool = False
    num_features: int | None = None
    seen_width: bool = False
    features: FeatureColumns | None = None
    attributes: FeatureAttributes | None = None
    also_text: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def describe(self) -> str:
        """One line that says what was read, for people."""
        said = []
        if self.features is not None:
            said.append(self.features.describe(_SHOWN))
        elif self.num_features is not None:
            said.append(counted(self.num_features, "feature"))
        if self.text:
            unchosen = f" (not from {quote_all(self.also_text, _SHOWN)})" if self.also_text else ""
            said.append(f"text from {quote_all(self.text, _SHOWN)}{unchosen}")
        if self.indicators:
            many = f"{len(self.labels):,} columns" if len(self.labels) > 1 else "one column"
            said.append(f"labels from {many} of 0 and 1 ({quote_all(self.labels, _SHOWN)})")
        elif self.labels:
            separated = f" separated by {self.label_delimiter!r}" if self.label_delimiter else ""
            said.append(f"labels from {quote_all(self.labels, _SHOWN)}{separated}")
        if self.numbered:
            said.append("labels numbered from 0")
        others = {"id": self.id, "group": self.group, "split": self.split}
        said += [f"{role} from {quote(name)}" for role, name in others.items() if name is not None]
        unread = f"; not read: {quote_all(self.unread, _SHOWN)}" if self.unread else ""
        return f"{self.format or 'data'}: {', '.join(said)}{unread}" if said else self.format

    def to_json(self) -> dict[str, Any]:
        """What another file is read by, as plain JSON; what is not set is left out."""
        kept = to_plain(replace(self, also_text=(), unread=()))
        del kept["seen_width"]
        unset = {"format": ""}  # a delimiter of "" says that there is none
        return {
            name: value for name, value in kept.items() if value not in (None, [], unset.get(name))
        }

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Columns":
        """The columns that `to_json` gave.

        Raises:
            ValueError: names the field that is unknown or of another type.
        """
        return from_plain(cls, held, "columns")
