"""Peak memory of training against what is estimated before it, by kind of model and shape.

    python bench/memory.py [--json]

Each fit has a process of its own, on random sparse features with three labels per sample. The peak
is of the resident size, beyond what was there before the fit. A training is refused where the
estimate exceeds what is free: it should be near the peak, and rather above it.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy import sparse

from zlpr.data import Dataset
from zlpr.training import Parts, TrainingConfig, fit, fitting
from zlpr.training.registry import trainer_of

# Kind, samples, features, labels.
FITS = (
    ("linear", 1_000, 20_000, 1_000),
    ("linear", 8_000, 2_000, 1_000),
    ("linear", 500, 60_000, 2_000),
    ("linear", 20_000, 10_000, 50),
    ("powerset", 2_000, 5_000, 20),
    ("mmp", 500, 20_000, 1_000),
    ("chain", 500, 20_000, 50),
    ("shortlist", 5_000, 50_000, 5_000),
    ("shortlist", 20_000, 50_000, 2_000),
    ("shortlist", 60_000, 100_000, 20_000),
)
SETTINGS = {
    "linear": {"regularisation": 10.0, "refit": False},
    "powerset": {"regularisation": 10.0},
    "mmp": {"epochs": 1},
    "chain": {"regularisation": 10.0},
    "shortlist": {"regularisation": 0.03},
}


def main() -> int:
    """Measure each fit, and print what was estimated and what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fit", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fit:
        print(json.dumps(measure(args.fit[0], *map(int, args.fit[1:]))))
        return 0
    found = [json.loads(in_a_process(map(str, one))) for one in FITS]
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"{'kind':<10}{'samples':>9}{'features':>10}{'labels':>8}{'estimate':>11}{'peak':>9}")
    for row in found:
        sizes = f"{row['samples']:>9,}{row['features']:>10,}{row['labels']:>8,}"
        estimate, peak = (f"{row[name] / 1e6:,.0f} MB" for name in ("estimate", "peak"))
        print(f"{row['kind']:<10}{sizes}{estimate:>11}{peak:>9}")
    return 0


def in_a_process(arguments) -> str:
    """What this script prints for one fit."""
    command = [sys.executable, __file__, "--fit", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measure(kind: str, samples: int, features: int, labels: int) -> dict[str, object]:
    """The estimate for one fit, and the memory that it takes."""
    random = np.random.default_rng(0)
    train, validation = (make(random, n, features, labels) for n in (samples, samples // 8))
    config = TrainingConfig.of({"model": kind, "decode": "zero", **SETTINGS[kind]})
    small = make(random, 60, 5, 3)
    fit(small, small, config)  # loads what is loaded lazily
    estimate = estimated(train, validation, config)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    fit(train, validation, config)
    sizes = {"kind": kind, "samples": samples, "features": features, "labels": labels}
    return {**sizes, "estimate": estimate, "peak": resident("VmHWM") - before}


def estimated(train: Dataset, validation: Dataset, config: TrainingConfig) -> int:
    """The bytes that `fit` would ask for."""
    asked: list[int] = []
    inputs = trainer_of(config.model).read(train, validation, config)
    parts = Parts(train, validation, None, {}, "published", 0)
    fitting.require_memory = lambda what, needed, instead: asked.append(needed)
    fitting.check_memory(parts, config, inputs)
    return asked[0]


def make(random: np.random.Generator, samples: int, features: int, labels: int) -> Dataset:
    """Random sparse features, three labels per sample."""
    density = min(1.0, 30 / features)
    matrix = sparse.random(samples, features, density, "csr", np.float32, random_state=random)
    rows, columns = np.repeat(np.arange(samples), 3), random.integers(0, labels, 3 * samples)
    shape = (samples, labels)
    indicator = sparse.csr_array((np.ones(3 * samples, dtype=bool), (rows, columns)), shape=shape)
    indicator.sum_duplicates()
    return Dataset(indicator, tuple(map(str, range(labels))), features=sparse.csr_array(matrix))


def resident(field: str) -> int:
    """A size in bytes from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"the kernel does not report {field}")


if __name__ == "__main__":
    sys.exit(main())
