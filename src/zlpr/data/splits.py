"""Divide data into train, validation and test: at random, stratified by label, or by group.

Every split is a function of the samples, the fractions and the seed, and not of the order of the
rows: samples are placed by a hash of their content. Samples with the same content always share a
part, so that nothing a model is tested on has been seen in training.

Rows that are a part of an earlier split with the same seed all have hashes of one range, and the
same cut would put all of them into one part again. Where the cut misses a part's share by more
than half of it, the hash is therefore salted and drawn anew: a split of a part is fresh, and that
of whole data stays what it always was.
"""

import hashlib
import heapq
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._atomic import write_text
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.dataset import SPLIT_NAMES, Dataset, SplitName

Method = Literal["random", "stratified", "group"]
Fractions = tuple[float, float, float]

SMALL_PART = 50
"""Below so many samples, a part of a split is too small to be relied on."""

_MOST_DRAWS = 64  # how often a split is drawn because its parts are far from their shares


def make_split(
    dataset: Dataset,
    method: Method | None = None,
    seed: int = 0,
    fractions: Fractions = (0.8, 0.1, 0.1),
    *,
    by: Literal["content", "id"] = "content",
) -> Dataset:
    """A copy of the data with `split` set.

    - ``"random"``: each sample falls by the hash of its content and the seed, whatever the other
      samples are; the parts have the fractions' sizes up to chance. Where chance, or an earlier
      split with the same seed, misses a part's share by more than half, all are drawn anew.
    - ``"stratified"``: iterative stratification (Sechidis, Tsoumakas and Vlahavas, 2011), rarest
      label first, so that every label has its share in every part as nearly as possible.
    - ``"group"``: as random, by the sample's group; a group is never divided, and a sample whose
      group is "" stands for itself.

    Args:
        dataset: texts or features with label sets.
        method: how to divide; None keeps groups together where the data has some, and is random
            otherwise.
        seed: another seed gives another split.
        fractions: the shares of train, validation and test; a share of 0 leaves a part out.
        by: what stands for a sample: its content, or its id where texts are edited but ids stay.

    Raises:
        UserError: if there are too few distinct samples to fill the parts.

    Examples:
        >>> from zlpr.data import demo, make_split
        >>> parts = make_split(demo.make(1000), method="stratified", seed=1)
        >>> len(parts.part("train"))
        800
    """
    shares = _checked(fractions)
    method = method or usual_method(dataset)
    keys = _unit_keys(dataset, method, by)
    units = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    unit_of = np.array([units[key] for key in keys], dtype=np.int64)
    if len(units) < np.count_nonzero(shares):
        unit = "group" if method == "group" else "sample"
        raise UserError(
            f"{dataset.name or 'the data'}: "
            f"{counted(len(units), f'distinct {unit}')} cannot fill "
            f"{counted(int(np.count_nonzero(shares)), 'part')}"
        )
    if method == "stratified":
        draws = _draws(list(units), seed)
        part_of_unit = _stratify(_unit_labels(dataset, unit_of, len(units)), unit_of, draws, shares)
    else:
        draws, part_of_unit = _fresh(list(units), seed, shares)
    part_of_unit = _fill_empty(part_of_unit, draws, shares)
    return replace(dataset, split=np.array(SPLIT_NAMES)[part_of_unit[unit_of]])


def usual_method(dataset: Dataset, asked: Method | None = None) -> Method:
    """The method that a user asks for, or else the one that fits the data.

    Raises:
        UserError: the data has groups, and the method would tear them apart.
    """
    if dataset.groups is None:
        return asked or "random"
    if asked not in (None, "group"):
        raise UserError(
            f"{dataset.name or 'the data'}: has groups, which a {asked} split does not keep "
            "together; split it by group, or read it without groups"
        )
    return "group"


def _checked(fractions: Sequence[float]) -> NDArray[np.float64]:
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.shape != (3,) or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise UserError(f"fractions={tuple(fractions)}: expected three shares that add up to 1")
    return shares


def _unit_keys(dataset: Dataset, method: Method, by: str) -> list[bytes]:
    """What must stay together, as bytes, per sample."""
    if method not in ("random", "stratified", "group"):
        raise UserError(f"method={method!r}: expected random, stratified or group")
    if method == "group":
        if dataset.groups is None:
            raise UserError("a split by group needs groups: read the data with group=COLUMN")
        return _group_keys(dataset, dataset.groups, by)
    if by == "id":
        if dataset.ids is None:
            raise UserError("a split by id needs ids: read the data with id=COLUMN")
        return [identifier.encode() for identifier in dataset.ids]
    return content_keys(dataset)


def _group_keys(dataset: Dataset, groups: Sequence[str], by: str) -> list[bytes]:
    """The samples' groups, and for a sample without one what stands for itself."""
    keys = [group.encode() for group in groups]
    alone = [row for row, key in enumerate(keys) if not key]
    own = _unit_keys(dataset.select(alone), "random", by) if alone else []
    for row, key in zip(alone, own, strict=True):
        keys[row] = b"\0" + key  # apart from the names of groups
    return keys


def units_of(*parts: Dataset) -> NDArray[np.int64]:
    """A number per sample, equal for those that `make_split` would keep together.

    These are samples of one group where there are groups, and else those of equal content.

    Args:
        parts: of one data set, which are counted through in this order.

    Returns:
        Shape (samples of all parts,), in numbers from 0 up as they appear.

    Examples:
        >>> one = Dataset.from_label_sets([{"a"}, set()], texts=["x", "y"])
        >>> other = Dataset.from_label_sets([{"b"}, {"a"}], texts=["z", "x"])
        >>> units_of(one, other).tolist()
        [0, 1, 2, 0]
    """
    if all(part.groups is None for part in parts):
        keys = [key for part in parts for key in content_keys(part)]
    else:
        grouped = ((part, part.groups or [""] * len(part)) for part in parts)
        keys = [key for part, groups in grouped for key in _group_keys(part, groups, "content")]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64)


def content_keys(dataset: Dataset) -> list[bytes]:
    """A digest of each sample's text or features, 16 bytes; the labels do not matter."""
    return [hashlib.blake2b(row, digest_size=16).digest() for row in _contents(dataset)]


def _contents(dataset: Dataset) -> list[bytes]:
    if dataset.texts is not None:
        return [text.encode("utf-8", "surrogatepass") for text in dataset.texts]
    if not sparse.issparse(dataset.features):
        return [row.tobytes() for row in np.ascontiguousarray(dataset.features, dtype=np.float64)]
    matrix: Any = sparse.csr_array(dataset.features, copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    indices, data = matrix.indices.astype(np.int64), matrix.data.astype(np.float64)
    bounds = matrix.indptr.tolist()
    return [
        indices[start:end].tobytes() + data[start:end].tobytes()
        for start, end in itertools.pairwise(bounds)
    ]


def _fresh(
    units: Sequence[bytes], seed: int, shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The draws and the parts they give: of the first salt that comes near the shares."""
    wanted = shares * len(units)
    for salt in range(_MOST_DRAWS):
        draws = _draws(units, seed, salt)
        parts = _by_draw(draws, shares)
        sizes = np.bincount(parts, minlength=3)
        if ((np.floor(wanted / 2) <= sizes) & (sizes <= np.ceil(wanted * 1.5) + 2)).all():
            break
    return draws, parts


def _draws(units: Sequence[bytes], seed: int, salt: int = 0) -> NDArray[np.float64]:
    """A number in [0, 1) per unit, fixed by the unit, the seed and the salt."""
    head = f"{seed} drawn {salt} times before " if salt else f"{seed} "
    start = hashlib.blake2b(head.encode(), digest_size=8)
    draws = np.empty(len(units), dtype=np.uint64)
    for number, unit in enumerate(units):
        digest = start.copy()
        digest.update(unit)
        draws[number] = int.from_bytes(digest.digest(), "big")
    return (draws >> np.uint64(11)).astype(np.float64) / 2.0**53


def _by_draw(draws: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cut [0, 1) into the parts."""
    return np.searchsorted(np.cumsum(shares)[:2], draws, side="right").astype(np.int64)


def _fill_empty(
    parts: NDArray[np.int64], draws: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Give each part that was left empty the unit whose draw is nearest to it: small data only."""
    ends = np.cumsum(shares)
    for part in np.flatnonzero(shares):
        sizes = np.bincount(parts, minlength=3)
        if sizes[part] == 0:
            away = np.maximum(ends[part] - shares[part] - draws, draws - ends[part])
            away[sizes[parts] < 2] = np.inf
            parts[np.argmin(away)] = part
    return parts


def _unit_labels(dataset: Dataset, unit_of: NDArray[np.int64], units: int) -> sparse.csr_array[Any]:
    """How often each label stands in each unit, shape (units, labels)."""
    samples = len(dataset)
    membership = sparse.csr_array(
        (np.ones(samples, dtype=np.int64), (unit_of, np.arange(samples))), shape=(units, samples)
    )
    return sparse.csr_array(membership @ dataset.labels.astype(np.int64))


def _stratify(
    labels: sparse.csr_array[Any],
    unit_of: NDArray[np.int64],
    draws: NDArray[np.float64],
    shares: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Iterative stratification over units, which count as often as they have samples."""
    sizes = np.bincount(unit_of, minlength=labels.shape[0]).tolist()
    state = _Stratification(
        wanted_labels=[(labels.sum(axis=0) * share).tolist() for share in shares],
        wanted_size=(shares * len(unit_of)).tolist(),
        parts=np.flatnonzero(shares).tolist(),
        assigned=np.full(labels.shape[0], -1, dtype=np.int64),
    )
    order = np.argsort(draws, kind="stable")  # by hash, so that the order of rows cannot matter
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    holders: Any = sparse.csc_array(labels)
    pointer, indices, times = (a.tolist() for a in (labels.indptr, labels.indices, labels.data))
    left = np.asarray(labels.sum(axis=0)).tolist()
    heap = [(count, label) for label, count in enumerate(left) if count]
    heapq.heapify(heap)
    while heap:
        count, label = heapq.heappop(heap)
        if left[label] != count:  # some of its samples went with a rarer label
            if left[label]:
                heapq.heappush(heap, (left[label], label))
            continue
        units = holders.indices[holders.indptr[label] : holders.indptr[label + 1]]
        units = units[state.assigned[units] < 0]
        for unit in units[np.argsort(rank[units])].tolist():
            span = slice(pointer[unit], pointer[unit + 1])
            counts = list(zip(indices[span], times[span], strict=True))
            state.place(unit, sizes[unit], label, counts)
            for other, count in counts:
                left[other] -= count
    for unit in order[state.assigned[order] < 0].tolist():
        state.place(unit, sizes[unit], None, ())
    return state.assigned


@dataclass
class _Stratification:
    """What each part still wants, and where the units went."""

    wanted_labels: list[list[float]]
    wanted_size: list[float]
    parts: list[int]
    assigned: NDArray[np.int64]

    def place(
        self, unit: int, size: int, label: int | None, counts: Sequence[tuple[int, int]]
    ) -> None:
        """Give a unit to the part that wants the label most, then to the emptiest part."""
        if label is None:
            part = max(self.parts, key=self.wanted_size.__getitem__)
        else:
            wishes = [
                (self.wanted_labels[part][label], self.wanted_size[part], part)
                for part in self.parts
            ]
            part = max(wishes)[2]
        self.assigned[unit] = part
        self.wanted_size[part] -= size
        wanted = self.wanted_labels[part]
        for other, times in counts:
            wanted[other] -= times


@dataclass(frozen=True)
class SplitReport:
    """How like the whole the parts of a split are.

    Attributes:
        sizes: samples per part.
        label_distance: per part the mean over labels of ``|odds in the part - odds in the whole|``,
            where the odds are samples with the label over samples without; 0 is a perfect
            likeness. The mean over the parts is the measure LD of Sechidis, Tsoumakas and
            Vlahavas (2011).
        labels_absent: per part how many labels of the data no sample of the part has.
    """

    sizes: dict[SplitName, int]
    label_distance: dict[SplitName, float]
    labels_absent: dict[SplitName, int]

    @property
    def mean_label_distance(self) -> float:
        """The label distance, averaged over the parts."""
        return float(np.mean(list(self.label_distance.values())))


def report_split(dataset: Dataset) -> SplitReport:
    """Measure a split.

    Examples:
        >>> from zlpr.data import demo, make_split, report_split
        >>> tickets = demo.make(2000)
        >>> chance = report_split(make_split(tickets, "random"))
        >>> balanced = report_split(make_split(tickets, "stratified"))
        >>> balanced.mean_label_distance < chance.mean_label_distance
        True
    """
    if dataset.split is None:
        raise ValueError("this data has no split; make one with zlpr.data.make_split")
    whole = _odds(dataset.labels)
    present = np.asarray(dataset.labels.sum(axis=0)) > 0
    sizes: dict[SplitName, int] = {}
    distances: dict[SplitName, float] = {}
    absent: dict[SplitName, int] = {}
    for name in SPLIT_NAMES:
        rows = dataset.split == name
        if not rows.any():
            continue
        part = dataset.labels[np.flatnonzero(rows)]
        sizes[name] = int(rows.sum())
        distances[name] = (
            float(np.abs(_odds(part) - whole)[present].mean()) if present.any() else 0.0
        )
        absent[name] = int(((np.asarray(part.sum(axis=0)) == 0) & present).sum())
    return SplitReport(sizes, distances, absent)


def check_parts(
    train: Dataset, validation: Dataset, test: Dataset | None = None
) -> tuple[str, ...]:
    """What must be said of parts that are too small to choose or to measure on.

    Args:
        train: what is fitted to.
        validation: what settings, decoding and calibration are chosen on.
        test: what is measured on, if anything.

    Returns:
        A sentence for each part of fewer than `SMALL_PART` samples, with its number.

    Raises:
        UserError: the validation part has one sample or none, or no sample with a label, so that
            nothing can be chosen on it.

    Examples:
        >>> few = Dataset.from_label_sets([{"a"}] * 9, texts=list("abcdefghi"))
        >>> check_parts(few, few.select([0, 1]))
        ('only 2 validation samples: what is chosen on fewer than 50 is chosen by chance',)
    """
    name = train.name or "the data"
    if len(validation) < 2 or not validation.labels.nnz:
        found = (
            f"{counted(len(validation), 'validation sample')} beside "
            f"{counted(len(train), 'training sample')}"
        )
        if len(validation) >= 2:
            found += ", none of them with a label"
        raise UserError(
            f"{name}: {found}: nothing can be chosen on that; give more data, or a larger "
            "validation part"
        )
    return small_parts(len(validation), None if test is None else len(test) or None)


def small_parts(validation: int | None, test: int | None) -> tuple[str, ...]:
    """A sentence for each part of fewer than `SMALL_PART` samples, with its number.

    Args:
        validation: how many samples the validation part has; None where there is none.
        test: as `validation`.
    """
    notes = []
    if validation is not None and validation < SMALL_PART:
        notes.append(
            f"only {counted(validation, 'validation sample')}: what is chosen on fewer than "
            f"{SMALL_PART} is chosen by chance"
        )
    if test is not None and test < SMALL_PART:
        notes.append(
            f"only {counted(test, 'test sample')}: figures on fewer than {SMALL_PART} tell little"
        )
    return tuple(notes)


def _odds(labels: sparse.csr_array[Any]) -> NDArray[np.float64]:
    having = np.asarray(labels.sum(axis=0), dtype=np.float64)
    return having / np.maximum(labels.shape[0] - having, 1.0)


def save_split(dataset: Dataset, path: str | Path) -> None:
    """Write which sample belongs to which part, as JSON.

    Samples are named by their ids where these are unique, and by a digest of their content
    otherwise, so that `load_split` finds them again in any order.
    """
    if dataset.split is None:
        raise ValueError("this data has no split; make one with zlpr.data.make_split")
    by = "id" if dataset.ids is not None and len(set(dataset.ids)) == len(dataset) else "content"
    keys = np.array(_row_keys(dataset, by), dtype=object)
    parts = {name: keys[dataset.split == name].tolist() for name in SPLIT_NAMES}
    write_text(path, json.dumps({"by": by, **parts}, ensure_ascii=False, indent=0) + "\n")


def load_split(dataset: Dataset, path: str | Path) -> Dataset:
    """A copy of the data with the split that `save_split` wrote, sample by sample."""
    by, part_of = _read_split(Path(path))
    if by == "id" and dataset.ids is None:
        raise UserError(f"{path}: names samples by id, but the data has no ids")
    keys = _row_keys(dataset, by)
    missing = [key for key in keys if key not in part_of]
    if missing or len(keys) != len(part_of):
        raise UserError(
            f"{path}: a split of {counted(len(part_of), 'sample')}, but {len(missing):,} of the "
            f"data's {len(keys):,} are not among them; is it the split of this data?"
        )
    return replace(dataset, split=np.array([part_of[key] for key in keys]))


def _read_split(path: Path) -> tuple[str, dict[str, SplitName]]:
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        part_of = {key: name for name in SPLIT_NAMES for key in saved[name]}
        by = saved["by"]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (ValueError, KeyError, TypeError) as wrong:
        raise UserError(f"{path}: not a split written by zlpr ({wrong!r})") from None
    if by not in ("id", "content"):
        raise UserError(f"{path}: not a split written by zlpr (by={by!r})")
    return by, part_of


def _row_keys(dataset: Dataset, by: str) -> list[str]:
    """A distinct name per sample; repeated content is numbered in order of appearance."""
    if by == "id":
        return list(dataset.ids or ())
    seen: dict[str, int] = {}
    keys = []
    for digest in content_keys(dataset):
        key = digest.hex()
        seen[key] = seen.get(key, 0) + 1
        keys.append(key if seen[key] == 1 else f"{key} {seen[key]}")
    return keys
