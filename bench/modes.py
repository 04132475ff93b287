"""The modes of multi-label learning beside each other: figures, time, memory; and how cost grows.

    python bench/modes.py compare mulan/yeast mulan/scene uspto --out modes.json
    python bench/modes.py grow --out growth.json
    python bench/modes.py page modes.json growth.json --figures docs/figures

A run is a process of its own, whose time and peak memory are its alone; one that takes longer than
`--limit` seconds of CPU is recorded as that. Every mode decides by its own bound (those that only
rank by a fitted number of labels), and regularisation is chosen on the validation part by Micro-F1.
Data is a folder or file that `zlpr.data.load` reads; its own test part is kept, or 8:1:1 drawn by
seed 0.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

# By the names of the literature: settings of `zlpr train`.
MODES = {
    "BR": {"model": "linear", "loss": "bce", "decode": "zero", "refit": False},
    "ZLPR": {"model": "linear", "loss": "zlpr", "decode": "zero", "refit": False},
    "LR (LSEP)": {"model": "linear", "loss": "lsep", "decode": "label_count", "refit": False},
    "Rank-SVM": {"model": "linear", "loss": "ranking", "decode": "label_count", "refit": False},
    "MMP": {"model": "mmp", "decode": "label_count"},
    "LP": {"model": "powerset", "decode": "zero"},
    "RAkEL": {"model": "powerset", "subset_size": 3, "decode": "zero"},
    "CC": {"model": "chain", "decode": "zero"},
    "PCC": {"model": "chain", "beam": 10, "decode": "zero"},
    "ECC": {"model": "chain", "chains": 5, "decode": "zero"},
    "ML-kNN": {"model": "knn", "decode": "zero"},
}
METRICS = ("subset_accuracy", "example_f1", "micro_f1", "macro_f1")
GROWING = ("BR", "LR (LSEP)", "ZLPR", "LP")
SIZES = (4, 8, 16, 32, 64, 128)


def main() -> int:
    """Run, or draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser("compare")
    compare.add_argument("data", nargs="+")
    compare.add_argument("--text", help="column of texts, where a table has several")
    compare.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    grow = commands.add_parser("grow")
    for command in (compare, grow):
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--limit", type=float, default=600.0, help="CPU seconds of a run")
    page = commands.add_parser("page")
    page.add_argument("files", nargs=2, type=Path)
    page.add_argument("--figures", type=Path, required=True)
    one = commands.add_parser("one")
    one.add_argument("job")
    args = parser.parse_args()
    if args.command == "one":
        return run_one(json.loads(args.job))
    if args.command == "page":
        return draw(*args.files, args.figures)
    jobs = (
        [
            {"mode": mode, "data": data, "text": args.text}
            for data in args.data
            for mode in args.modes
        ]
        if args.command == "compare"
        else [{"mode": mode, "labels": size} for size in SIZES for mode in GROWING]
    )
    return run_all(jobs, args.out, args.limit)


def run_all(jobs: list[dict], out: Path, limit: float) -> int:
    """Each job in a process of its own; what is done already is kept."""
    done = json.loads(out.read_text()) if out.exists() else []
    for job in jobs:
        if any(all(record[name] == job[name] for name in job) for record in done):
            continue
        command = [sys.executable, __file__, "one", json.dumps({**job, "limit": limit})]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if ran.returncode == 0:
            result = json.loads(ran.stdout)
        elif ran.returncode == -signal.SIGXCPU:
            result = {"longer_than": limit}
        else:
            result = {"error": ran.stderr[-300:]}
        done.append({**job, **result})
        out.write_text(json.dumps(done, indent=1))
        print(done[-1], flush=True)
    return 0


def run_one(job: dict) -> int:
    """One fit, its figures, seconds and megabytes, as JSON."""
    import torch

    from zlpr.training import TrainingConfig
    from zlpr.training.fitting import fit_parts
    from zlpr.training.powerset import unseen_share

    torch.set_num_threads(1)
    limit = int(job["limit"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    parts = growing_parts(job["labels"]) if "labels" in job else read_parts(job)
    settings = dict(MODES[job["mode"]])
    if "labels" in job:
        settings |= {"regularisation": 1.0}
    before, started = peak(), time.process_time()
    result = fit_parts(parts, TrainingConfig.of(settings))
    figures = result.figures["test"]
    record = {
        "seconds": time.process_time() - started,
        "megabytes": peak() - before,
        "unseen": unseen_share(parts.train.labels, parts.test.labels),
        "num_labels": parts.train.num_labels,
        "samples": [len(parts.train), len(parts.validation), len(parts.test)],
        "weights": weights(result.model),
        **{metric: figures[metric] for metric in METRICS},
    }
    print(json.dumps(record))
    return 0


def weights(model: object) -> int:
    """Numbers that a model holds."""
    parts = getattr(model, "softmaxes", None) or getattr(model, "chains", None) or [model]
    names = ("weight", "before", "bias", "samples")
    held = (getattr(part, name, None) for part in parts for name in names)
    return int(sum(tensor.size for tensor in held if tensor is not None))


def read_parts(job: dict):  # type: ignore[no-untyped-def]
    """The data in its parts."""
    from zlpr import data
    from zlpr.training.parts import divide

    options = {"text": job["text"]} if job.get("text") else {}
    return divide(data.load(job["data"], **options), None, 0)


def growing_parts(num_labels: int):  # type: ignore[no-untyped-def]
    """3,000 samples of 100 features, about three of the labels each, drawn with noise."""
    import numpy as np
    from scipy import sparse

    from zlpr.data import Dataset
    from zlpr.training.parts import divide

    random = np.random.default_rng(0)
    features = random.standard_normal((3000, 100)).astype(np.float32)
    scores = features @ random.standard_normal((100, num_labels)) / 10
    scores += 0.5 * random.standard_normal(scores.shape)
    cut = np.quantile(scores, 1 - min(3 / num_labels, 0.5))
    names = tuple(f"label {i}" for i in range(num_labels))
    labels = sparse.csr_array(scores > cut)
    return divide(Dataset(labels, names, features=features), "random", 0)


def peak() -> float:
    """The most memory this process has held, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def draw(compared: Path, grown: Path, figures: Path) -> int:
    """Tables in Markdown to the terminal, and the figures."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    records = json.loads(compared.read_text())
    for data in dict.fromkeys(record["data"] for record in records):
        rows = [record for record in records if record["data"] == data]
        sizes = next((r for r in rows if "samples" in r), None)
        about = "" if sizes is None else (
            f": {sum(sizes['samples']):,} samples, {sizes['num_labels']} labels, "
            f"{100 * sizes['unseen']:.1f} % of the test part's label sets not in training"
        )  # fmt: skip
        print(f"\n**{Path(data).name or data}**{about}\n")
        print(
            "| mode | SubACC | MLC-F1 | Micro-F1 | Macro-F1 | CPU s | MB |\n"
            "|---|---|---|---|---|---|---|"
        )
        for row in rows:
            if "seconds" not in row:
                why = f"over {row['longer_than']:g} s" if "longer_than" in row else "failed"
                print(f"| {row['mode']} | {why} | | | | | |")
                continue
            cells = " | ".join(f"{100 * row[metric]:.1f}" for metric in METRICS)
            print(f"| {row['mode']} | {cells} | {row['seconds']:.1f} | {row['megabytes']:.0f} |")
    figures.mkdir(parents=True, exist_ok=True)
    growth = json.loads(grown.read_text())
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6))
    for panel, name, title in zip(
        panels, ("seconds", "weights"), ("CPU seconds of a fit", "weights held"), strict=True
    ):
        for mode in GROWING:
            rows = [r for r in growth if r["mode"] == mode and name in r]
            panel.plot([r["labels"] for r in rows], [r[name] for r in rows], "o-", label=mode)
        panel.set(xscale="log", yscale="log", xlabel="labels", title=title)
    panels[0].legend()
    figure.tight_layout()
    figure.savefig(figures / "modes-growth.svg")
    figure, panel = plt.subplots(figsize=(9, 3.6))
    names = list(dict.fromkeys(Path(r["data"]).name for r in records))
    width = 0.8 / len(MODES)
    for place, mode in enumerate(MODES):
        heights = [
            next((100 * r["subset_accuracy"] for r in records
                  if (r["mode"], Path(r["data"]).name) == (mode, name) and "seconds" in r), 0)
            for name in names
        ]  # fmt: skip
        places = [i + (place - len(MODES) / 2) * width for i in range(len(names))]
        panel.bar(places, heights, width, label=mode)
    panel.set_xticks(range(len(names)), names)
    panel.set_ylabel("subset accuracy, %")
    panel.legend(ncols=4, fontsize=7)
    figure.tight_layout()
    figure.savefig(figures / "modes-compared.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
