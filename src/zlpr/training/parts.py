"""How data is divided, the same for every command: nothing is ever chosen on the test part."""

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data import Columns, Dataset, data_digest, make_split
from zlpr.data.alike import doubts_together, with_same_inputs, with_same_names
from zlpr.data.digest import content_digest, joint_digest
from zlpr.data.splits import Method, check_parts, content_keys, units_of, usual_method

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SplitMethod = Literal["random", "stratified", "group", "published"]
SPLIT_METHODS: tuple[SplitMethod, ...] = get_args(SplitMethod)
FEWEST_TO_HALVE = 20
"""Samples of a test part that is divided once more."""
# Where a test part is there and no validation part: as much of the rest as 8:1:1 would give.
_VALIDATION_OF_REST = (8 / 9, 1 / 9, 0.0)


@dataclass(frozen=True)
class Parts:
    """Data in the parts that a model is fitted, chosen and judged on.

    Attributes:
        train: what the weights are fitted to.
        validation: what everything else is chosen on.
        test: what the model is judged on, once; None where there is none.
        sources: the data as it came: "whole", or by part where the parts came one by one.
        method: how it was divided; "published" where it came so.
        seed: of the draw.
    """

    train: Dataset
    validation: Dataset
    test: Dataset | None
    sources: Mapping[str, Dataset]
    method: SplitMethod
    seed: int

    @cached_property
    def digests(self) -> dict[str, str]:
        """Of the data as it came, by which it is known again."""
        return {name: data_digest(data) for name, data in self.sources.items()}

    @cached_property
    def contents(self) -> dict[str, str]:
        """Digests of what each part holds, in any order and whatever its labels."""
        return {name: content_digest(part) for name, part in self._judged().items()}

    def are_those_of(self, known: Mapping[str, Any]) -> bool:
        """Whether a model was made from these very parts, by what its record says of its data."""
        if len(self.train) != known["train_samples"]:
            return False
        return bool(known.get("contents", self.contents) == self.contents)

    @cached_property
    def division(self) -> dict[str, str]:
        """Digests of what is fitted to and chosen on, by which it is known to be divided alike."""
        return {"train": data_digest(self.train), "validation": data_digest(self.validation)}

    @cached_property
    def validation_units(self) -> "NDArray[np.int64] | None":
        """Of the validation samples, as `units_of` has them; None where each is its own."""
        return _where_shared(units_of(self.validation))

    @cached_property
    def units_of_both(self) -> "NDArray[np.int64] | None":
        """As `validation_units`, of the training part's samples and then the validation part's."""
        return _where_shared(units_of(self.train, self.validation))

    def check(self) -> tuple[str, ...]:
        """A sentence on each part that is too small to rely on.

        Raises:
            UserError: one is too small to choose anything on.
        """
        return (*check_parts(self.train, self.validation, self.test), *self._overlaps())

    def _overlaps(self) -> Iterator[str]:
        """A sentence on texts and groups that stand in the training part as well.

        A split that is drawn has none, but for texts of several groups.
        """
        if self.method not in ("published", "group"):
            return
        texts, groups = set(self.train.texts or ()), set(self.train.groups or ())
        for name, part in self._judged().items():
            if name == "train":
                continue
            yield from _shared(f"{name} text", list(part.texts or ()), texts)
            yield from _shared(f"{name} group", sorted({*(part.groups or ())} - {""}), groups)

    def _judged(self) -> dict[str, Dataset]:
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}

    def describe(self) -> dict[str, Any]:
        """What a model's record says of its data."""
        train = self.train
        width = None if train.features is None else int(train.features.shape[1])
        columns = train.columns or Columns(num_features=width)
        test = {} if self.test is None else {"test_samples": len(self.test)}
        return {
            "name": train.name,
            "train_samples": len(train),
            "validation_samples": len(self.validation),
            **test,
            "labels": train.num_labels,
            "labels_per_sample": float(train.labels.nnz / max(len(train), 1)),
            "split_method": self.method,
            "split_seed": self.seed,
            "sha256": self.digests.get("whole", self.digests),
            "contents": self.contents,
            "columns": columns.to_json(),
        }


def _where_shared(units: "NDArray[np.int64]") -> "NDArray[np.int64] | None":
    return units if units.max(initial=-1) + 1 < len(units) else None


def _shared(what: str, values: Sequence[str], seen: Set[str]) -> Iterator[str]:
    """A sentence on the texts or groups that have been seen in training, if any have."""
    shared = sum(value in seen for value in values)
    if shared:
        yield (
            f"{shared:,} of {counted(len(values), what)} {'is' if shared == 1 else 'are'} in the "
            "training part too; figures on them tell nothing of new data"
        )


def divide(data: Dataset, method: SplitMethod | None = None, seed: int = 0) -> Parts:
    """Divide data into training, validation and test part.

    Args:
        data: with or without a split of its own.
        method: "published" keeps the data's own split, the others draw 8:1:1 by the seed; None
            keeps a split where there is one, keeps groups together where there are some, and draws
            at random otherwise.
        seed: of the draw.

    A split without a validation part gives a ninth of its training part, drawn by the seed, so
    that nothing is ever chosen on the test part.

    Raises:
        UserError: a split is asked for that the data does not have or that would tear its groups
            apart, or it lacks a training part.
    """
    name = data.name or "the data"
    if method is None and data.split is not None:
        method = "published"
    if method != "published":
        method = usual_method(data, method)
    elif data.split is None:
        raise UserError(f"{name}: no published split; give files or a column with one")
    divided = data if method == "published" else make_split(data, method=method, seed=seed)
    train, validation, test = (divided.part(part) for part in ("train", "validation", "test"))
    if not len(train):
        raise UserError(f"{name}: its split has no training part")
    if not len(validation):
        train, validation = hold_out(train, seed)
    return Parts(train, validation, test if len(test) else None, {"whole": data}, method, seed)


def divide_again(data: Dataset, known: Mapping[str, Any]) -> tuple[Dataset, str]:
    """Data that a model was trained on, divided as then, and a sentence on it; else as it is.

    Args:
        data: labelled, in its own labels.
        known: what the model's record says of its data, from `Parts.describe`.

    Returns:
        The data, and what must be said of it; an empty text where this is not that data.

    Raises:
        UserError: the division that the model was trained on cannot be made again.
    """
    if data.split is not None:
        return data, _divided_otherwise(data, known)
    was_divided_here = known.get("split_method") != "published"
    if was_divided_here and known.get("sha256") == data_digest(data):
        method, seed = known["split_method"], known["split_seed"]
        divided = make_split(data, method=method, seed=seed)
        if not divide(divided, seed=seed).are_those_of(known):
            raise UserError(f"{_not_divided_again(data, method)} to know its figures")
        return divided, (
            "the model was trained on a part of this data; by default the figures are of the test "
            "part, divided as then"
        )
    return data, ""


def _not_divided_again(data: Dataset, method: Method) -> str:
    """That data comes apart in another way than when a model was trained on a part of it."""
    cause, remedy = "this version divides", "train it anew"
    if method == "group":
        cause = "other groups or this version divide"
        remedy = "read it with its groups, or train it anew"
    return (
        f"{data.name or 'the data'}: the model was trained on a part of this data, which {cause} "
        f"in another way; {remedy}"
    )


@dataclass(frozen=True)
class Reviewed:
    """What of some data a model is looked at with.

    Attributes:
        data: the part that may be looked at again and again.
        part: its name.
        test: the part that is to be shown once; None where there is none.
        notes: what must be said of it.
    """

    data: Dataset
    part: str
    test: Dataset | None
    notes: tuple[str, ...] = ()


def to_review(data: Dataset, known: Mapping[str, Any], *, refit: bool = False) -> Reviewed:
    """The parts of data to look at a model with: its validation part, and its test part once.

    Args:
        data: labelled, in its own labels.
        known: what the model's record says of its data, from `Parts.describe`.
        refit: whether the model was at last trained on its validation part as well.

    Raises:
        UserError: the division that the model was trained on cannot be made again.
    """
    lost = known.get("split_method") == "published" and data.split is None
    if not lost and known.get("sha256") == data_digest(data):
        parts = divide(data, known["split_method"], known["split_seed"])
        if parts.are_those_of(known):
            return _halves(parts) if refit else Reviewed(parts.validation, "validation", parts.test)
        if parts.method != "published":
            raise UserError(f"{_not_divided_again(data, parts.method)} to look at it")
    if data.split is None:
        return Reviewed(data, "all samples", None, _said(seen_before(data, known)))
    return _own_parts(data, known)


def _own_parts(data: Dataset, known: Mapping[str, Any]) -> Reviewed:
    """The parts of data that comes with a split, which is not that of the model's training."""
    validation, test = data.part("validation"), data.part("test")
    if len(test) == len(data):
        fits = "thresholds that are chosen on a test part fit it"
        return Reviewed(test, "test", None, _said(fits, seen_before(test, known)))
    name, shown = ("validation", validation) if len(validation) else ("train", data.part("train"))
    seen = seen_before(test, known) if len(test) else ""
    notes = _said(
        seen_before(shown, known), seen and f"test part: {seen}", _divided_otherwise(data, known)
    )
    return Reviewed(shown, name, test if len(test) else None, notes)


def _said(*notes: str) -> tuple[str, ...]:
    """Those of some notes that say anything."""
    return tuple(note for note in notes if note)


def _halves(parts: Parts) -> Reviewed:
    """What a model that was at last trained on its validation part has not seen: its test part.

    One half may be looked at again and again, and the other stays to be shown once.
    """
    told = "the model was at last trained on its validation part too (--no-refit leaves it out)"
    if parts.test is None or len(parts.test) < FEWEST_TO_HALVE:
        note = f"{told}, so its figures here are better than those of new data"
        return Reviewed(parts.validation, "validation", None, (note,))
    method = usual_method(parts.test, None)
    drawn = make_split(parts.test, method, parts.seed, (0.5, 0.5, 0.0))
    note = f"{told}; so one half of its test part is looked at here, and the other is shown once"
    return Reviewed(drawn.part("train"), "half of the test part", drawn.part("validation"), (note,))


_OTHERWISE = (
    "this is the data that the model was made from, divided in another way: the figures are "
    "also of samples that it was trained or chosen on, which tells nothing of new data"
)


def _divided_otherwise(data: Dataset, known: Mapping[str, Any]) -> str:
    """A sentence on the samples that a model was made from where they come divided anew."""
    trained = _parts_held(data.part("train"), known)
    if "train" not in _parts_held(data, known) or (trained and "test" not in trained):
        return ""
    return _OTHERWISE


def seen_of_another(chosen: Reviewed, data: Dataset, known: Mapping[str, Any]) -> str:
    """A sentence on what a model has seen of samples that were chosen for another model.

    Of one file two models may have been trained on parts that were drawn by different seeds.

    Args:
        chosen: what is looked at, for the other model.
        data: the data that it is of.
        known: what the model's record says of its own data, from `Parts.describe`.
    """
    if (seen := seen_before(chosen.data, known)) or "train" not in _parts_held(data, known):
        return seen
    try:
        parts = divide(data, known["split_method"], known["split_seed"])
    except UserError:  # its parts came one by one
        return _OTHERWISE
    if not parts.are_those_of(known):
        return _OTHERWISE
    used = {*content_keys(parts.train), *content_keys(parts.validation)}
    shown = [key for part in (chosen.data, chosen.test) if part for key in content_keys(part)]
    count = sum(key in used for key in shown)
    if not count:
        return ""
    return (
        f"the model was trained or chosen on {count:,} of these {counted(len(shown), 'sample')}, "
        "for its data was divided in another way; figures on them tell nothing of new data"
    )


def seen_before(data: Dataset, known: Mapping[str, Any]) -> str:
    """A sentence on data that a model was trained or chosen on; empty where it is new to it.

    Known are the parts that the model was made from, each alone and some together, in any order and
    whatever their labels; not a few samples of them.

    Args:
        data: what the model is to be judged on.
        known: what the model's record says of its data, from `Parts.describe`.
    """
    return _used(_parts_held(data, known))


def _parts_held(data: Dataset, known: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of a model's data that some data consists of; none where it is something else."""
    contents = known.get("contents")
    if not isinstance(contents, Mapping):
        return ()
    digest = content_digest(data)
    for size in range(1, len(contents) + 1):
        for names in itertools.combinations(contents, size):
            if joint_digest(contents[name] for name in names) == digest:
                return names
    return ()


def _used(names: Sequence[str]) -> str:
    if set(names) <= {"test"}:
        return ""
    used = "trained" if "train" in names else "trained or chosen"
    what = "a part of this data" if "test" in names else "this very data"
    return f"the model was {used} on {what}, which tells nothing of new data"


def combine(
    train: Dataset,
    validation: Dataset | None,
    test: Dataset | None,
    seed: int = 0,
    method: Method | None = None,
) -> Parts:
    """Parts that came as data of their own, over all labels that any of them has.

    Without a validation part, a ninth of the training part is held out for it, by the method and
    the seed; groups stay together. A label without a training sample cannot be learned; that it is
    missed counts in the figures.

    Raises:
        UserError: some parts hold texts and others features, or features of another width.
    """
    given = {"train": train, "validation": validation, "test": test}
    sources = {name: part for name, part in given.items() if part is not None}
    parts = with_same_names(with_same_inputs([*sources.values()], [*sources]))
    doubts_together(parts)
    names = tuple(dict.fromkeys(name for part in parts for name in part.label_names))
    held = {name: part.with_label_names(names) for name, part in zip(sources, parts, strict=True)}
    train = _with_links_of_all(held["train"], parts)
    if "validation" in held:
        validation = held["validation"]
    else:
        train, validation = hold_out(train, seed, method)
    return Parts(train, validation, held.get("test"), sources, "published", seed)


def _with_links_of_all(train: Dataset, parts: Sequence[Dataset]) -> Dataset:
    """A training part whose hierarchy also holds the links among labels of other parts alone."""
    for part in parts:
        if train.hierarchy is not None and part.hierarchy is not None:
            train = replace(train, hierarchy=train.hierarchy.joined(part.hierarchy))
    return train


def hold_out(train: Dataset, seed: int, method: Method | None = None) -> tuple[Dataset, Dataset]:
    """A ninth of a training part for validation, drawn by the seed, and the rest."""
    method = usual_method(train, method)
    drawn = make_split(train, method, seed, _VALIDATION_OF_REST)
    return drawn.part("train"), drawn.part("validation")
