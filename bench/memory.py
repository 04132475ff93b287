"""Peak memory of training against what is estimated before it, by kind of model and shape.

    python bench/memory.py [--json]

Each fit has a process of its own, on random sparse features with three labels per sample; those of
encoders (BERT with random weights) go through two batches of texts that are all equally long, and
those beside a frozen encoder have random vectors of 384 numbers in place of its embeddings. The
peak is of the resident size, beyond what was there before the fit. A training is refused where the
estimate exceeds what is free: it should be near the peak, and rather above it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from zlpr.data import Dataset
from zlpr.training import Parts, TrainingConfig, fit, fitting
from zlpr.training.registry import trainer_of

# Kind, samples, features, labels.
FITS = (
    ("linear", 1_000, 20_000, 1_000),
    ("linear", 500, 60_000, 2_000),
    ("linear", 8_000, 2_000, 1_000),
    ("linear", 1_300, 10_000, 12_000),
    ("linear", 20_000, 10_000, 50),
    ("powerset", 2_000, 5_000, 20),
    ("mmp", 500, 20_000, 1_000),
    ("chain", 500, 20_000, 50),
    ("shortlist", 5_000, 50_000, 5_000),
    ("shortlist", 20_000, 50_000, 2_000),
    ("shortlist", 60_000, 100_000, 20_000),
    ("embed-shortlist", 5_000, 50_000, 5_000),
    ("embed-shortlist", 20_000, 50_000, 20_000),
)
EMBEDDED = "embed-shortlist"
# Hidden units, layers, samples of a batch, tokens of a text.
FINE_TUNINGS = ((384, 6, 32, 128), (384, 6, 8, 512), (768, 12, 8, 128))
SETTINGS = {
    "linear": {"regularisation": 10.0, "refit": False},
    "powerset": {"regularisation": 10.0},
    "mmp": {"epochs": 1},
    "chain": {"regularisation": 10.0},
    "shortlist": {"regularisation": 0.03},
    "embed-shortlist": {"regularisation": 0.03, "embedding_scale": 0.5},
}


def main() -> int:
    """Measure each fit, and print what was estimated and what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fit", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--fine-tuning", nargs=4, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fit:
        of_kind = measure_embedded if args.fit[0] == EMBEDDED else measure
        print(json.dumps(of_kind(args.fit[0], *map(int, args.fit[1:]))))
        return 0
    if args.fine_tuning:
        print(json.dumps(measure_fine_tuning(*args.fine_tuning)))
        return 0
    found = [json.loads(in_a_process("--fit", map(str, one))) for one in FITS]
    tuned = [json.loads(in_a_process("--fine-tuning", map(str, one))) for one in FINE_TUNINGS]
    if args.json:
        print(json.dumps(found + tuned, indent=2))
        return 0
    print(f"{'kind':<16}{'samples':>9}{'features':>10}{'labels':>8}{'estimate':>11}{'peak':>9}")
    for row in found:
        sizes = f"{row['samples']:>9,}{row['features']:>10,}{row['labels']:>8,}"
        estimate, peak = (f"{row[name] / 1e6:,.0f} MB" for name in ("estimate", "peak"))
        print(f"{row['kind']:<16}{sizes}{estimate:>11}{peak:>9}")
    print(f"{'units':>9}{'layers':>10}{'batch':>8}{'tokens':>9}{'estimate':>11}{'peak':>9}")
    for row in tuned:
        sizes = f"{row['units']:>9,}{row['layers']:>10,}{row['batch']:>8,}{row['tokens']:>9,}"
        estimate, peak = (f"{row[name] / 1e6:,.0f} MB" for name in ("estimate", "peak"))
        print(f"{sizes}{estimate:>11}{peak:>9}")
    return 0


def in_a_process(option, arguments) -> str:
    """What this script prints for one fit."""
    command = [sys.executable, __file__, option, *arguments]
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


def measure_embedded(kind: str, samples: int, features: int, labels: int) -> dict[str, object]:
    """The same for n-grams beside embeddings, of which both are given."""
    from zlpr.training.linear_features import extract_features
    from zlpr.training.projected_features import project

    random = np.random.default_rng(0)
    config = TrainingConfig.of({"model": f"{kind}:none", **SETTINGS[kind]})
    trainer = trainer_of(config.model)

    def prepared(samples, features, labels):
        train, validation = (make(random, n, features, labels) for n in (samples, samples // 8))
        rows = len(train) + len(validation)
        vectors = random.normal(size=(rows, 384)).astype(np.float32)
        encoder = SimpleNamespace(name="none", fingerprint="none")
        return train, validation, project(extract_features(train, validation), encoder, vectors)

    small, other, inputs = prepared(60, 5, 3)
    trainer.train(small, other, config, inputs, run={})  # loads what is loaded lazily
    train, validation, inputs = prepared(samples, features, labels)
    estimate, before = trainer.memory(train, config, inputs), resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    trainer.train(train, validation, config, inputs, run={})
    sizes = {"kind": kind, "samples": samples, "features": features, "labels": labels}
    return {**sizes, "estimate": estimate, "peak": resident("VmHWM") - before}


def measure_fine_tuning(units: int, layers: int, batch: int, tokens: int) -> dict[str, object]:
    """The estimate for a fine-tuning of two batches, and the memory that it takes."""
    import torch

    torch.set_num_threads(1)
    train, validation = (texts_of(n, tokens) for n in (2 * batch, 16))
    with tempfile.TemporaryDirectory() as folder:
        config = encoder_config(Path(folder) / "small", 32, 1, batch)
        fit(train, validation, config)  # loads what is loaded lazily
        config = encoder_config(Path(folder) / "asked", units, layers, batch)
        estimate = estimated(train, validation, config)
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        fit(train, validation, config)
    sizes = {"units": units, "layers": layers, "batch": batch, "tokens": tokens}
    return {**sizes, "estimate": estimate, "peak": resident("VmHWM") - before}


def encoder_config(folder: Path, units: int, layers: int, batch: int) -> TrainingConfig:
    """Settings for one epoch of a BERT that is made here, with as many words as the usual one."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    config = BertConfig(
        hidden_size=units,
        num_hidden_layers=layers,
        num_attention_heads=12 if units % 12 == 0 else 4,
        intermediate_size=4 * units,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word"]
    vocabulary = {token: number for number, token in enumerate(marks)}
    BertTokenizerFast(vocab=vocabulary).save_pretrained(folder)
    return TrainingConfig.of({"model": f"hf:{folder}", "epochs": 1, "batch_size": batch})


def texts_of(samples: int, tokens: int) -> Dataset:
    """Texts of so many tokens, two of which mark their ends."""
    sets = [{"a"}, {"b"}, {"a", "b"}, {"c"}] * -(-samples // 4)
    return Dataset.from_label_sets(sets[:samples], texts=["word " * (tokens - 2)] * samples)


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
