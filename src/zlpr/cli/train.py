"""`zlpr train`: fit a model to data and write its folder."""

import argparse
import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr._errors import UserError
from zlpr.cli._console import print_json, print_table
from zlpr.cli._figures import figure_rows
from zlpr.cli._reading import add_reading_arguments, load_data

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.training import FitResult, TrainingConfig

EXAMPLE = "zlpr train reviews.csv --out reviews-model"

DECODE_HELP = (
    "how scores become label sets: auto (default) fits one threshold on validation data, or the "
    "number of labels for a loss that only ranks, since the best bound for F1 depends on the data; "
    "zero keeps the paper's bound; also threshold, per_label_threshold, top_k, expected_f1, "
    "label_count"
)


# What only one kind of model looks at, and its default.
_OF_TRANSFORMERS: dict[str, object] = {
    "preset": "default",
    "max_length": None,
    "accumulation_steps": 1,
    "mixed_precision": "auto",
    "patience": None,
    "r_drop": 0.0,
    "vat": 0.0,
    "report_to": [],
}
_OF_LINEAR: dict[str, object] = {
    "regularisation": None,
    "analyzer": "auto",
    "word_ngrams": (1, 2),
    "char_ngrams": (1, 3),
    "min_count": None,
    "max_features": None,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Data, model, loss and where the result goes."""
    parser.add_argument("data", metavar="DATA", help="a file, a folder of parts, or 'demo'")
    parser.add_argument("--out", metavar="DIR", required=True, help="the model folder to write")
    parser.add_argument(
        "--model", default="linear", help="linear (default), or hf:NAME_OR_PATH of an encoder"
    )
    parser.add_argument("--loss", default="zlpr", help="a name from 'zlpr losses' (default zlpr)")
    parser.add_argument(
        "--loss-param",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a parameter of the loss, such as pos_weight=2.7; may repeat",
    )
    parser.add_argument(
        "--preset",
        choices=("default", "paper"),
        default="default",
        help="paper: Adam at 2e-4 for 20 epochs and the paper's loss parameters",
    )
    parser.add_argument("--decode", default="auto", metavar="RULE", help=DECODE_HELP)
    parser.add_argument(
        "--decode-metric", default="micro_f1", metavar="METRIC", help="what the rule is fitted for"
    )
    parser.add_argument(
        "--metric",
        default="average_precision",
        help="what validation chooses by; the default does not collapse while a model predicts "
        "nothing (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument(
        "--split",
        choices=("random", "stratified", "group"),
        default="random",
        help="how to divide data that has no split of its own, 8:1:1 (default random)",
    )
    parser.add_argument(
        "--restart", action="store_true", help="discard an unfinished run of the same folder"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    _add_linear(parser.add_argument_group("linear model"))
    _add_batches(parser.add_argument_group("transformers, and losses trained in batches"))
    add_reading_arguments(parser)


def _add_linear(group: Any) -> None:
    group.add_argument(
        "--regularisation",
        type=float,
        metavar="R",
        help="r in 'sum of losses + r/2 |W|^2'; chosen on validation data where not given",
    )
    group.add_argument(
        "--analyzer",
        choices=("auto", "word", "char", "word+char"),
        default="auto",
        help="n-grams of words or characters; auto takes characters for text without spaces",
    )
    group.add_argument(
        "--word-ngrams", type=int, nargs=2, default=(1, 2), metavar=("MIN", "MAX"), help="1 2"
    )
    group.add_argument(
        "--char-ngrams", type=int, nargs=2, default=(1, 3), metavar=("MIN", "MAX"), help="1 3"
    )
    group.add_argument("--min-count", type=int, metavar="N", help="texts an n-gram must be in")
    group.add_argument("--max-features", type=int, metavar="N", help="n-grams to keep")


def _add_batches(group: Any) -> None:
    group.add_argument("--learning-rate", type=float, metavar="RATE", help="of Adam")
    group.add_argument("--epochs", type=int, metavar="N", help="passes over the training data")
    group.add_argument(
        "--batch-size", type=int, metavar="N", help="samples a step, over all processes"
    )
    group.add_argument(
        "--max-length", type=int, metavar="TOKENS", help="read of a text; up to 512 by default"
    )
    group.add_argument(
        "--accumulation-steps", type=int, default=1, metavar="N", help="passes a step (default 1)"
    )
    group.add_argument(
        "--mixed-precision",
        choices=("auto", "no", "fp16", "bf16"),
        default="auto",
        help="auto (default) is bf16 where the hardware is fast at it",
    )
    group.add_argument(
        "--patience", type=int, metavar="N", help="evaluations without a gain before stopping"
    )
    group.add_argument(
        "--label-smoothing",
        type=float,
        default=0.0,
        metavar="MASS",
        help="moved from the hard targets, below 1",
    )
    group.add_argument(
        "--r-drop",
        type=float,
        default=0.0,
        metavar="WEIGHT",
        help="of the divergence of two dropout passes",
    )
    group.add_argument(
        "--vat",
        type=float,
        default=0.0,
        metavar="WEIGHT",
        help="of the divergence under a virtual adversarial step",
    )
    group.add_argument(
        "--mixup", type=float, default=0.0, metavar="ALPHA", help="of the Beta distribution"
    )
    group.add_argument(
        "--report-to",
        action="append",
        default=[],
        metavar="NAME",
        help="a reporter of transformers' Trainer; tensorboard writes to DIR.runs",
    )
    group.add_argument(
        "--process-timeout",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="how long one of several processes (torchrun -m zlpr train …) waits for the others",
    )


def run(args: argparse.Namespace) -> None:
    """Read, train, test, save."""
    from zlpr.cli._training import training_progress
    from zlpr.models.folder import check_writable
    from zlpr.training import fit

    out = Path(args.out)
    _refuse_unused(args)
    config = _config(args)
    check_writable(out)
    first = os.environ.get("RANK", "0") == "0"  # of torchrun's processes; the others only compute
    if "tensorboard" in args.report_to:  # the checkpoints, where logs go otherwise, are removed
        os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(out.with_name(f"{out.name}.runs")))
    data = load_data(args.data, args)
    train, validation, test = _parts(data, args)
    if first and not args.json:
        _describe(train, validation, test)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    if args.restart and first:
        shutil.rmtree(checkpoint, ignore_errors=True)
    elif checkpoint.is_dir() and first and not args.json:
        print(f"going on with the unfinished run in {checkpoint} (--restart discards it)")
    with training_progress(args.metric, quiet=args.json or not first) as progress:
        result = fit(train, validation, config, checkpoint=checkpoint, progress=progress)
    if not first:
        return
    figures = _judge(result, config, validation, test)
    if data.split is None:
        _note_split(result, data, args)
    result.model.save(out)
    shutil.rmtree(checkpoint, ignore_errors=True)
    if args.json:
        print_json(_summary(result, figures, out))
    else:
        _report(result, figures, out)


def _refuse_unused(args: argparse.Namespace) -> None:
    """An option that the chosen model would not look at is a misunderstanding."""
    is_linear = args.model == "linear"
    unused = _OF_TRANSFORMERS if is_linear else _OF_LINEAR
    for name, default in unused.items():
        if getattr(args, name) != default:
            other = "transformers" if is_linear else "the linear model"
            raise UserError(
                f"--{name.replace('_', '-')} is for {other} only, and --model is {args.model}"
            )


def _config(args: argparse.Namespace) -> "TrainingConfig":
    from zlpr.models.features import FeatureConfig
    from zlpr.training import TrainingConfig

    settings = {field.name for field in dataclasses.fields(TrainingConfig)}
    same = {name: value for name, value in vars(args).items() if name in settings}
    return TrainingConfig(
        **{**same, "report_to": tuple(args.report_to)},
        loss_params=dict(_loss_param(text) for text in args.loss_param),
        features=FeatureConfig(
            analyzer=args.analyzer,
            word_ngrams=tuple(args.word_ngrams),
            char_ngrams=tuple(args.char_ngrams),
            min_count=args.min_count,
            max_features=args.max_features,
        ),
    )


def _loss_param(text: str) -> tuple[str, Any]:
    """`name=value`, the value as JSON has it, or else as text."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UserError(f"--loss-param {text}: expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _parts(
    data: "Dataset", args: argparse.Namespace
) -> tuple["Dataset", "Dataset", "Dataset | None"]:
    """Train, validation and test, divided here where the data does not come divided."""
    from zlpr.data import make_split

    if data.split is None:
        data = make_split(data, method=args.split, seed=args.seed)
    train, validation, test = (data.part(name) for name in ("train", "validation", "test"))
    if not len(train):
        raise UserError(f"{args.data}: its split has no training part")
    if not len(validation):  # nothing may be chosen on the test part
        drawn = make_split(train, method=args.split, seed=args.seed, fractions=(8 / 9, 1 / 9, 0.0))
        train, validation = drawn.part("train"), drawn.part("validation")
    return train, validation, test if len(test) else None


def _describe(train: "Dataset", validation: "Dataset", test: "Dataset | None") -> None:
    """What was understood of the data."""
    import numpy as np

    sizes = f"{len(train):,} training, {len(validation):,} validation"
    sizes += f" and {len(test):,} test samples" if test is not None else " samples, no test part"
    counts = np.asarray(train.labels.sum(axis=0))
    print(f"data: {train.name or 'unnamed'}, {sizes}")
    if train.texts is None:
        print(f"inputs: {train.inputs.shape[1]:,} features a sample")
    else:
        words = float(np.mean([len(text.split()) for text in train.texts[:10_000]]))
        empty = sum(not text.strip() for text in train.texts)
        note = f", {empty:,} of them empty" if empty else ""
        print(f"inputs: texts of {words:.1f} words on average{note}")
    print(
        f"labels: {train.num_labels:,}, {train.labels.nnz / len(train):.2f} a sample, "
        f"{int((np.diff(train.labels.indptr) == 0).sum()):,} training samples without any"
    )
    print(f"  most frequent: {_listed(train, np.argsort(-counts, kind='stable')[:5], counts)}")
    absent = np.flatnonzero(counts == 0)
    if len(absent):
        print(
            f"  note: {len(absent):,} labels have no training sample and cannot be learned: "
            f"{_listed(train, absent[:5], None)}{', …' if len(absent) > 5 else ''}"
        )


def _listed(data: "Dataset", columns: Any, counts: Any) -> str:
    return ", ".join(
        data.label_names[i] + ("" if counts is None else f" ({int(counts[i]):,})")
        for i in columns.tolist()
    )


def _judge(
    result: "FitResult", config: "TrainingConfig", validation: "Dataset", test: "Dataset | None"
) -> dict[str, dict[str, float]]:
    """Figures on validation and test, with the fitted rule and, where it decides, at zero."""
    from zlpr.losses import registry
    from zlpr.metrics import evaluate

    model = result.model
    parts = {"validation": (validation, result.validation_scores)}
    if test is not None:
        parts["test"] = (test, model.predict_scores(test.inputs))
    figures = {
        name: evaluate(data.labels, scores, model.decoder(scores))
        for name, (data, scores) in parts.items()
    }
    if registry.info(config.loss).decides and config.decode != "zero":
        name = "test" if test is not None else "validation"
        data, scores = parts[name]
        figures[f"{name}, bound 0"] = evaluate(data.labels, scores, scores > 0)
    model.record.metrics = figures
    return figures


def _note_split(result: "FitResult", data: "Dataset", args: argparse.Namespace) -> None:
    """Let `zlpr evaluate` know this data again and divide it in the same way."""
    from zlpr.data import data_digest

    record = result.model.record
    split = {"split_method": args.split, "split_seed": args.seed, "sha256": data_digest(data)}
    record.data = {**record.data, **split}


def _summary(
    result: "FitResult", figures: dict[str, dict[str, float]], out: Path
) -> dict[str, Any]:
    return {
        "folder": str(out),
        "metrics": figures,
        "chosen": dict(result.chosen),
        "decoding": result.model.decoder.to_config(),
        "num_features": result.num_features,
        "seconds": result.seconds,
    }


def _report(result: "FitResult", figures: dict[str, dict[str, float]], out: Path) -> None:
    chosen = ", ".join(f"{name} {value:.3g}" for name, value in result.chosen.items())
    decoding = dict(result.model.decoder.to_config())
    rule = decoding.pop("rule").replace("_", " ")
    details = ", ".join(
        f"{name} {value:.3g}" for name, value in decoding.items() if isinstance(value, float)
    )
    print(f"chosen on validation: {chosen}; decoding by {rule}{f' ({details})' if details else ''}")
    print(f"trained in {result.seconds:.1f} s, {result.num_features:,} features")
    print()
    headers, rows = figure_rows(figures)
    print_table(headers, rows)
    print()
    print(f"model written to {out}")
