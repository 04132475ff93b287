"""`zlpr compare`: train a grid of data, models, losses and seeds, and say which loss is best."""

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._escape import for_terminal, from_system
from zlpr.cli._console import say
from zlpr.cli._flags import in_flags
from zlpr.cli._reading import add_reading_arguments, given_reading

if TYPE_CHECKING:
    from zlpr.compare import Grid, RunFolder, Selection
    from zlpr.training.parts import SplitMethod

EXAMPLE = "zlpr compare --data reviews.csv --losses zlpr bce focal --seeds 5 --out reviews-compared"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to compare, where the results go, and how to run it."""
    what = parser.add_argument_group("what to compare")
    what.add_argument(
        "--preset",
        choices=("demo", "paper"),
        help="a ready-made grid: the paper's losses on the demo corpus (demo, the default), or the "
        "paper's experiments",
    )
    what.add_argument("--grid", metavar="FILE", help="read the grid from a TOML file")
    what.add_argument(
        "--data",
        nargs="+",
        action="extend",
        metavar="PATH",
        help="files or folders of data, or 'demo'",
    )
    what.add_argument(
        "--models",
        nargs="+",
        action="extend",
        metavar="MODEL",
        help="models from 'zlpr models', for every data set, in place of those that the grid names",
    )
    what.add_argument(
        "--losses",
        nargs="+",
        action="extend",
        metavar="LOSS",
        help="names from 'zlpr losses', with parameters as in zlpr:pos_weight=2.7; "
        "zlpr:pos_weight=1|1.6|2.7 chooses a value on validation data",
    )
    what.add_argument(
        "--choose",
        nargs="+",
        action="extend",
        metavar="NAME=VALUES",
        default=[],
        help="beside each loss that has the parameter, one whose value is chosen on validation "
        "data, such as pos_weight=1,2,4",
    )
    what.add_argument(
        "--per-metric",
        action="store_true",
        help="choose regularisation and loss parameters for each figure by that figure, instead of "
        "once by --set metric",
    )
    what.add_argument(
        "--max-samples",
        type=int,
        metavar="N",
        help="of a larger set take N samples, drawn by the seed before it is divided",
    )
    what.add_argument(
        "--seeds", type=int, metavar="N", help="how many seeds to run; each draws the split anew"
    )
    what.add_argument(
        "--split",
        choices=("random", "stratified", "group", "published"),
        help="how to divide the data, 8:1:1 and anew for each seed (default random); published "
        "keeps "
        "the data's own split",
    )
    what.add_argument(
        "--empty",
        choices=("sklearn", "paper"),
        help="count empty cases as scikit-learn does or as the paper does (default sklearn; paper "
        "in "
        "its preset)",
    )
    what.add_argument(
        "--set",
        nargs="+",
        action="extend",
        metavar="NAME=VALUE",
        default=[],
        help="training settings for every run, such as metric=micro_f1, or of one kind of model, "
        "such as hf.epochs=3",
    )
    what.add_argument(
        "--data-root",
        metavar="DIR",
        help="folder that relative data paths start from (default: that of the grid file; data "
        "for a "
        "preset)",
    )
    how = parser.add_argument_group("how to run it")
    how.add_argument(
        "--out",
        metavar="DIR",
        default="zlpr-comparison",
        help="folder for run records and report; run again, the command adds what is missing there "
        "(default %(default)s)",
    )
    how.add_argument(
        "--dry-run",
        action="store_true",
        help="show what would run and how long it may take, and run nothing",
    )
    how.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="how many runs at a time (default: the number of cores)",
    )
    how.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster; 'local' starts one")
    how.add_argument("--minutes", type=float, metavar="N", help="start no run after N minutes")
    how.add_argument(
        "--overwrite", action="store_true", help="replace a comparison of other data in --out"
    )
    how.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, run, report, while nobody else compares into the same folder."""
    from pathlib import Path

    from zlpr.compare import RunFolder

    if args.dry_run:
        return _outline(args)
    folder = RunFolder(Path(args.out))
    with folder.claimed():
        return _compare(args, folder)


def _compare(args: argparse.Namespace, folder: "RunFolder") -> int:
    from zlpr.compare import carry_out, plan, write_report
    from zlpr.compare.live import display
    from zlpr.compare.report import check_place
    from zlpr.compare.wording import duration

    if args.minutes is not None and not args.minutes >= 0:
        raise UserError(f"--minutes {args.minutes:g}: expected a number of at least 0")
    check_place(folder.path)
    command = from_system(shlex.join(["zlpr", *sys.argv[1:]]))
    todo = plan(_grid(args), folder, command, overwrite=args.overwrite)
    for note in todo.notes:
        _say(note)
    before = len(todo.cells) - len(todo.missing)
    _say(_opening(len(todo.cells), before))
    try:
        with display(before) as watch:
            progress = carry_out(
                todo,
                workers=_positive(args.workers, "--workers"),
                ray=args.ray,
                watch=watch,
                seconds=None if args.minutes is None else 60 * args.minutes,
            )
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on from the runs that are done")
        raise
    if progress.finished:
        _say(f"{counted(len(progress.finished), 'run')} in {duration(progress.elapsed)}")
    elif before == 0:
        raise UserError(f"--minutes {args.minutes:g}: no run was started, and there are none yet")
    selection = folder.select()
    _warn(selection)
    if not any(record.outcome for record in selection.records):
        raise UserError("every run failed, so there is nothing to report")
    _say(f"writing the report into {for_terminal(str(folder.path))}")
    paths = write_report(selection, folder.path)
    _print(selection, paths, as_json=args.json)
    return 1 if selection.failed or selection.missing else 0


def _outline(args: argparse.Namespace) -> int:
    """What would run; 1 where something is missing or wrong."""
    from dataclasses import asdict

    from zlpr.cli._console import print_json, print_table
    from zlpr.compare.outline import lines, outline

    made = outline(_grid(args))
    code = 1 if made.missing or made.faults else 0
    if args.json:
        print_json({**asdict(made), "runs": made.runs, "hours": made.hours})
        return code
    rows = [
        [
            entry.name,
            "yes" if entry.found else "no",
            " + ".join(f"{size:,}" for size in entry.sizes) or "?",
            f"{entry.labels:,}" if entry.labels else "?",
            str(entry.runs),
            "?" if entry.hours is None else f"{entry.hours:,.1f}",
        ]
        for entry in made.data
    ]
    print_table(["data", "found", "train + validation + test", "labels", "runs", "hours"], rows)
    for line in lines(made):
        say(in_flags(line))
    return code


def _grid(args: argparse.Namespace) -> "Grid":
    """The preset or file, with what the flags change."""
    from dataclasses import replace
    from pathlib import Path

    from zlpr.cli._settings import chosen_numbers
    from zlpr.compare.grid import (
        FEWEST_SAMPLES,
        DataSpec,
        preset,
        read_grid,
        with_choice,
        with_models,
        with_root,
        with_seeds,
        with_split,
        with_training,
    )

    if args.grid and args.preset:
        raise UserError("give --grid or --preset, not both")
    root = Path(args.data_root) if args.data_root else None
    if args.grid:
        grid = read_grid(Path(args.grid), root)
    else:
        grid = with_root(preset(args.preset or "demo"), root or Path("data"))
    reading = given_reading(args)
    if args.data:
        split: SplitMethod | None = "group" if args.group is not None else None
        placed = [x if root is None or x == "demo" else str(root / x) for x in args.data]
        data = (DataSpec(path, read=reading, split=split) for path in placed)
        grid = replace(grid, data=tuple(data))
    elif reading:
        flag = next(iter(reading)).replace("_", "-")
        raise UserError(f"--{flag} goes with --data; in a grid say read = {{ … }} beside the path")
    if args.models:
        grid = with_models(grid, args.models)
    if args.losses:
        grid = _narrowed(grid, args.losses)
    if args.choose:
        chosen = chosen_numbers(args.choose)
        grid = with_choice(grid, {name: tuple(values) for name, values in chosen.items()})
    if args.per_metric:
        grid = replace(grid, per_metric=True)
    if args.max_samples is not None:
        if args.max_samples < FEWEST_SAMPLES:
            raise UserError(f"--max-samples {args.max_samples}: expected at least {FEWEST_SAMPLES}")
        grid = replace(grid, max_samples=args.max_samples)
    if args.seeds is not None:
        grid = with_seeds(grid, range(_positive(args.seeds, "--seeds") or 0))
    if args.split:
        grid = with_split(grid, args.split)
    if args.empty:
        grid = with_training(grid, {"empty": args.empty})
    if args.set:
        grid = with_training(grid, _settings(args.set))
    return grid


def _narrowed(grid: "Grid", losses: list[str]) -> "Grid":
    """The grid with the losses asked for; data sets that try none of them are named."""
    from zlpr.compare.grid import parse_loss, with_losses

    narrowed = with_losses(grid, [parse_loss(text) for text in losses])
    kept = {entry.title for entry in narrowed.data}
    left_out = [entry.title for entry in grid.data if entry.title not in kept]
    if not kept:
        raise UserError(f"--losses {' '.join(losses)}: no data set of the grid tries any of them")
    if left_out:
        _say(f"left out, for the grid tries none of these losses there: {', '.join(left_out)}")
    return narrowed


def _settings(entries: list[str]) -> dict[str, Any]:
    """Training settings; `hf.epochs=3` is a setting of one kind of model."""
    from zlpr._named_values import named_values
    from zlpr.models.registry import available

    settings: dict[str, Any] = {}
    for name, value in named_values(entries, "--set").items():
        kind, dot, own = name.partition(".")
        if dot:
            settings.setdefault(kind, {})[own] = value
        elif name in available():
            raise UserError(f"--set {name}: a kind of model; its settings are {name}.NAME=VALUE")
        else:
            settings[name] = value
    return settings


def _positive(number: int | None, flag: str) -> int | None:
    if number is not None and number < 1:
        raise UserError(f"{flag} {number}: expected a number above 0")
    return number


def _opening(total: int, before: int) -> str:
    if before == total:
        return f"{counted(total, 'run')} asked for, with a record of each already"
    done = f", {before} of them done before" if before else ""
    return f"comparing: {counted(total, 'run')}{done}"


def _warn(selection: "Selection") -> None:
    for line in selection.left_out:
        _say(line)
    for record in selection.failed:
        _say(f"failed: {record.settings.title()}: {record.error}")
    if selection.missing:
        runs = counted(selection.missing, "run is", "runs are")
        _say(f"{runs} still missing; the same command goes on from here")


def _say(line: str) -> None:
    say(line, error=True)


def _print(selection: "Selection", paths: dict[str, Any], *, as_json: bool) -> None:
    from zlpr.cli._console import print_json
    from zlpr.cli._tables import print_results, results_json
    from zlpr.compare import Results

    results = Results.from_records(selection.records)
    if as_json:
        print_json({"figures": results_json(results), "report": str(paths["html"])})
        return
    print_results(results)
    say(f"report: {paths['html']}")
