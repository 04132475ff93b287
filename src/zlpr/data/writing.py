"""Write a `Dataset` to a file in any of the formats."""

import os
from pathlib import Path

from zlpr._atomic import folder_beside, replacing, write_text
from zlpr._errors import UserError
from zlpr.data.dataset import Dataset
from zlpr.data.files import COMPRESSED_SUFFIXES, plain_suffix
from zlpr.data.formats import FORMATS, SUFFIXES, Format, info, mulan, svm
from zlpr.data.label_names import listing, numbers


def write(dataset: Dataset, path: str | os.PathLike[str], *, format: str | None = None) -> None:  # noqa: A002
    """Write data to a file, whole or not at all.

    Reading the file back gives the same samples, in the same order, with the same label sets. What
    a format cannot hold is an error, but for these: formats of lines turn line breaks inside a text
    into spaces (fasttext, libmultilabel), and formats of texts keep only the labels that some
    sample has, in sorted order (read them with `label_names` to have the others). Mulan's XML is
    written beside the ARFF file, and so is a list of an svm file's labels, unless their names are
    0, 1, 2, …

    Args:
        dataset: what to write.
        path: the file; an ending ``.gz``, ``.bz2`` or ``.xz`` compresses it.
        format: one of `FORMATS`, where the name does not tell.

    Examples:
        >>> from zlpr.data import demo, write
        >>> write(demo.make(10), "tickets.jsonl.gz")  # doctest: +SKIP
    """
    target = Path(path)
    chosen = _format_for(target, format)
    if chosen.target == "folder":
        _write_folder(dataset, target, chosen)
        return
    names = _names(dataset, svm.names_path(target)) if chosen.name == "svm" else None
    with replacing(target) as beside:
        if chosen.target == "file":
            chosen.write(dataset, beside)
        else:
            opener = COMPRESSED_SUFFIXES.get(target.suffix.lower(), open)
            with opener(beside, "wt", encoding="utf-8", newline="") as stream:
                chosen.write(dataset, stream)
    if chosen.name == "mulan":
        write_text(mulan.xml_path(target), mulan.xml(dataset))
    if names is not None:
        write_text(svm.names_path(target), names)


def _names(dataset: Dataset, path: Path) -> str | None:
    """The list of labels that goes beside an svm file; None where their numbers are their names.

    One that is there already is replaced in any case: it would name them wrongly.
    """
    if dataset.label_names == numbers(dataset.num_labels) and not path.exists():
        return None
    return listing(dataset.label_names, path.name)


def _format_for(path: Path, name: str | None) -> Format:
    if name is not None:
        return info(name)
    suffix = plain_suffix(path)
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    raise UserError(f"{path}: in what format? Name one of {', '.join(FORMATS)}")


def _write_folder(dataset: Dataset, target: Path, chosen: Format) -> None:
    if target.exists():
        raise UserError(f"{target}: exists already")
    with folder_beside(target) as beside:
        chosen.write(dataset, beside / "data")
        (beside / "data").rename(target)
