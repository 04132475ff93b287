"""The model folder: written whole or not at all, checked when it is read.

config.json        kind, id2label, loss and its parameters, decoding rule, what makes probabilities,
                   version, and the SHA-256 of every other file but the card
model.safetensors  the weights
…                  vocabulary.json, or a transformer's tokenizer
encoder/           a frozen encoder, where it was asked to be copied
metrics.json       the figures on validation and test
README.md          the model card
"""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zlpr import __version__, decoding
from zlpr._atomic import behind_link, check_not_mounted, folder_beside, locked
from zlpr._counted import counted
from zlpr._digest import file_digest
from zlpr._errors import UserError
from zlpr.metrics import LabelFrequencies
from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.card import empty_of, model_card
from zlpr.models.registry import saved_as

CONFIG, METRICS, CARD = "config.json", "metrics.json", "README.md"
# What holds the checksums itself, and the card, which a user may well edit.
UNCHECKED = frozenset({CONFIG, CARD})
# What a kind of model may read from its folder, so that none of it escapes the check.
_READ = ("*.safetensors", "vocab*", "tokenizer*", "merges*", "special_tokens*", "added_tokens*")
# What reading damaged content may raise.
_FAULTS = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError),
    *(OverflowError, MemoryError),  # a count that no matrix has
)


def save(model: FittedModel, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model folder; a previous model there stays whole until the new one is complete.

    Args:
        model: what to write.
        folder: made if need be.
        overwrite: replace a model that the folder holds; files that are not its own are kept.

    Raises:
        UserError: `folder` holds a model and `overwrite` is not given, or something else; or
            another process is writing to it.
        OSError: it cannot be written, as on a full disk; what was there is untouched.
    """
    target = behind_link(folder)
    with folder_beside(target) as beside:
        check_writable(target, overwrite=overwrite)
        parts = model.save_parts(beside)
        record = model.record
        _write_json(beside / METRICS, {"empty": empty_of(record), **record.metrics})
        (beside / CARD).write_text(model_card(model), encoding="utf-8")
        config = {
            **parts,
            "zlpr_version": __version__,
            "zlpr_model": model.kind,
            "id2label": {str(i): name for i, name in enumerate(model.label_names)},
            "label2id": {name: i for i, name in enumerate(model.label_names)},
            "problem_type": "multi_label_classification",
            "loss": record.loss,
            "loss_params": dict(record.loss_params),
            "decoding": model.decoder.to_config(),
            "calibrator": model.calibrator.to_config(),
            "training": {
                "settings": dict(record.settings),
                "chosen": dict(record.chosen),
                "data": dict(record.data),
                "seconds": record.seconds,
                "decision": dict(record.decision),
                "frequencies": _frequencies_to_json(record.frequencies),
            },
            "files": {
                path.relative_to(beside).as_posix(): file_digest(path)
                for path in _files(beside)
                if path.relative_to(beside).as_posix() not in UNCHECKED
            },
        }
        _write_json(beside / CONFIG, config)
        _make_ordinary(beside)
        _swap(beside, target)


def load(folder: str | os.PathLike[str]) -> FittedModel:
    """Read a model folder, after checking that its files are all there and unaltered.

    Nothing in the folder is executed: weights are safetensors, everything else is JSON.

    Raises:
        UserError: the folder is not a model, or a file is missing, altered or unreadable.
    """
    from safetensors import SafetensorError

    path = Path(folder)
    config = read_config(path)
    _check_files(path, config)
    try:
        return _read_model(path, config)
    except UserError as fault:
        if str(path) in str(fault):
            raise
        raise UserError(f"{path / CONFIG}: {fault}") from fault
    except (*_FAULTS, SafetensorError) as fault:
        reason = " ".join(str(fault).split())[:300]
        raise UserError(f"{path / CONFIG}: not a model this version can read ({reason})") from fault


def check_not_of_model(target: Path, folder: Path) -> None:
    """Refuse to write over a file that a model folder holds.

    Raises:
        UserError: `target` is one of its files.
    """
    files = read_config(folder).get("files")
    names = (*UNCHECKED, *(files if isinstance(files, dict) else ()))
    own = [folder / name for name in names]
    if target.exists() and any(path.exists() and target.samefile(path) for path in own):
        raise UserError(f"{target}: is read from; give --out another name")


def read_config(folder: Path) -> dict[str, Any]:
    """The folder's config.json, or a line that says why it is none of ours."""
    if folder.is_file():
        raise UserError(f"{folder}: a file; a model is a folder that zlpr train wrote")
    if not folder.is_dir():
        previous = _previous(folder)
        hint = f"; an interrupted save left the previous model in {previous}"
        raise UserError(f"{folder}: no such model folder{hint if previous.is_dir() else ''}")
    if not (folder / CONFIG).is_file():  # a pipe of that name would be waited for
        raise UserError(f"{folder}: not a model folder, it has no {CONFIG}")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise UserError(f"{folder / CONFIG}: not valid JSON ({fault})") from None
    if not isinstance(config, dict) or "zlpr_model" not in config:
        raise UserError(f"{folder}: not a model that zlpr saved ({CONFIG} lacks 'zlpr_model')")
    return config


def _read_model(folder: Path, config: Mapping[str, Any]) -> FittedModel:
    names = [config["id2label"][str(i)] for i in range(len(config["id2label"]))]
    if len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise ValueError("id2label: expected a name of its own for every label")
    _check_numbers(names, config.get("label2id"))
    training = config["training"]
    shared = {
        "label_names": names,
        "decoder": decoding.from_config(config["decoding"]),
        "calibrator": decoding.probabilities_from_config(config["calibrator"]),
        "record": TrainingRecord(
            loss=config["loss"],
            loss_params=config["loss_params"],
            settings=training["settings"],
            chosen=training["chosen"],
            data=training["data"],
            metrics=_read_metrics(folder),
            seconds=training["seconds"],
            decision=training.get("decision", {}),
            frequencies=_frequencies_from_json(training.get("frequencies"), len(names)),
        ),
    }
    return saved_as(config["zlpr_model"]).load_class().load_parts(folder, config, shared)


def _frequencies_to_json(frequencies: LabelFrequencies | None) -> dict[str, Any] | None:
    if frequencies is None:
        return None
    return {"samples": frequencies.samples, "counts": frequencies.counts.tolist()}


def _frequencies_from_json(plain: Any, num_labels: int) -> LabelFrequencies | None:
    """How often labels were seen in training; a folder of before this was kept has none."""
    if plain is None:
        return None
    counts, samples = plain["counts"], plain["samples"]
    if not all(type(count) is int for count in (samples, *counts)):
        raise ValueError("frequencies: expected whole numbers")
    if len(counts) != num_labels:
        raise ValueError(f"frequencies: of {counted(len(counts), 'label')}, expected {num_labels}")
    return LabelFrequencies(np.array(counts, dtype=np.int64), samples)


def _check_numbers(names: Sequence[str], label2id: object) -> None:
    """Refuse names that were edited, or put in another order, in one of their two places."""
    numbers = {name: number for number, name in enumerate(names)}
    if label2id is None or label2id == numbers:
        return
    held = label2id if isinstance(label2id, dict) else {}
    first = next((name for name in names if held.get(name) != numbers[name]), None)
    if first is None:
        first = next(name for name in held if name not in numbers)
    raise ValueError(
        f"id2label and label2id disagree on {first!r}: {numbers.get(first, 'none')} in the one, "
        f"{held.get(first, 'none')} in the other; change both or neither"
    )


def _read_metrics(folder: Path) -> dict[str, dict[str, float]]:
    """The figures by part; a folder of before they were listed may have lost them."""
    path = folder / METRICS
    if not path.is_file():
        return {}
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise UserError(f"{path}: not valid JSON ({fault})") from None
    parts = {name: part for name, part in metrics.items() if name != "empty"}
    for name, part in parts.items():
        for metric, value in part.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"{path}: {metric} of {name} is no number")
    return parts


def _check_files(folder: Path, config: Mapping[str, Any]) -> None:
    files = config.get("files")
    if not isinstance(files, dict) or not files:
        raise UserError(f"{folder / CONFIG}: lacks 'files', the list of the model's files")
    for name, expected in files.items():
        if not _is_inside(name):
            raise UserError(f"{folder / CONFIG}: file name {name!r} leaves the folder")
        path = folder / name
        if not path.is_file():
            raise UserError(f"{path}: missing; the model folder is not complete")
        if file_digest(path) != expected:
            raise UserError(
                f"{path}: altered since the model was saved (another SHA-256 than in {CONFIG})"
            )
    for path in (path for pattern in _READ for path in sorted(folder.glob(pattern))):
        if path.name not in files:
            raise UserError(f"{path}: not among the model's files that {CONFIG} lists")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _is_inside(name: str) -> bool:
    """Whether a listed name is that of a file in the folder, or in a folder of it."""
    parts = name.split("/")
    return all(part not in ("", ".", "..") and Path(part).name == part for part in parts)


@contextlib.contextmanager
def claim_folder(target: Path, *, overwrite: bool = False) -> Iterator[None]:
    """Keep a folder for a model that is yet to be trained, so that a mistake shows first.

    Raises:
        UserError: another process has claimed it, or it holds a model or something else.
        OSError: it cannot be written to.
    """
    target = behind_link(target)
    with locked(target):
        check_writable(target, overwrite=overwrite)
        yield


def _swap(beside: Path, target: Path) -> None:
    """Rename the new folder into place; at every moment one whole model is on the disk."""
    previous = _previous(target)
    if target.is_dir() and not any(target.iterdir()):
        target.rmdir()
    if target.exists():
        target.replace(previous)
    try:
        beside.replace(target)
    except OSError:
        if previous.exists():
            previous.replace(target)
        raise
    _flush(target.parent)
    if previous.exists():
        _discard(previous, target)


def _discard(previous: Path, target: Path) -> None:
    """Move what the user had put into the previous model folder to the new one; delete the rest."""
    files: object = None
    with contextlib.suppress(UserError):  # a deletion that was interrupted may have taken it
        files = read_config(previous).get("files")
    listed = (str(name).partition("/")[0] for name in files) if isinstance(files, dict) else ()
    own = {CONFIG, METRICS, CARD, *listed}
    for path in previous.iterdir():
        if path.name not in own and not (target / path.name).exists():
            path.replace(target / path.name)
    try:
        shutil.rmtree(previous)
    except OSError as fault:  # which names a file without its folder
        raise OSError(fault.errno, fault.strerror, str(previous)) from fault


def check_writable(target: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that cannot be replaced, or is not empty: its content is somebody's."""
    target = behind_link(target)
    check_not_mounted(target)
    previous = _previous(target)
    if previous.exists() and not target.exists():
        previous.replace(target)  # a save was interrupted between its two renames
    elif previous.exists():
        _discard(previous, target)  # a save was interrupted after both
    if target.is_dir() and any(target.iterdir()):
        try:
            read_config(target)
        except UserError as fault:
            raise UserError(f"{fault}; choose another folder to write the model to") from None
        if not overwrite:
            raise UserError(
                f"{target}: holds a model already; choose another folder, or replace it "
                "(overwrite=True, --overwrite)"
            )
        if not os.access(target, os.W_OK):  # to rename it would still work, and undo the protection
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    elif target.exists() and not target.is_dir():
        raise UserError(f"{target}: a file; choose a folder to write the model to")


def _previous(target: Path) -> Path:
    return target.with_name(f".{target.name}.previous")


def _make_ordinary(folder: Path) -> None:
    """Give a temporary folder the rights that users expect, and bring its files to the disk."""
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())
        _flush(path)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    # A path among the settings may hold halves of surrogate pairs, which JSON spells like this.
    path.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
