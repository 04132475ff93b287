"""Load data whatever it is: a file, a folder with a file or more for each part, the demo corpus."""

import itertools
import json
import logging
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._escape import from_system
from zlpr.data import demo
from zlpr.data.alike import doubts_together, with_same_inputs, with_same_names
from zlpr.data.columns import Columns
from zlpr.data.dataset import SPLIT_NAMES, Dataset, SplitName, split_name
from zlpr.data.feature_columns import FeatureColumns, FeatureEncoder, decode
from zlpr.data.files import file_faults, plain_suffix
from zlpr.data.formats import FORMATS, SUFFIXES, huggingface, mulan, svm
from zlpr.data.hierarchy import Hierarchy
from zlpr.data.label_names import LABELS_FILE, label_order
from zlpr.data.problems import name_all, quote, quote_all
from zlpr.data.reading import OF_COLUMNS, as_arguments, read, stacked
from zlpr.data.rows import answered_before

_log = logging.getLogger("zlpr.data")


def load(spec: str | Path, **how: Any) -> Dataset:
    """Load data by what it is called: a file, a folder, ``"demo"``, or a name on the hub.

    - A folder that holds a file per part (``train.csv``, ``dev.csv``, ``scene-test.arff.xz``, or
      the shards ``train-00000-of-00002.parquet``, …) gives data with that split, each read as the
      first one was; the labels are those that ``labels.txt`` in the folder lists, one per line, or
      else all that occur.
    - Where such a folder holds a ``reading.json``, as `save` writes it for tables and for texts
      with groups, that says which columns hold what, for the folder and for each of its parts,
      unless a column is named.
    - A folder that was saved with Hugging Face `datasets` is read with it, and so is
      ``hf:owner/name`` or ``hf:owner/name:configuration`` when the hub can be reached.
    - ``"demo"`` is `zlpr.data.demo.make()`.

    Args:
        spec: what to load.
        how: the arguments of `read`, and for labels that stand below others `hierarchy`, a
            `Hierarchy` or a file that `Hierarchy.read` takes, or `hierarchy_separator`, which
            parts the names of labels: each label then comes with its ancestors. `may_be_flat` is
            for a part of some data, in which no label need be below another. `mixed` is for parts
            that will be divided anew: their features are then what all of them call for, and not
            the first alone.

    Raises:
        UserError: it cannot be read; or no sample has a label, so that there is nothing to learn
            from it or to measure on it; or the hierarchy gives no label a parent.

    Examples:
        >>> from zlpr.data import load
        >>> len(load("demo"))
        6000
    """
    how = dict(how)
    hierarchy, separator = (how.pop(name, None) for name in ("hierarchy", "hierarchy_separator"))
    may_be_flat = how.pop("may_be_flat", False)
    if hierarchy is not None and separator is not None:
        raise UserError("hierarchy and hierarchy_separator: give one of them")
    data = _load(spec, how)
    if hierarchy is None and separator is None:
        return data
    found = _hierarchy_of(data, hierarchy, separator, may_be_flat=may_be_flat)
    closed = data.with_ancestors(found)
    if added := closed.label_names[data.num_labels :]:
        new = counted(len(added), "ancestor that was no label", "ancestors that were no labels")
        _log.warning("%s: the hierarchy adds %s: %s", data.name or spec, new, quote_all(added, 5))
    return closed


def _hierarchy_of(
    data: Dataset,
    given: Hierarchy | str | Path | None,
    separator: str | None,
    *,
    may_be_flat: bool,
) -> Hierarchy:
    """What stands above the labels of data; refused where that is nothing and may not be."""
    labels = f"{counted(data.num_labels, 'label')} of {data.name or 'the data'}"
    if given is None:
        found = Hierarchy.by_separator(data.label_names, separator or "")
        reason = f"{separator!r} stands in none of {labels}"
    else:
        found = given if isinstance(given, Hierarchy) else Hierarchy.read(given)
        place = "the hierarchy" if isinstance(given, Hierarchy) else str(given)
        reason = f"{place}: gives none of {labels} a parent"
    if not may_be_flat and not any(name in found.parents for name in data.label_names):
        raise UserError(f"{reason} ({quote_all(data.label_names, 3)})")
    return found


def _load(spec: str | Path, how: Mapping[str, Any]) -> Dataset:
    """As `load`, with the labels as they come."""
    path = Path(spec)
    how = dict(how)
    mixed = how.pop("mixed", False)
    if str(spec) == "demo" and not path.exists():
        _refuse_for_demo(how)
        return demo.make()
    with file_faults(spec):
        folder_of_parts = path.is_dir() and not huggingface.is_saved(path)
    if folder_of_parts:
        data = _load_parts(path, how, mixed=mixed)
    else:
        data = read(path, **{**how, **_told_beside(path, how)})
    if how.get("labelled", True) and not data.labels.nnz:
        held = f" ({data.columns.describe()})" if data.columns and data.columns.labels else ""
        raise UserError(
            f"{spec}: none of {counted(len(data), 'sample')} has a label{held}; name the column of "
            "the labels with labels=…"
        )
    return data


def _refuse_for_demo(how: Mapping[str, Any]) -> None:
    """Refuse what is said of a file for the demo corpus, which would not look at it."""
    of_files = ("format", *OF_COLUMNS, "label_names")
    given = as_arguments({name: how.get(name) for name in of_files})
    if given:
        raise UserError(
            f"demo: made-up texts with labels, no file with columns; leave out {' '.join(given)}"
        )


def files_behind(spec: str | Path, **how: Any) -> list[Path]:
    """What `load` reads with the same arguments: the file or folder, then what names its labels.

    That may be a list of label names, or Mulan's XML, given or beside the file, and lists beside an
    svm file. Where one of them changes, the data does. The demo corpus comes without files.

    Examples:
        >>> files_behind("reviews.csv", text="body")
        [PosixPath('reviews.csv')]
    """
    path = Path(spec)
    if str(spec) == "demo" and not path.exists():
        return []
    beside = None if path.is_dir() else mulan.xml_beside(path)
    others = [] if beside is None else [beside]
    chosen = FORMATS.get(how.get("format") or "", SUFFIXES.get(plain_suffix(path)))
    if not path.is_dir() and chosen in (None, FORMATS["svm"]):
        others += svm.lists_beside(path)
    if part_of(path):
        others.append(path.parent / READING_FILE)
    others += [Path(how[name]) for name in options_that_name_files(how)]
    return [path, *(file for file in others if file.is_file())]


def options_that_name_files(how: Mapping[str, Any]) -> list[str]:
    """Those of the given arguments of `read` whose values are files.

    Examples:
        >>> options_that_name_files({"text": "body", "label_names": "names.txt", "labels": "a.xml"})
        ['labels', 'label_names']
    """
    by_xml = ["labels"] if mulan.is_xml(how.get("labels")) else []
    paths = ("label_names", "hierarchy")
    return by_xml + [name for name in paths if isinstance(how.get(name), str | Path)]


def _load_parts(folder: Path, how: Mapping[str, Any], *, mixed: bool) -> Dataset:
    parts = _part_files(folder)
    if not parts:
        raise UserError(
            f"{folder}: no files called train, validation or test with a known ending "
            f"({', '.join(SUFFIXES)})"
        )
    how = {**how, **_told(folder, how)}
    listed = folder / LABELS_FILE
    if listed.is_file() and how.get("label_names") is None:
        how = {**how, "label_names": listed}
    read_parts = _read_parts(parts, how, mixed=mixed)
    lists: set[Path] = set()
    if how.get("label_names") is None:
        read_files = itertools.chain.from_iterable(map(zip, parts.values(), read_parts.values()))
        lists = {svm.names_path(path) for path, data in read_files if _counts_names(data)}
    if mixed:
        held = _features_of_all([*itertools.chain.from_iterable(read_parts.values())])
        for name, datasets in read_parts.items():
            read_parts[name] = [_encoded_anew(data, held) for data in datasets]
    data = join_parts(
        {n: concatenate(p) for n, p in read_parts.items()}, name=from_system(folder.name)
    )
    note = _left_out_note(folder, lists)
    if note is None:
        return data
    _log.warning(note)
    return replace(data, notes=(*data.notes, note))


def _read_parts(
    parts: Mapping[SplitName, Sequence[Path]], how: Mapping[str, Any], *, mixed: bool
) -> dict[SplitName, list[Dataset]]:
    """The files of each part; all are read like the first one."""
    width = None if how.get("like") is None else how["like"].num_features
    first: Columns | None = None
    read_parts: dict[SplitName, list[Dataset]] = {}
    for name, paths in parts.items():
        another = bool(read_parts) and not mixed
        read_parts[name] = []
        for path in paths:
            options = how if first is None else _like(how, first, mixed=mixed, another=another)
            data = read(path, **options)
            read_parts[name].append(data)
            if first is None and data.columns is not None:
                first = replace(data.columns, num_features=width)
    return read_parts


def _counts_names(data: Dataset) -> bool:
    """Whether a file has numbers for its labels, which a list beside it names."""
    return data.columns is not None and data.columns.numbered


def _left_out_note(folder: Path, lists: Set[Path]) -> str | None:
    """A sentence on files that seem to be data, or a part of it, and are read as none.

    Args:
        folder: of the parts.
        lists: where names of labels of its files were looked for.
    """
    others = {path for path in folder.iterdir() if part_of(path) is None} - lists
    names = [path.name for path in others if not path.name.startswith(".")]
    like_data = [
        name
        for name in sorted({*names} - {READING_FILE, SPLIT_FILE, LABELS_FILE})
        if plain_suffix(Path(name)) in SUFFIXES or split_name(name.partition(".")[0])
    ]
    if not like_data:
        return None
    return f"{folder}: left out {quote_all(like_data, 5)}; not called or ending as a part's file"


def _like(
    how: Mapping[str, Any], columns: Columns, *, mixed: bool, another: bool
) -> dict[str, Any]:
    """The arguments of `read` for more data; ranges and positions mean the columns found before.

    Data that is to be mixed with other data has these columns too, and categories of its own.
    """
    how = {**how, **answered_before(how, columns, another_part=another)}
    held = columns.features
    if held is None:
        return {**how, "like": columns}
    if not mixed:
        return {**how, "like": columns, "features": None, "categories": None}
    named = {"features": held.columns, "categories": tuple(held.categories) or None}
    return {**how, "like": replace(columns, features=None), **named}


def _features_of_all(datasets: Sequence[Dataset]) -> FeatureColumns | None:
    """The columns of tables with what all of them call for; None for any other data."""
    found = [data.columns.features for data in datasets if data.columns is not None]
    held = found[0] if found else None
    for data, other in zip(datasets[1:], found[1:], strict=True):
        if held is None or other is None:
            return None
        if held.numbers != other.numbers:
            name = min({*held.numbers} ^ {*other.numbers})
            raise UserError(
                f"{data.name}: the column {quote(name)} holds numbers in one part and categories "
                f"in another; say that they are categories with categories={quote(name)}"
            )
        held = held.joined(other)
    return held


def _encoded_anew(data: Dataset, held: FeatureColumns | None) -> Dataset:
    """The same samples with a table's features as these columns have them."""
    columns, features = data.columns, data.features
    if held is None or columns is None or not isinstance(features, np.ndarray):
        return data
    if columns.features is None or columns.features == held:
        return data
    features = FeatureEncoder(held).encode(decode(columns.features, features))
    columns = replace(columns, features=held, num_features=features.shape[1])
    return replace(data, features=features, columns=columns)


READING_FILE = "reading.json"
"""In a folder of parts: which columns hold what, as arguments of `read`."""

SPLIT_FILE = "split.json"
"""Which sample is in which part, as `zlpr data split` writes it beside the parts."""

_TOLD = ("features", "categories", "labels", "id", "group")


def _told_beside(path: Path, how: Mapping[str, Any]) -> dict[str, Any]:
    """What the folder of a part says of it, where the part is read by itself."""
    return _told(path.parent, how) if part_of(path) else {}


def _told(folder: Path, how: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `read` that a folder brings itself, where the caller names no column."""
    path = folder / READING_FILE
    if not path.is_file() or any(how.get(name) is not None for name in ("text", *_TOLD, "like")):
        return {}
    with file_faults(path):
        text = path.read_text(encoding="utf-8")
    try:
        held = json.loads(text)
        fitting = isinstance(held, dict) and all(_is_told(*item) for item in held.items())
    except (ValueError, RecursionError):
        fitting = False
    if not fitting:
        raise UserError(
            f"{path}: expected an object with {', '.join(_TOLD)}, each a column or a list of them; "
            "where it is no file of zlpr's, name a column, as text=… or features=…"
        )
    return dict(held)


def _is_told(name: str, columns: Any) -> bool:
    each = columns if isinstance(columns, list) else [columns]
    filled = bool(each) or name == "categories"  # a table of numbers alone has none
    return name in _TOLD and filled and all(isinstance(column, str) for column in each)


_SHARD = re.compile(r"(.+)-(\d+)-of-(\d+)")


def part_of(path: Path) -> SplitName | None:
    """Which part of its folder's data a file is, by its name; None where it is no file of data."""
    stem = path.name.partition(".")[0]
    shard = _SHARD.fullmatch(stem)
    part = split_name(re.split("[-_]", shard.group(1) if shard else stem)[-1])
    return part if path.is_file() and plain_suffix(path) in SUFFIXES else None


def _part_files(folder: Path) -> dict[SplitName, list[Path]]:
    """The files of each part: one, or all its shards in order."""
    found: dict[SplitName, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        part = part_of(path)
        if part is None:
            continue
        others = found.setdefault(part, [])
        if others and not _SHARD.fullmatch(path.name.partition(".")[0]):
            raise UserError(f"{folder}: both {others[0].name} and {path.name} are the {part} part")
        others.append(path)
    for part, paths in found.items():
        _check_shards(folder, part, paths)
    return {name: found[name] for name in SPLIT_NAMES if name in found}


def _check_shards(folder: Path, part: SplitName, paths: Sequence[Path]) -> None:
    """Refuse shards of a part of which some are missing, or that are of several divisions."""
    shards = [_SHARD.fullmatch(path.name.partition(".")[0]) for path in paths]
    places = [(int(shard[2]), int(shard[3])) for shard in shards if shard]
    totals = {total for _, total in places}
    if places and not (len({*places}) == len(places) and totals == {len(places)}):
        raise UserError(
            f"{folder}: the {part} part should be as many files as their names say, each once; "
            f"there {'is' if len(paths) == 1 else 'are'} {name_all([p.name for p in paths], 6)}"
        )


def join_parts(parts: Mapping[SplitName, Dataset], name: str = "") -> Dataset:
    """Put the parts of a predefined split together, with the labels of all of them.

    Examples:
        >>> train = Dataset.from_label_sets([{"a"}], texts=["x"])
        >>> test = Dataset.from_label_sets([{"b"}], texts=["y"])
        >>> both = join_parts({"train": train, "test": test})
        >>> both.label_names, both.split.tolist()
        (('a', 'b'), ['train', 'test'])
    """
    split = np.repeat(np.array(list(parts)), [len(data) for data in parts.values()])
    if "train" in parts and parts["train"].groups is not None:  # which a split of it has to keep
        parts = {part: _with_groups(data) for part, data in parts.items()}
    return replace(concatenate(list(parts.values())), split=split, name=name)


def _with_groups(data: Dataset) -> Dataset:
    return data if data.groups is not None else replace(data, groups=[""] * len(data))


def concatenate(datasets: Sequence[Dataset]) -> Dataset:
    """One data set after the other, with the labels of all; fields that one lacks are left out.

    Raises:
        UserError: some hold texts and others features, or features of another width.
    """
    if len(datasets) == 1:
        return datasets[0]
    datasets = with_same_names(with_same_inputs(datasets))
    names = _union([data.label_names for data in datasets])
    aligned = [data.with_label_names(names) for data in datasets]
    notes = itertools.chain.from_iterable(data.notes for data in datasets)

    def joined(field: str) -> list[str] | None:
        columns = [getattr(data, field) for data in aligned]
        if any(column is None for column in columns):
            return None
        return list(itertools.chain.from_iterable(columns))

    split, texts = joined("split"), joined("texts")
    return replace(
        aligned[0],
        labels=sparse.csr_array(sparse.vstack([data.labels for data in aligned], format="csr")),
        texts=texts,
        features=None if texts is not None else stacked([data.features for data in aligned]),
        ids=joined("ids"),
        groups=joined("groups"),
        split=None if split is None else np.array(split),
        notes=(*notes, *doubts_together(datasets)),
    )


def _union(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The first list where it holds all names, and all names sorted otherwise."""
    every = set().union(*lists)
    for names in lists:
        if len(names) == len(every):
            return names
    return tuple(sorted(every, key=label_order(every)))
