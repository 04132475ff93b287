"""The grid: which data, models, losses and seeds to compare.

A grid is a TOML file:

    seeds = 3                      # seeds 0, 1, 2; or a list
    split = "random"               # 8:1:1 anew per seed; "stratified", or "published"
    models = ['linear']            # from 'zlpr models', as 'hf:NAME_OR_PATH'
    losses = [
      "zlpr",
      "bce",
      { name = "zlpr", label = "zlpr_margin", choose = { pos_weight = [1.0, 2.7] } },
    ]
    per_metric = true              # each figure of the fit that is best by it on validation
    max_samples = 10000            # of a larger set, drawn by the seed
    data = [
      "demo",
      { path = "reviews.csv", name = "Reviews", read = { text = "body" } },
    ]

    [training]                     # settings that every model of the grid has
    metric = "average_precision"

    [training.linear]              # settings of one kind of model
    regularisation = 0.3
"""

import dataclasses
import hashlib
import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from zlpr._digest import tree_digest
from zlpr._errors import UserError
from zlpr._escape import from_system
from zlpr._named_values import name_and_text, parse_value, split_outside_brackets
from zlpr._typed_json import from_plain
from zlpr.compare.records import CellSettings, LossSpec
from zlpr.compare.version import code_version
from zlpr.data import files_behind
from zlpr.data.loading import options_that_name_files
from zlpr.losses import registry
from zlpr.models.registry import DEFAULT, NO_LOSS, available, kind_of
from zlpr.training.config import MOST_SEEDS, TrainingConfig
from zlpr.training.parts import SPLIT_METHODS, SplitMethod
from zlpr.training.registry import config_of, trainer_of

PRESETS = ("demo", "paper")
DEMO_FILES = ("demo.py", "demo.txt")
FEWEST_SAMPLES = 10


@dataclass(frozen=True)
class DataSpec:
    """A data set of the grid.

    Attributes:
        path: a file, a folder, or "demo".
        name: what tables call it; the path's last part where empty.
        read: options of `zlpr.data.read`.
        split: overrides the grid's.
        models: override the grid's, for data in another language.
        losses: labels of those of the grid's losses to try here; all where empty.
        seeds: override the grid's; a count or a list, as there.
    """

    path: str
    name: str = ""
    read: dict[str, Any] = field(default_factory=dict)
    split: SplitMethod | None = None
    models: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """The name in tables."""
        return self.name or from_system(Path(self.path).name.partition(".")[0] or self.path)


@dataclass(frozen=True)
class Grid:
    """A comparison as asked for; `cells` spells it out."""

    data: tuple[DataSpec, ...]
    models: tuple[str, ...]
    losses: tuple[LossSpec, ...]
    seeds: tuple[int, ...]
    split: SplitMethod = "random"
    training: dict[str, Any] = field(default_factory=dict)
    per_metric: bool = False
    max_samples: int = 0


@dataclass(frozen=True)
class Cell:
    """One training of the grid: its settings, and where its data is.

    Attributes:
        settings: everything that decides the outcome, wherever the files are.
        path: a file, a folder, or "demo".
        read: options of `zlpr.data.read`, those that name files with their places.
    """

    settings: CellSettings
    path: str
    read: Mapping[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> tuple[str, str, int]:
        """Cells of one group share their data, split and features."""
        return (self.settings.data, self.settings.model, self.settings.seed)


def preset(name: str) -> Grid:
    """One of the grids that come with the package."""
    if name not in PRESETS:
        raise UserError(f"no preset '{name}'; there are {', '.join(PRESETS)}")
    text = resources.files("zlpr.compare").joinpath("presets", f"{name}.toml").read_text("utf-8")
    return parse_grid(tomllib.loads(text), where=name)


def read_grid(path: Path, data_root: Path | None = None) -> Grid:
    """Read a grid file; its data paths are relative to `data_root`, or to the file itself.

    So are the files that `read` names; models are found as `--model` finds them, from the current
    folder.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such grid file")
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise UserError(f"{path}: not a TOML file: {fault}") from fault
    return with_root(parse_grid(plain, where=str(path)), data_root or path.parent)


def parse_grid(plain: Mapping[str, Any], where: str = "grid") -> Grid:
    """A grid from plain values; a `UserError` lists every entry that does not fit."""
    faults: list[str] = []
    known = {entry.name for entry in dataclasses.fields(Grid)}
    faults += [f"{name}: no such entry; there are {', '.join(sorted(known))}" for name in
               sorted(set(plain) - known)]  # fmt: skip
    faults += [f"{name}: missing" for name in ("data", "losses") if not plain.get(name)]
    entries: dict[str, Any] = {"models": [DEFAULT], "seeds": 1, "data": [], "losses": []}
    entries |= {name: value for name, value in plain.items() if name in known}
    readers: dict[str, Callable[[Any], Any]] = {
        "data": lambda value: tuple(_data_spec(entry) for entry in _listed(value)),
        "losses": lambda value: tuple(_loss_spec(entry) for entry in _listed(value)),
        "models": lambda value: from_plain(tuple[str, ...], value, "models"),
        "seeds": _seeds,
        "split": _split_method,
        "training": _training,
        "per_metric": lambda value: from_plain(bool, value, "per_metric"),
        "max_samples": _max_samples,
    }
    read: dict[str, Any] = {}
    for name, value in entries.items():
        try:
            read[name] = readers[name](value)
        except ValueError as fault:
            faults.append(str(fault))
    if faults:
        raise UserError(f"{where}: " + "; ".join(faults))
    return Grid(**read)


def parse_loss(text: str) -> LossSpec:
    """A loss from the command line: `name`, or `name:parameter=value`, or candidates.

    Examples:
        >>> parse_loss("zlpr:pos_weight=2.5").params
        {'pos_weight': 2.5}
        >>> parse_loss("zlpr:pos_weight=1|2.5").choose
        {'pos_weight': (1, 2.5)}
    """
    name, _, rest = text.partition(":")
    params: dict[str, Any] = {}
    choose: dict[str, tuple[Any, ...]] = {}
    for entry in split_outside_brackets(rest, ","):
        key, value = name_and_text(entry, f"loss {text!r}:")
        if key in params or key in choose:
            raise UserError(f"loss {text!r}: {key} given twice")
        values = tuple(parse_value(part) for part in split_outside_brackets(value, "|") or [""])
        if len(values) > 1:
            choose[key] = values
        else:
            params[key] = values[0]
    return LossSpec(text, name, params, choose)


def with_root(grid: Grid, root: Path) -> Grid:
    """The same grid with relative paths of data, and of what names its labels, from a folder."""

    def placed(entry: DataSpec) -> DataSpec:
        path = entry.path if entry.path == "demo" else str(root / entry.path)
        files = {name: str(root / entry.read[name]) for name in options_that_name_files(entry.read)}
        return replace(entry, path=path, read={**entry.read, **files})

    return replace(grid, data=tuple(map(placed, grid.data)))


def with_losses(grid: Grid, losses: Sequence[LossSpec]) -> Grid:
    """The same grid with other losses.

    A data set that lists losses of its own keeps those asked for, and takes any that the grid did
    not have before; one for which nothing is left is left out.
    """
    before = {loss.label for loss in grid.losses}
    data = []
    for entry in grid.data:
        own = entry.losses or tuple(before)
        kept = tuple(x.label for x in losses if x.label in own or x.label not in before)
        if kept:
            data.append(replace(entry, losses=kept if entry.losses else ()))
    return replace(grid, losses=tuple(losses), data=tuple(data))


def with_models(grid: Grid, models: Sequence[str]) -> Grid:
    """The same grid with these models for every data set, whatever it named itself."""
    data = tuple(replace(entry, models=()) for entry in grid.data)
    return replace(grid, models=tuple(models), data=data)


def with_seeds(grid: Grid, seeds: Iterable[int]) -> Grid:
    """The same grid with these seeds for every data set, whatever it named itself."""
    data = tuple(replace(entry, seeds=()) for entry in grid.data)
    return replace(grid, seeds=tuple(seeds), data=data)


def with_split(grid: Grid, split: SplitMethod) -> Grid:
    """The same grid with this split for every data set, whatever it named itself."""
    data = tuple(replace(entry, split=None) for entry in grid.data)
    return replace(grid, split=split, data=data)


def with_training(grid: Grid, settings: Mapping[str, Any]) -> Grid:
    """The same grid with these training settings over its own.

    One for every model holds for every model, whatever the grid gave a kind; those of a kind leave
    its others as they are.

    Examples:
        >>> of_linear = {"refit": False, "metric": "macro_f1"}
        >>> grid = Grid((), (), (), (0,), training={"linear": of_linear})
        >>> with_training(grid, {"metric": "micro_f1", "linear": {"regularisation": 1}}).training
        {'linear': {'refit': False, 'regularisation': 1}, 'metric': 'micro_f1'}
    """
    kinds = {name for name in (*grid.training, *settings) if name in available()}
    training = {**grid.training, **settings}
    for kind in kinds:
        before = {k: v for k, v in grid.training.get(kind, {}).items() if k not in settings}
        training[kind] = {**before, **settings.get(kind, {})}
    return replace(grid, training=training)


def settings_for(training: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The training settings that hold for a model: those for all, and over them its kind's own.

    Examples:
        >>> settings_for({"metric": "micro_f1", "hf": {"epochs": 3}}, 'hf:roberta-base')
        {'metric': 'micro_f1', 'epochs': 3}
        >>> settings_for({"metric": "micro_f1", "hf": {"epochs": 3}}, 'linear')
        {'metric': 'micro_f1'}
    """
    shared = {name: value for name, value in training.items() if name not in available()}
    return {**shared, **training.get(kind_of(model).name, {})}


def with_choice(grid: Grid, choose: Mapping[str, tuple[float, ...]]) -> Grid:
    """The same grid with a second version of each loss that has these parameters, chosen there.

    A data set that lists losses of its own gets the second versions of these.

    Raises:
        UserError: no loss of the grid has one of the parameters, or one that has is given it.
    """
    losses = list(grid.losses)
    versions: dict[str, str] = {}
    for loss in grid.losses:
        has = {name: values for name, values in choose.items() if _has_parameter(loss, name)}
        if not has:
            continue
        label = ",".join(f"{name}={'|'.join(map(str, has[name]))}" for name in has)
        beside = replace(loss, label=f"{loss.label}:{label}", choose={**loss.choose, **has})
        losses.insert(losses.index(loss) + 1, beside)
        versions[loss.label] = beside.label
    for name in choose:
        if not any(name in loss.choose for loss in losses):
            raise UserError(f"--choose {name}: no loss of the comparison has such a parameter")

    def beside_its_own(entry: DataSpec) -> DataSpec:
        own = (x for label in entry.losses for x in (label, versions.get(label)) if x)
        return replace(entry, losses=tuple(own))

    return replace(grid, losses=tuple(losses), data=tuple(map(beside_its_own, grid.data)))


def _has_parameter(loss: LossSpec, name: str) -> bool:
    if name in loss.params or name in loss.choose:
        raise UserError(f"--choose {name}: a parameter that {loss.label} gives as well")
    known = registry.available()
    module = registry.info(loss.name).module if loss.name in known else None
    return module is not None and name in inspect.signature(module).parameters


def models_of(grid: Grid, entry: DataSpec) -> tuple[str, ...]:
    """The models to train on one of the grid's data sets."""
    return entry.models or grid.models


def losses_of(grid: Grid, entry: DataSpec, model: str) -> tuple[LossSpec, ...]:
    """The losses to train a model with on one of the grid's data sets.

    A kind that is not trained with a loss is trained once, whatever the grid's losses are.
    """
    if not config_of(model).takes_loss():
        return (LossSpec(NO_LOSS, NO_LOSS),)
    return tuple(loss for loss in grid.losses if not entry.losses or loss.label in entry.losses)


def cells(grid: Grid) -> list[Cell]:
    """The grid spelled out, cells that share data and split next to each other.

    Call it on a grid without faults only: the content of the data, and of models that are
    folders, is read for their fingerprints.
    """
    fingerprints = {entry.title: fingerprint(entry.path, entry.read) for entry in grid.data}
    models = {model for entry in grid.data for model in models_of(grid, entry)}
    of_models = {model: trainer_of(model).fingerprint(model) for model in models}
    conventions = {
        model: TrainingConfig.of({**settings_for(grid.training, model), "model": model}).convention
        for model in models
    }
    return [
        Cell(
            CellSettings(
                data=entry.title,
                fingerprint=fingerprints[entry.title],
                reading=_without_places(entry.read),
                split=entry.split or grid.split,
                model=model,
                model_fingerprint=of_models[model],
                loss=loss,
                seed=seed,
                training=settings_for(grid.training, model),
                version=code_version(),
                empty=conventions[model],
                per_metric=grid.per_metric,
                max_samples=grid.max_samples,
            ),
            entry.path,
            entry.read,
        )
        for entry in grid.data
        for model in models_of(grid, entry)
        for seed in entry.seeds or grid.seeds
        for loss in losses_of(grid, entry, model)
    ]


def fingerprint(path: str, read: Mapping[str, Any] | None = None) -> str:
    """Hash of all that is read of a data set: its file or folder, and what names its labels.

    That of the demo corpus is the hash of what it is made from.

    Args:
        path: a file, a folder, or "demo".
        read: options of `zlpr.data.read`, which may name further files.
    """
    digests = [tree_digest(file) for file in files_behind(path, **(read or {}))]
    if not digests:
        made_from = [resources.files("zlpr.data").joinpath(name) for name in DEMO_FILES]
        return hashlib.sha256(b"\0".join(file.read_bytes() for file in made_from)).hexdigest()[:16]
    whole = (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )
    return whole[:16]


def _without_places(read: Mapping[str, Any]) -> dict[str, Any]:
    """Reading options as a record keeps them: files by name, for their content is in the hash."""
    return {**read, **{name: Path(read[name]).name for name in options_that_name_files(read)}}


def _data_spec(entry: Any) -> DataSpec:
    if isinstance(entry, Mapping) and "seeds" in entry:
        entry = {**entry, "seeds": _seeds(entry["seeds"])}
    return DataSpec(entry) if isinstance(entry, str) else from_plain(DataSpec, entry, "data")


def _loss_spec(entry: Any) -> LossSpec:
    if isinstance(entry, str):
        return parse_loss(entry)
    if isinstance(entry, Mapping) and "label" not in entry:
        entry = {**entry, "label": entry.get("name", "")}
    return from_plain(LossSpec, entry, "losses")


def _training(value: Any) -> dict[str, Any]:
    """Settings by name; those of a kind of model are a table of their own."""
    settings = from_plain(dict[str, Any], value, "training")
    for kind in settings.keys() & set(available()):
        from_plain(dict[str, Any], settings[kind], f"training.{kind}")
    return settings


def _split_method(value: Any) -> SplitMethod:
    for method in SPLIT_METHODS:
        if value == method:
            return method
    raise ValueError(f"split: {value!r} where {', '.join(SPLIT_METHODS)} was expected")


def _seeds(value: Any) -> tuple[int, ...]:
    if type(value) is int and value > 0:
        return tuple(range(value))
    if isinstance(value, list | tuple) and value:
        seeds = from_plain(tuple[int, ...], value, "seeds")
        if min(seeds) >= 0 and max(seeds) < MOST_SEEDS:
            return seeds
    raise ValueError(
        f"seeds: {value!r} where a count above 0 or a list of seeds from 0 to {MOST_SEEDS - 1} was "
        "expected"
    )


def _max_samples(value: Any) -> int:
    """Fewer than ten would leave a part empty."""
    if type(value) is not int or value < FEWEST_SAMPLES:
        raise ValueError(f"max_samples: {value!r} where at least {FEWEST_SAMPLES} was expected")
    return value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
