"""Fine-tuning speed on GoEmotions, beside a plain Trainer script and other ways to fill batches.

    python bench/training_transformer.py --data goemotions [--model FOLDER] [--json FILE]

`--data` is a folder with the published simplified split's `train.tsv` (text, label ids, id), as it
is or compressed. `--model` is a local transformers folder; without one, a randomly initialised BERT
of 2 layers and 128 dimensions is made here, with a WordPiece vocabulary of the data itself.

All arms train the same network in the same process, in many short turns, so that what else the
machine does meets all of them; all but `shuffled` on the same batches, grouped by length as `zlpr
train` does. Speeds are the median over the turns; a ratio is the median over the turns of the ratio
within a turn.

    plain     transformers.Trainer with its own BCE, batches padded to their longest text
    ours      zlpr's MultiLabelTrainer on the same data with the same collator, ZLPR loss
    fit       the same as `zlpr train --model hf:FOLDER`, with zlpr's own batches and collator
    shuffled  as fit, on as many batches that were drawn without regard to length
    padded    transformers.Trainer, every text padded to 128 tokens

Bars: ours >= 0.98 plain; fit >= 1.3 shuffled; fit >= 3 padded.
"""

import argparse
import bz2
import copy
import gzip
import json
import lzma
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from tokenizers import BertWordPieceTokenizer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)
from transformers.utils import logging

from zlpr.models.tokens import Padding, tokenize
from zlpr.models.transformer import load_network, load_tokenizer
from zlpr.training.batches import GlobalBatches, LabelledTexts, PaddedBatches
from zlpr.training.trainer import MultiLabelTrainer

BATCH, LENGTH, NUM_LABELS, SEED = 32, 128, 28, 0
OPEN = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Setup:
    """What all arms share."""

    tokenizer: Any
    network: Any
    texts: list[str]
    targets: np.ndarray
    batches: list[list[int]]
    shuffled: list[list[int]]


def read(folder: Path, samples: int) -> tuple[list[str], np.ndarray]:
    """Texts and an indicator of their labels, evenly drawn from the file."""
    path = next((p for end in OPEN if (p := folder / f"train.tsv{end}").is_file()), None)
    if path is None:
        sys.exit(f"{folder}: no train.tsv, nor one compressed by gzip, bzip2 or xz")
    opened: Callable[..., Any] = OPEN["" if path.suffix == ".tsv" else path.suffix]
    with opened(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    rows = rows[:: max(1, len(rows) // samples)][:samples]
    targets = np.zeros((len(rows), NUM_LABELS), dtype=np.float32)
    for row, (_, labels, _) in enumerate(rows):
        targets[row, [int(label) for label in labels.split(",")]] = 1
    return [text for text, _, _ in rows], targets


def make_bert(texts: list[str]) -> tuple[Any, Any]:
    """A small BERT of random weights with a vocabulary of the texts."""
    pieces = BertWordPieceTokenizer()
    pieces.train_from_iterator(texts, vocab_size=8000, show_progress=False)
    tokenizer = BertTokenizerFast(vocab=pieces.get_vocab())
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=512, num_labels=NUM_LABELS, problem_type="multi_label_classification",
    )  # fmt: skip
    torch.manual_seed(0)
    return tokenizer, BertForSequenceClassification(config)


def arguments(folder: str) -> TrainingArguments:
    """An epoch of plain fine-tuning in the data's order, nothing else."""
    return TrainingArguments(
        output_dir=folder, per_device_train_batch_size=BATCH, num_train_epochs=1,
        learning_rate=5e-5, train_sampling_strategy="sequential", save_strategy="no",
        logging_steps=2, report_to="none", disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(), remove_unused_columns=False,
    )  # fmt: skip


def speed(trainer: Trainer) -> float:
    """Samples per second of an epoch."""
    trainer.remove_callback(PrinterCallback)
    return float(trainer.train().metrics["train_samples_per_second"])


def encoded(setup: Setup, rows: list[int], **padding: Any) -> list[dict[str, Any]]:
    """Items as the Trainer's documentation makes them."""
    texts = [setup.texts[row] for row in rows]
    tokens = setup.tokenizer(texts, truncation=True, max_length=LENGTH, **padding)
    return [
        {**{name: tokens[name][i] for name in tokens}, "labels": setup.targets[row]}
        for i, row in enumerate(rows)
    ]


def plain(setup: Setup, rows: list[int], folder: str) -> Trainer:
    """The script that one would write."""
    return Trainer(
        model=copy.deepcopy(setup.network),
        args=arguments(folder),
        train_dataset=encoded(setup, rows),
        data_collator=DataCollatorWithPadding(setup.tokenizer),
    )


def ours(setup: Setup, rows: list[int], folder: str) -> Trainer:
    """The same with our trainer and loss."""
    return MultiLabelTrainer(
        model=copy.deepcopy(setup.network),
        args=arguments(folder),
        train_dataset=encoded(setup, rows),
        data_collator=DataCollatorWithPadding(setup.tokenizer),
        loss="zlpr",
    )


def fit(setup: Setup, rows: list[int], folder: str) -> Trainer:
    """What `zlpr.training.fit` runs."""
    labels = sparse.csr_array(setup.targets[rows].astype(bool))
    texts = tokenize(setup.tokenizer, [setup.texts[row] for row in rows], LENGTH)
    return MultiLabelTrainer(
        model=copy.deepcopy(setup.network),
        args=arguments(folder),
        train_dataset=LabelledTexts(texts, labels),
        data_collator=PaddedBatches(Padding.of(setup.tokenizer)),
        loss="zlpr",
    )


def shuffled(setup: Setup, rows: list[int], folder: str) -> Trainer:
    """The same on other batches: as many, from the same place of an epoch that is only shuffled."""
    first = next(i for i, batch in enumerate(setup.batches) if rows[0] in batch)
    picked = [setup.shuffled[(first + i) % 50] for i in range(len(rows) // BATCH)]
    return fit(setup, [row for batch in picked for row in batch], folder)


def padded(setup: Setup, rows: list[int], folder: str) -> Trainer:
    """Every text as long as the longest allowed; a part of the texts is enough to time it."""
    rows = rows[: max(BATCH, len(rows) // 4)]
    return Trainer(
        model=copy.deepcopy(setup.network),
        args=arguments(folder),
        train_dataset=encoded(setup, rows, padding="max_length"),
        data_collator=DataCollatorWithPadding(setup.tokenizer),
    )


ARMS: dict[str, Callable[[Setup, list[int], str], Trainer]] = {
    "plain": plain,
    "ours": ours,
    "fit": fit,
    "shuffled": shuffled,
    "padded": padded,
}


def prepare(options: argparse.Namespace) -> Setup:
    """Data and network."""
    texts, targets = read(options.data, 50 * BATCH)
    if options.model is None:
        tokenizer, network = make_bert(texts)
    else:
        tokenizer = load_tokenizer(str(options.model))
        network = load_network(
            str(options.model),
            num_labels=NUM_LABELS,
            problem_type="multi_label_classification",
            ignore_mismatched_sizes=True,
        )
    lengths = tokenize(tokenizer, texts, LENGTH).lengths
    grouped, mixed = (
        list(GlobalBatches(len(texts), BATCH, seed=SEED, lengths=by)) for by in (lengths, None)
    )
    return Setup(tokenizer, network, texts, targets, grouped, mixed)


def measure(setup: Setup, turns: int, batches: int) -> dict[str, np.ndarray]:
    """The speeds of each arm, turn by turn; every other turn goes backwards."""
    speeds = {name: np.empty(turns) for name in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        speed(plain(setup, setup.batches[0], folder))  # the first run of all pays for loading
        for turn in range(turns):
            picked = [setup.batches[(turn * batches + i) % 50] for i in range(batches)]
            rows = [row for batch in picked for row in batch]
            for name in list(ARMS)[:: 1 if turn % 2 == 0 else -1]:
                speeds[name][turn] = speed(ARMS[name](setup, rows, folder))
    return speeds


def compare(speeds: dict[str, np.ndarray], arm: str, other: str) -> float:
    """How many times as fast an arm is as another."""
    return float(np.median(speeds[arm] / speeds[other]))


def main() -> None:
    """Measure, print, compare with the bars."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--batches", type=int, default=4, help="optimiser steps of a turn")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    logging.set_verbosity_error()
    setup = prepare(options)
    speeds = measure(setup, options.turns, options.batches)
    ratios = {
        "ours / plain": (compare(speeds, "ours", "plain"), 0.98),
        "fit / plain": (compare(speeds, "fit", "plain"), 0.98),
        "fit / shuffled": (compare(speeds, "fit", "shuffled"), 1.3),
        "fit / padded": (compare(speeds, "fit", "padded"), 3.0),
    }
    tokens = tokenize(setup.tokenizer, setup.texts, LENGTH).lengths
    widths = [
        np.mean([tokens[batch].max() for batch in batches])
        for batches in (setup.batches, setup.shuffled)
    ]
    name = "a random BERT, 2 layers of 128" if options.model is None else options.model.name
    print(f"texts of {tokens.mean():.1f} tokens, {name}, batches of {BATCH}")
    print("  batches as wide as {:.1f} tokens, shuffled alone {:.1f}".format(*widths))
    for arm, values in speeds.items():
        print(f"  {arm:8} {np.median(values):8.1f} samples/s")
    for pair, (ratio, bar) in ratios.items():
        print(f"  {pair:14} {ratio:6.3f}  bar {bar}  {'met' if ratio >= bar else 'MISSED'}")
    if options.json:
        figures = {
            "samples_per_second": {arm: np.median(values) for arm, values in speeds.items()},
            "ratios": {pair: ratio for pair, (ratio, _) in ratios.items()},
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
