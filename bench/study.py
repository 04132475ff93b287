"""The study of docs/study.md: run its parts, keep what came out as CSV, and write the page.

    python bench/study.py data DATA study-data
    python bench/study.py run linear --data study-data --work study
    python bench/study.py run frozen --data study-data --work study --english DIR --chinese DIR
    python bench/study.py run fine-tuned --data study-data --work study --english DIR --chinese DIR
    python bench/study.py run extras --data study-data --work study --english DIR --chinese DIR
    python bench/study.py status
    python bench/study.py cost --data study-data
    python bench/study.py page

DATA holds the folders that `study.toml` names, as their publishers give them; the films come as
one JSON file per decade, of which those with an extract and a genre are kept, and of the sets with
thousands of labels the samples with one of the most frequent. The protocol (sets, losses, the
parameter of each and its values, seeds) is `study.toml`.

`run` leaves a record of each cell in `study/PART` and adds its figures to `docs/study/PART.csv` and
`docs/study/PART-cells.csv`, a set at a time, small sets first. Cells that are in the CSV are not
run again, on this machine or another, so that a study that was stopped goes on from what is
committed. `--minutes` starts no cell after so long. `page` makes docs/study.md and its figures from
the CSV alone (`bench/study_page.py`), and prints the sentences with the study's figures that other
pages must have (`bench/study_quotes.py`).
"""

import argparse
import csv
import io
import json
import lzma
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from zlpr._atomic import write_text
from zlpr._errors import UserError
from zlpr.compare import RunFolder, RunRecord
from zlpr.compare.cell import Place
from zlpr.compare.grid import Cell, DataSpec, Grid, cells
from zlpr.compare.processes import ProcessWorkers
from zlpr.compare.records import Decoded, LossSpec, read_records
from zlpr.compare.runner import ComparisonProgress, run_cells
from zlpr.metrics import PAPER_METRICS

HERE = Path(__file__).parent
PROTOCOL = HERE / "study.toml"
TABLES = HERE.parent / "docs" / "study"
LINKS = ("goemotions", "arxiv6", "uspto", "duee", "mulan", "brighter")
MANY_LABELS, MOST_LABELS = ("makupalat", "chip-cdn"), 100
"""Of these sets so many labels are kept: with all of them one cell took more than nine minutes."""

FIGURES = (
    *("part", "data", "model", "loss", "version", "seed", "decision"),
    *PAPER_METRICS,
    *("empty_predictions", "values"),
)
"""Columns of PART.csv: a row for each cell, version (plain or chosen) and decision, in per cent.

`values` are what was chosen for each metric, in the metrics' order: the loss's parameter, or the
learning rate; empty where there was none to choose.
"""

CELLS = (
    *("part", "data", "model", "loss", "seed", "labels", "train", "validation", "test"),
    *("fits", "seconds", "validation_f1", "objective", "metric", "settled", "settings", "code"),
)
"""Columns of PART-cells.csv: `objective` and `metric` say how far the last tenth moved them."""

DECISIONS = {"own": "own bound", "threshold": "one threshold", "fitted": "chosen rule"}
SECONDS_BETWEEN_EXPORTS = 300.0
Key = tuple[str, str, str, str]


Rows = list[dict[str, Any]]


def read_files(folder: Path, names: str, read: Callable[[TextIO], Rows]) -> Rows:
    """The rows of some files, compressed or not, in the order of their names."""
    rows = []
    for path in sorted(folder.glob(names)):
        opened = lzma.open if path.suffix == ".xz" else open
        with opened(path, "rt", encoding="utf-8") as stream:
            rows += read(stream)
    return rows


def read_films(folder: Path) -> Rows:
    """Films with their extract as text and their genres as labels."""
    films = read_files(folder, "movies-*.json*", json.load)
    return [
        {"text": film["extract"], "labels": sorted(set(film["genres"]))}
        for film in films
        if film.get("extract") and film.get("genres")
    ]


def with_frequent_labels(rows: Rows, most: int) -> Rows:
    """Those that have one of the most frequent labels, with these alone; of equals the first."""
    counts = Counter(label for row in rows for label in row["labels"])
    kept = set(sorted(counts, key=lambda label: (-counts[label], label))[:most])
    cut = [{**row, "labels": [x for x in row["labels"] if x in kept]} for row in rows]
    return [row for row in cut if row["labels"]]


def lay_out(data: Path, out: Path) -> None:
    """Make the folder that `--data` is to name: links, and a file for each set that is cut."""
    out.mkdir(parents=True, exist_ok=True)
    for name in LINKS:
        link = out / name
        if not link.exists():
            link.symlink_to((data / name).resolve(), target_is_directory=True)
    made = {"wikimovies": read_films(data / "wikimovies")}
    for name in MANY_LABELS:
        rows = read_files(data / name, "*.jsonl*", lambda lines: [json.loads(x) for x in lines])
        made[f"{name}-{MOST_LABELS}"] = with_frequent_labels(rows, MOST_LABELS)
    for name, rows in made.items():
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(out / f"{name}.jsonl", "".join(lines))
        print(f"{name}: {len(rows):,} samples")
    print(f"now: python bench/study.py run linear --data {out} --work study")


def protocol() -> dict[str, Any]:
    """What `study.toml` says."""
    return tomllib.loads(PROTOCOL.read_text(encoding="utf-8"))


def loss_specs(plan: Mapping[str, Any], names: Sequence[str] | None = None) -> list[LossSpec]:
    """The losses, each with what it may choose."""
    specs = [
        LossSpec(
            entry["name"],
            entry["name"],
            choose={name: tuple(values) for name, values in entry.get("choose", {}).items()},
        )
        for entry in plan["loss"]
    ]
    return specs if names is None else [spec for spec in specs if spec.name in names]


def seeds_of(plan: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[int, ...]:
    """More of them on small sets, whose figures vary more."""
    small = entry["samples"] < plan["small"]
    return tuple(range(plan["seeds_of_small"] if small else plan["seeds"]))


def grids(
    part: str, data: Path, encoders: Mapping[str, str], chosen_rates: Mapping[Any, float]
) -> Iterator[Grid]:
    """What a part consists of, a set after the other."""
    plan = protocol()
    settings = plan["part"][part]
    if settings["model"] == "hf":
        yield from _fine_tuned(plan, part, data, encoders, chosen_rates)
        return
    for entry in plan["data"]:
        model, seeds = settings["model"], seeds_of(plan, entry)
        if model == "embed":
            if "encoder" not in entry:
                continue
            model, seeds = f"embed:{encoders[entry['encoder']]}", tuple(range(plan["seeds"]))
        base = Grid(
            data=(DataSpec(str(data / entry["path"]), entry["name"], entry.get("read", {})),),
            models=(model,),
            losses=tuple(loss_specs(plan)),
            seeds=seeds,
            per_metric=True,
            max_samples=plan["max_samples"],
        )
        yield base
        if settings["modes"]:
            yield replace(base, models=tuple(settings["modes"]))


def _fine_tuned(
    plan: Mapping[str, Any],
    part: str,
    data: Path,
    encoders: Mapping[str, str],
    chosen_rates: Mapping[Any, float],
) -> Iterator[Grid]:
    """Each loss at each learning rate with the first seed, then at the one chosen with the others.

    What stands beside (label smoothing and the like) is trained at the rate chosen for the loss.
    """
    settings = plan["part"][part]
    entries = {entry["name"]: entry for entry in plan["data"]}
    for name, samples in settings["data"].items():
        entry = entries[name]
        for loss in settings["losses"]:
            base = Grid(
                data=(DataSpec(str(data / entry["path"]), name, entry.get("read", {})),),
                models=(f"hf:{encoders[entry['encoder']]}",),
                losses=(LossSpec(loss, loss),),
                seeds=(0,),
                training=settings["training"],
                max_samples=samples,
            )
            known = chosen_rates.get((name, loss))
            rates = [known] if known else settings.get("learning_rates", [])
            seeds = range(settings["seeds"] if known else 1)
            for rate in rates:
                for beside in settings.get("beside", [{}]):
                    training = {**settings["training"], "learning_rate": rate, **beside}
                    label = "+".join([f"{loss}@{rate:g}", *beside])
                    spec = LossSpec(label, loss)
                    yield replace(base, losses=(spec,), seeds=tuple(seeds), training=training)


def key_of(settings: Any) -> Key:
    """A cell's name in the CSV; an encoder goes by the name of its folder."""
    return (settings.data, short_model(settings.model), settings.loss.label, str(settings.seed))


def short_model(model: str) -> str:
    """Without the place of its files: the encoder is told by the part and the set's language."""
    return model.partition(":")[0]


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV; none where there is no file yet."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def tables_of(part: str, folder: Path = TABLES) -> tuple[Path, Path]:
    """Figures and cells of a part."""
    return folder / f"{part}.csv", folder / f"{part}-cells.csv"


def cell_row(part: str, record: RunRecord) -> dict[str, Any]:
    """What a cell was, what it cost, and how far it had settled."""
    outcome, settings, end = record.done, record.settings, record.done.end
    data, model, loss, seed = key_of(settings)
    told = {} if end is None else {"settled": "yes" if end.settled else "no"}
    if end is not None and end.objective is not None:
        told["objective"] = f"{end.objective:.5f}"
    if end is not None and end.metric is not None:
        told["metric"] = f"{end.metric:.5f}"
    return {
        "part": part, "data": data, "model": model, "loss": loss, "seed": seed,
        "labels": outcome.data.labels, "train": outcome.data.train,
        "validation": outcome.data.validation, "test": outcome.data.test,
        "fits": outcome.trainings, "seconds": f"{record.seconds.fit + record.seconds.evaluate:.1f}",
        "validation_f1": f"{100 * outcome.evaluation.validation.threshold['micro_f1']:.3f}",
        **told, "settings": settings.hash(), "code": settings.version,
    }  # fmt: skip


def figure_rows(part: str, record: RunRecord) -> Iterator[dict[str, Any]]:
    """The figures of a cell under each decision: of the choice, and of the first value alone."""
    outcome, loss = record.done, record.settings.loss
    chosen = "chosen" if loss.choose else "plain"
    yield from _figure_rows(part, record, chosen, outcome.evaluation.test)
    if outcome.first is not None:
        yield from _figure_rows(part, record, "plain", outcome.first.test)


def _figure_rows(
    part: str, record: RunRecord, version: str, test: Decoded
) -> Iterator[dict[str, Any]]:
    data, model, loss, seed = key_of(record.settings)
    parameter = next(iter(record.settings.loss.choose), None)
    for decision, words in DECISIONS.items():
        figures = getattr(test, decision)
        if decision != "own":  # what ranks is the same whatever decides
            figures = {k: v for k, v in figures.items() if k not in PAPER_METRICS[4:]}
        if not any(name in figures for name in PAPER_METRICS):
            continue
        values = ""
        if version == "chosen":
            at = record.done.chosen_for.get(decision, {})
            values = ";".join(f"{at[m][parameter]:g}" if m in at else "" for m in PAPER_METRICS)
        yield {
            "part": part, "data": data, "model": model, "loss": loss, "version": version,
            "seed": seed, "decision": words,
            **{m: f"{100 * figures[m]:.3f}" for m in PAPER_METRICS if m in figures},
            "empty_predictions": _per_cent(figures.get("empty_predictions")),
            "values": values,
        }  # fmt: skip


def _per_cent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def export(part: str, records: Iterable[RunRecord], folder: Path = TABLES) -> int:
    """Add finished records to the CSV; gives how many cells it then holds.

    A cell that is there already keeps its figures.
    """
    figures, about = (read_table(path) for path in tables_of(part, folder))
    known = {(row["data"], row["model"], row["loss"], row["seed"]) for row in about}
    for record in records:
        if record.outcome is None or key_of(record.settings) in known:
            continue
        known.add(key_of(record.settings))
        about.append(cell_row(part, record))
        figures += figure_rows(part, record)
    _write_tables(part, figures, about, folder)
    return len(known)


def _write_tables(
    part: str,
    figures: Sequence[Mapping[str, Any]],
    about: Sequence[Mapping[str, Any]],
    folder: Path,
) -> None:
    for path, columns, rows in zip(
        tables_of(part, folder), (FIGURES, CELLS), (figures, about), strict=True
    ):
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(path, text.getvalue())


def chosen_rates(folder: Path = TABLES) -> dict[tuple[str, str], float]:
    """The learning rate of each set and loss, once each was tried with the first seed.

    By Micro-F1 at one threshold on the validation part.
    """
    rates = len(protocol()["part"]["fine-tuned"]["learning_rates"])
    tried: dict[tuple[str, str], dict[float, float]] = {}
    for row in read_table(tables_of("fine-tuned", folder)[1]):
        loss, _, rate = row["loss"].partition("@")
        if row["seed"] == "0" and rate:
            tried.setdefault((row["data"], loss), {})[float(rate)] = float(row["validation_f1"])
    return {
        key: max(found, key=lambda rate: found[rate])
        for key, found in tried.items()
        if len(found) == rates
    }


def run_part(part: str, data: Path, work: Path, encoders: Mapping[str, str], args: Any) -> None:
    """Run the cells that are not in the CSV, set after set, and add them to it."""
    folder = RunFolder(work / part)
    began = time.monotonic()
    folder.check_writable()
    while True:
        todo = _missing(part, data, encoders, folder, args)
        left = None if args.minutes is None else 60 * args.minutes - (time.monotonic() - began)
        if not todo or (left is not None and left <= 0):
            break
        place = Place(" ".join(["python", *sys.argv]), 1, folder.path / "checkpoints")
        workers = ProcessWorkers(args.workers, place, folder.path / "logs")
        watch = _Watch(part, folder, args.tables)
        done = run_cells(todo, folder, workers, place, watch=watch, seconds=left)
        export(part, read_records(folder.runs)[0], args.tables)
        failed = [record for record in done.finished if record.outcome is None]
        for record in failed:
            print(f"failed: {record.settings.title()}: {record.error}", flush=True)
        if len(failed) == len(done.finished):  # nothing more to learn from trying again
            break
    status([part], args.tables)


def _missing(
    part: str, data: Path, encoders: Mapping[str, str], folder: RunFolder, args: Any
) -> list[Cell]:
    """The cells of a part that neither the CSV nor the folder has, in the order to run them."""
    export(part, read_records(folder.runs)[0], args.tables)
    rows = read_table(tables_of(part, args.tables)[1])
    known = {(row["data"], row["model"], row["loss"], row["seed"]) for row in rows}
    rates = chosen_rates(args.tables) if part in ("fine-tuned", "extras") else {}
    found = []
    for grid in grids(part, data, encoders, rates):
        if not args.sets or grid.data[0].title in args.sets:
            found += [cell for cell in cells(grid) if key_of(cell.settings) not in known]
    order = {entry["name"]: place for place, entry in enumerate(protocol()["data"])}
    return sorted(found, key=lambda cell: (order[cell.settings.data], cell.settings.seed))


class _Watch:
    """Says what is done, and writes the CSV now and then."""

    def __init__(self, part: str, folder: RunFolder, tables: Path) -> None:
        self.part, self.folder, self.tables = part, folder, tables
        self.told, self.exported = 0, time.monotonic()

    def __call__(self, progress: ComparisonProgress) -> None:
        for record in progress.finished[self.told :]:
            seconds = record.seconds.fit + record.seconds.evaluate
            left = len(progress.waiting) + len(progress.running)
            print(f"{record.settings.title()}: {seconds:.1f} s, {left} to go", flush=True)
        self.told = len(progress.finished)
        if time.monotonic() - self.exported > SECONDS_BETWEEN_EXPORTS:
            export(self.part, read_records(self.folder.runs)[0], self.tables)
            self.exported = time.monotonic()


def status(parts: Sequence[str] = (), folder: Path = TABLES) -> None:
    """How much of each set is in the CSV, how long it took, and what had not settled."""
    for part in parts or protocol()["part"]:
        rows = read_table(tables_of(part, folder)[1])
        for data in dict.fromkeys(row["data"] for row in rows):
            of_set = [row for row in rows if row["data"] == data]
            seeds = len({row["seed"] for row in of_set})
            seconds = sum(float(row["seconds"]) for row in of_set)
            marked = sum(row["settled"] == "no" for row in of_set)
            print(
                f"{part} {data}: {len(of_set)} cells of {seeds} seeds, {seconds:,.0f} s, "
                f"{marked} not settled"
            )


def cost(data: Path, sets: Sequence[str], losses: Sequence[str], samples: int) -> None:
    """Processor time of a training that chooses from five values, over that of one with one.

    The whole training, as `zlpr train` does it: features, path, decision and probabilities.
    """
    from zlpr.compare.cell import share_inputs
    from zlpr.training import TrainingConfig
    from zlpr.training.fitting import fit_parts

    plan = protocol()
    for entry in plan["data"]:
        if entry["name"] not in sets:
            continue
        spec = DataSpec(str(data / entry["path"]), entry["name"], entry.get("read", {}))
        grid = Grid((spec,), ("linear",), (LossSpec("zlpr", "zlpr"),), (0,), max_samples=samples)
        parts = replace(share_inputs(cells(grid)[0]).parts, test=None)
        for loss in loss_specs(plan, losses):
            first = {name: values[0] for name, values in loss.choose.items()}
            used = []
            for settings in (
                {"loss_params": first},  # fills caches
                {"loss_params": first},
                {"choose": loss.choose},
            ):
                config = TrainingConfig(loss=loss.name, **settings)
                began = time.process_time()
                found = fit_parts(parts, config)
                used.append((time.process_time() - began, len(found.history)))
            (one, fits), (many, more) = used[1:]
            print(
                f"{entry['name']} {loss.name}: {fits} fits in {one:.2f} s, with five values "
                f"{more} in {many:.2f} s: {many / one:.2f} times",
                flush=True,
            )


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    steps = parser.add_subparsers(dest="step", required=True)
    data = steps.add_parser("data", help="lay out the data")
    data.add_argument("data", type=Path, help="folder of the public data")
    data.add_argument("out", type=Path, help="folder to make")
    run = steps.add_parser("run", help="run a part, or go on with it")
    run.add_argument("part", choices=tuple(protocol()["part"]))
    run.add_argument("--data", type=Path, required=True, help="folder that 'data' made")
    run.add_argument("--work", type=Path, required=True, help="folder for the run records")
    run.add_argument("--english", metavar="DIR", help="encoder for English texts")
    run.add_argument("--chinese", metavar="DIR", help="encoder for Chinese texts")
    run.add_argument("--tables", type=Path, default=TABLES, help="folder of the CSV files")
    run.add_argument("--sets", nargs="+", default=[], help="only these")
    run.add_argument("--workers", type=int, default=1, help="cells at a time (default 1)")
    run.add_argument("--minutes", type=float, help="start no cell after so long")
    steps.add_parser("status", help="what the CSV holds")
    dear = steps.add_parser("cost", help="what five values of a parameter cost")
    dear.add_argument("--data", type=Path, required=True, help="folder that 'data' made")
    dear.add_argument("--sets", nargs="+", default=["scene", "enron", "arxiv6-title", "goemotions"])
    dear.add_argument("--losses", nargs="+", default=["zlpr", "bce", "focal", "dice2", "lsep"])
    dear.add_argument("--samples", type=int, default=3000)
    page = steps.add_parser("page", help="write docs/study.md and its figures from the CSV")
    page.add_argument("--docs", type=Path, default=TABLES.parent, help="folder of the pages")
    args = parser.parse_args()
    if args.step == "data":
        lay_out(args.data, args.out)
    elif args.step == "run":
        encoders = {"english": args.english or "", "chinese": args.chinese or ""}
        if args.part != "linear" and not all(encoders.values()):
            raise UserError(f"{args.part}: name the encoders, --english DIR --chinese DIR")
        run_part(args.part, args.data, args.work, encoders, args)
    elif args.step == "status":
        status()
    elif args.step == "cost":
        cost(args.data, args.sets, args.losses, args.samples)
    else:
        sys.path.insert(0, str(HERE.parent))
        from bench import study_page, study_quotes

        study_page.write(args.docs)
        for name, words in study_quotes.quotes():
            print(f"{name} says: {words}")


if __name__ == "__main__":
    main()
