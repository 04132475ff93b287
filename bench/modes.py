"""The modes of multi-label learning and the paper's losses beside each other, and how cost grows.

    python bench/modes.py compare mulan/yeast mulan/scene uspto --out modes.json
    python bench/modes.py compare arxiv6-title=arxiv6/sample.csv --text TITLE --out modes.json
    python bench/modes.py grow --out growth.json
    python bench/modes.py page modes.json growth.json --figures docs/figures --table docs/modes.csv

A run is a process of its own with one thread, forked where everything is imported and the features,
the same for all modes, are read. Measured are the processor seconds of the fit, with the choice of
its regularisation and with what is fitted to its scores (not seconds of the clock, which depend on
what else runs), and the most memory held beyond what was held before. A run that takes more than
`--limit` processor seconds is recorded as that. Every mode decides by its own bound, those that
only rank by a second stage fitted on the validation part; regularisation is chosen there by
Micro-F1. The data's own test part is kept, or 8:1:1 drawn by seed 0. What is in the file already is
not run again. Linux only.
"""

import argparse
import csv
import itertools
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # before anything that counts

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

# By the names of the literature: settings of `zlpr train`.
LINEAR = {"model": "linear", "decode": "zero", "refit": False}
RANKS = {**LINEAR, "decode": "label_count"}
MODES = {
    "BR (BCE)": {**LINEAR, "loss": "bce"},
    "ZLPR": {**LINEAR, "loss": "zlpr"},
    # The same with the second stage of those that only rank: what is the stage's, what the mode's.
    "BR, label count": {**RANKS, "loss": "bce"},
    "ZLPR, label count": {**RANKS, "loss": "zlpr"},
    "LR (LSEP)": {**RANKS, "loss": "lsep"},
    "Rank-SVM": {**RANKS, "loss": "ranking"},
    "MMP": {"model": "mmp", "decode": "label_count"},
    "LP": {"model": "powerset", "decode": "zero"},
    "RAkEL": {"model": "powerset", "subset_size": 3, "decode": "zero"},
    "CC": {"model": "chain", "decode": "zero"},
    "PCC": {"model": "chain", "beam": 10, "decode": "zero"},
    "ECC": {"model": "chain", "chains": 5, "decode": "zero"},
    "ML-kNN": {"model": "knn", "decode": "zero"},
}
LOSSES = {
    "TLPR, threshold 0.5": {**LINEAR, "loss": "zlpr:threshold=0.5"},
    "soft ZLPR, smoothing 0.1": {**LINEAR, "loss": "zlpr", "label_smoothing": 0.1},
    "FZLPR, temperature 0.2": {**LINEAR, "loss": "zlpr:temperature=0.2"},
    "BCE, positives 3-fold": {**LINEAR, "loss": "bce:pos_weight=3"},
    "logit-adjusted BCE": {**LINEAR, "loss": "logit_adjusted:loss=bce,tau=1"},
    "focal (FL)": {**LINEAR, "loss": "focal"},
    "dice 1 (DL1)": {**LINEAR, "loss": "dice1"},
    "dice 2 (DL2)": {**LINEAR, "loss": "dice2"},
    "self-adjusting dice": {**LINEAR, "loss": "self_adjusting_dice"},
    "APL": {**LINEAR, "loss": "asymmetric_polynomial"},
    "SPLC": {**LINEAR, "loss": "splc"},
    "CB-NTR": {**LINEAR, "loss": "cb_ntr"},
    "LSEP, sampled": {**RANKS, "loss": "lsep:pairs=100"},
    "LSEP, threshold": {**RANKS, "loss": "lsep", "decode": "sample_threshold"},
    "BP-MLL": {**RANKS, "loss": "bp_mll"},
    "WARP": {**RANKS, "loss": "warp"},
    "WARP, harmonic": {**RANKS, "loss": "warp:rank_weight=harmonic"},
    "WARP, log": {**RANKS, "loss": "warp:rank_weight=log"},
    "circle": {**RANKS, "loss": "circle"},
    "cross entropy": {**RANKS, "loss": "cross_entropy"},
    "decoupled softmax": {**RANKS, "loss": "decoupled_softmax"},
}
ALL = MODES | LOSSES
METRICS = {
    "subset_accuracy": "Subset accuracy",
    "example_f1": "Example F1",
    "micro_f1": "Micro-F1",
    "macro_f1": "Macro-F1",
}
COSTS = {
    "seconds": "CPU seconds of a fit",
    "predict_seconds": "CPU seconds to score",
    "weights": "numbers held by the model",
    "megabytes": "MB held while fitting",
}
GROWING = ("BR (BCE)", "LR (LSEP)", "ZLPR", "LP", "CC")
SIZES = (4, 8, 16, 32, 64, 128)
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#d3d2d0"


def main() -> int:
    """Run, or draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser("compare")
    compare.add_argument("data", nargs="+", metavar="[NAME=]PATH")
    compare.add_argument("--text", help="column of texts, where a table has several")
    compare.add_argument("--samples", type=int, help="train on so many, drawn at random by seed 0")
    compare.add_argument("--modes", nargs="+", choices=ALL, default=list(ALL))
    grow = commands.add_parser("grow")
    for command in (compare, grow):
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--limit", type=float, default=600.0, help="CPU seconds of a run")
    page = commands.add_parser("page")
    page.add_argument("files", nargs=2, type=Path)
    page.add_argument("--figures", type=Path, required=True)
    page.add_argument("--table", type=Path, required=True)
    args = parser.parse_args()
    if args.command == "page":
        records, growth = (json.loads(path.read_text()) for path in args.files)
        return show(records, growth, args.figures, args.table)
    if args.command == "grow":
        jobs = [{"mode": mode, "labels": size} for size in SIZES for mode in GROWING]
    else:
        sources = [data_job(data, args.text, args.samples) for data in args.data]
        jobs = [source | {"mode": mode} for source in sources for mode in args.modes]
    return run_all(jobs, args.out, args.limit)


def data_job(given: str, text: str | None, samples: int | None) -> dict:
    """What a run is told of its data, from `PATH` or `NAME=PATH`."""
    name, _, path = given.rpartition("=")
    return {"data": name or Path(path).name, "path": path, "text": text, "samples": samples}


def run_all(jobs: list[dict], out: Path, limit: float) -> int:
    """Each job in a process of its own; what is done already is kept."""
    done = json.loads(out.read_text()) if out.exists() else []
    keys = ("data", "labels", "mode")
    known = {tuple(record.get(key) for key in keys) for record in done}
    left = [job for job in jobs if tuple(job.get(key) for key in keys) not in known]
    warm_up([job["mode"] for job in left])
    for _, of_source in itertools.groupby(left, lambda job: (job.get("data"), job.get("labels"))):
        several = list(of_source)
        source = read_source(several[0])
        for job in several:
            named = {key: job[key] for key in keys if key in job}
            done.append(named | in_a_process(job, source, limit))
            partial = out.with_suffix(".partial")
            partial.write_text(json.dumps(done, indent=1))
            partial.replace(out)
            print(done[-1], flush=True)
    return 0


class Source(NamedTuple):
    """Data in its parts, with the features that all modes read alike."""

    parts: Any
    inputs: Any
    test_inputs: Any


def read_source(job: dict) -> Source:
    """The data of a job, or made-up data of so many labels."""
    from zlpr.training import TrainingConfig
    from zlpr.training.registry import trainer_of

    parts = growing_parts(job["labels"]) if "labels" in job else read_parts(job)
    read = trainer_of("linear").read
    inputs = read(parts.train, parts.validation, TrainingConfig.of({"model": "linear"}))
    return Source(parts, inputs, inputs.read(parts.test.inputs))


def settings_of(job: dict) -> dict:
    """Of `zlpr train`; where cost is measured alone, one fit at one regularisation."""
    settings = ALL[job["mode"]]
    chooses = settings["model"] not in ("mmp", "knn")
    return settings | ({"regularisation": 1.0} if "labels" in job and chooses else {})


def warm_up(modes: list[str]) -> None:
    """Fit modes to few samples, so that no run pays for what is imported or mapped once."""
    import torch

    from zlpr.training import TrainingConfig
    from zlpr.training.fitting import fit_parts

    torch.set_num_threads(1)
    parts = growing_parts(4, samples=200)
    for mode in dict.fromkeys(modes):
        fit_parts(parts, TrainingConfig.of(settings_of({"mode": mode, "labels": 4})))


def in_a_process(job: dict, source: Source, limit: float) -> dict:
    """What a run gives, or why it did not end."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=run_one, args=(job, source, int(limit), sender)
    )
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        result = {}
    process.join()
    if result:
        return result
    if process.exitcode == -signal.SIGXCPU:
        return {"longer_than": limit}
    return {"error": f"ended with {process.exitcode}"}


def run_one(job: dict, source: Source, limit: int, sender: Any) -> None:
    """One fit: its figures, seconds and megabytes."""
    from zlpr.training import TrainingConfig
    from zlpr.training.fitting import fit_parts
    from zlpr.training.powerset import unseen_share

    warm_up([job["mode"]])
    limit += int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    Path("/proc/self/clear_refs").write_text("5")  # the most that was held is counted anew
    before, started = memory("VmRSS"), time.process_time()
    config, parts = TrainingConfig.of(settings_of(job)), source.parts
    result = fit_parts(parts, config, inputs=source.inputs, test_inputs=source.test_inputs)
    record = {
        "seconds": time.process_time() - started,
        "megabytes": max(0.0, memory("VmHWM") - before),
        "weights": weights(result.model),
        "num_labels": parts.train.num_labels,
        "samples": [len(parts.train), len(parts.validation), len(parts.test)],
        "unseen": unseen_share(parts.train.labels, parts.test.labels),
        **{metric: result.figures["test"][metric] for metric in METRICS},
    }
    sender.send({**record, "predict_seconds": seconds_to_score(result.model, source.test_inputs)})


def seconds_to_score(model: Any, read: Any) -> float:
    """Processor seconds to score samples, over as many times as the clock can tell."""
    started, times = time.process_time(), 0
    while time.process_time() - started < 0.2:
        model.score(read)
        times += 1
    return (time.process_time() - started) / times


def weights(model: object) -> int:
    """Numbers that a model holds."""
    parts = getattr(model, "softmaxes", None) or getattr(model, "chains", None) or [model]
    names = ("weight", "before", "bias", "samples", "log_odds")
    held = (getattr(part, name, None) for part in parts for name in names)
    return int(sum(tensor.size for tensor in held if tensor is not None))


def memory(which: str) -> float:
    """What this process holds (VmRSS) or has held at most (VmHWM), in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(which))


def read_parts(job: dict):  # type: ignore[no-untyped-def]
    """The data in its parts, the training part no larger than asked."""
    import numpy as np

    from zlpr import data
    from zlpr.training.parts import divide

    options = {"text": job["text"]} if job.get("text") else {}
    parts = divide(data.load(job["path"], **options), None, 0)
    most = job["samples"]
    if most is None or most >= len(parts.train):
        return parts
    rows = np.random.default_rng(0).permutation(len(parts.train))[:most]
    return replace(parts, train=parts.train.select(np.sort(rows)))


def growing_parts(num_labels: int, samples: int = 3000):  # type: ignore[no-untyped-def]
    """Samples of 100 features, about three of the labels each, drawn with noise."""
    import numpy as np
    from scipy import sparse

    from zlpr.data import Dataset
    from zlpr.training.parts import divide

    random = np.random.default_rng(0)
    features = random.standard_normal((samples, 100)).astype(np.float32)
    scores = features @ random.standard_normal((100, num_labels)) / 10
    scores += 0.5 * random.standard_normal(scores.shape)
    cut = np.quantile(scores, 1 - min(3 / num_labels, 0.5))
    names = tuple(f"label {i}" for i in range(num_labels))
    labels = sparse.csr_array(scores > cut)
    return divide(Dataset(labels, names, features=features), "random", 0)


def show(records: list[dict], growth: list[dict], figures: Path, table: Path) -> int:
    """Tables in Markdown to the terminal; all figures as CSV; the pictures."""
    for data in dict.fromkeys(record["data"] for record in records):
        rows = {record["mode"]: record for record in records if record["data"] == data}
        print_set(data, [rows[mode] for mode in MODES if mode in rows])
    print_losses(records)
    write_csv(records, table)
    figures.mkdir(parents=True, exist_ok=True)
    draw_growth(growth, figures / "modes-growth.png")
    draw_modes(records, figures / "modes-compared.png")
    return 0


def print_set(data: str, rows: list[dict]) -> None:
    """A data set's table, the best figure of each column bold."""
    ended = [row for row in rows if "seconds" in row]
    first = ended[0]
    train, validation, test = first["samples"]
    print(
        f"\n**{data}**: {train:,} + {validation:,} + {test:,} samples, {first['num_labels']} "
        f"labels; {100 * first['unseen']:.1f} % of the test part have a label set that training "
        "has not.\n"
    )
    heads = ["mode", *METRICS.values(), "CPU s", "MB", "numbers held"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for row in rows:
        if row not in ended:
            print(f"| {row['mode']} | {why_not(row)} |{' |' * (len(heads) - 2)}")
            continue
        cells = [percent(row, metric, ended) for metric in METRICS]
        costs = [f"{row['seconds']:.1f}", f"{row['megabytes']:.0f}", f"{row['weights']:,}"]
        print(f"| {' | '.join([row['mode'], *cells, *costs])} |")


def why_not(row: dict) -> str:
    """What stands where figures would."""
    return f"over {row['longer_than']:g} s" if "longer_than" in row else row["error"]


def percent(row: dict, metric: str, rivals: list[dict]) -> str:
    """A figure in per cent, bold where none is better as shown."""
    text = f"{100 * row[metric]:.1f}"
    best = f"{100 * max(rival[metric] for rival in rivals):.1f}"
    return f"**{text}**" if text == best else text


def print_losses(records: list[dict]) -> None:
    """Subset accuracy / Micro-F1 of every loss on every set, and the seconds on all of them."""
    names = list(dict.fromkeys(record["data"] for record in records))
    by_key = {(record["mode"], record["data"]): record for record in records}
    print(f"\n| Subset accuracy / Micro-F1 | {' | '.join(names)} | CPU s |")
    print("|---" * (len(names) + 2) + "|")
    for mode in ("ZLPR", "BR (BCE)", "LR (LSEP)", "Rank-SVM", *LOSSES):
        rows = [by_key.get((mode, name), {"error": "not run"}) for name in names]
        cells = [
            f"{100 * row['subset_accuracy']:.1f} / {100 * row['micro_f1']:.1f}"
            if "seconds" in row
            else why_not(row)
            for row in rows
        ]
        print(f"| {mode} | {' | '.join(cells)} | {sum(r.get('seconds', 0) for r in rows):.0f} |")


def write_csv(records: list[dict], path: Path) -> None:
    """Every run as a line."""
    columns = ["data", "mode", *METRICS, *COSTS, "unseen", "longer_than"]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(columns)
        for record in records:
            values = (record.get(column, "") for column in columns)
            rows.writerow([f"{v:.4g}" if isinstance(v, float) else v for v in values])


def draw_growth(growth: list[dict], path: Path) -> None:
    """What a fit and a prediction cost as the labels grow."""
    plt = pyplot()
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
    for panel, (cost, title) in zip(panels, COSTS.items(), strict=True):
        for mode in GROWING:
            rows = [row for row in growth if row["mode"] == mode and cost in row]
            panel.plot([r["labels"] for r in rows], [r[cost] for r in rows], "o-", ms=4, label=mode)
        panel.set(xscale="log", yscale="log", xlabel="labels", title=title)
        panel.set_xticks(SIZES, [str(size) for size in SIZES])
        panel.minorticks_off()
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def draw_modes(records: list[dict], path: Path) -> None:
    """Subset accuracy and Micro-F1 of every mode, a panel per data set."""
    plt = pyplot()
    names = list(dict.fromkeys(record["data"] for record in records))
    figure, panels = plt.subplots(
        1, len(names), figsize=(2 * len(names), 3.6), sharey=True, layout="constrained"
    )
    for panel, name in zip(panels, names, strict=True):
        rows = [r for r in records if r["data"] == name and r["mode"] in MODES and "seconds" in r]
        places = [len(MODES) - list(MODES).index(row["mode"]) for row in rows]
        for metric, colour in (("subset_accuracy", BLUE), ("micro_f1", ORANGE)):
            values = [100 * row[metric] for row in rows]
            panel.plot(values, places, "o", color=colour, ms=5, label=METRICS[metric])
            panel.axvline(max(values), color=colour, linewidth=0.6)
        panel.set(title=name, xlabel="%")
        panel.grid(axis="y", color=GREY, linewidth=0.6)
    panels[0].set_yticks(range(len(MODES), 0, -1), list(MODES))
    names_of_colours = panels[0].get_legend_handles_labels()
    figure.legend(*names_of_colours, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=110)


def pyplot():  # type: ignore[no-untyped-def]
    """Matplotlib without a screen."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    return plt


if __name__ == "__main__":
    sys.exit(main())
