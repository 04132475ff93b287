"""`zlpr train`: fit a model to data and write its folder."""

import argparse
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._escape import for_terminal, from_system
from zlpr._named_values import named_values
from zlpr.cli._console import print_json, print_table, say
from zlpr.cli._reading import add_reading_arguments, is_first_process, load_data
from zlpr.cli._settings import add_settings, chosen_numbers, given_settings

if TYPE_CHECKING:
    from zlpr.data import Columns, Dataset
    from zlpr.training import FitResult, Parts, TrainingConfig
    from zlpr.training.block_workers import BlockWorkers

EXAMPLE = "zlpr train reviews.csv --out reviews-model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Data, model, loss and where the result goes."""
    from zlpr.models import registry
    from zlpr.training.automatic import AUTO_MODEL, MANY_LABELS

    models = ", ".join(registry.info(name).usage for name in registry.available())
    parser.add_argument("data", metavar="DATA", help="a file, a folder of parts, or 'demo'")
    parser.add_argument(
        "--out", metavar="DIR", required=True, help="folder to write the model into"
    )
    parser.add_argument(
        "--validation",
        metavar="FILE",
        help="data on which settings are chosen (default: a part of DATA)",
    )
    parser.add_argument(
        "--test",
        metavar="FILE",
        help="data on which the model is judged at the end (default: a part of DATA)",
    )
    parser.add_argument(
        "--model",
        default=AUTO_MODEL,
        help=f"{models}, or auto: linear, and shortlist from {MANY_LABELS} labels on; "
        "'zlpr models' explains them (default auto)",
    )
    parser.add_argument(
        "--loss-param",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a parameter of the loss, such as pos_weight=2.7; may be repeated",
    )
    parser.add_argument(
        "--choose",
        metavar="NAME=A,B,...",
        action="append",
        default=[],
        help="numbers for a parameter of the loss, such as pos_weight=1,2,4, of which validation "
        "takes the best; may be repeated",
    )
    parser.add_argument(
        "--split",
        choices=("random", "stratified", "group"),
        help="how to divide data that has no split of its own, 8:1:1 (default: group where --group "
        "is given, random otherwise)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a model that --out already holds"
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="discard an unfinished run into the same folder and start anew",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="divide the training of the model shortlist among the workers of a Ray cluster, for "
        "the same result; 'local' starts one",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="how many of the cluster's cores --ray takes (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_settings(parser)
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Read, divide, fit, save."""
    from zlpr.cli._training import training_progress
    from zlpr.models.folder import claim_folder
    from zlpr.training.automatic import AUTO_MODEL
    from zlpr.training.fitting import check_settings, fit_parts
    from zlpr.training.registry import trainer_of

    out = Path(args.out)
    if not out.name:
        raise UserError(f"--out {args.out!r}: give the folder a name")
    config = _config(args, None)  # so that a mistake shows before anything is read
    first = is_first_process()
    claimed = claim_folder(out, overwrite=args.overwrite) if first else nullcontext()
    with claimed, _workers(args) as workers:
        if "tensorboard" in getattr(config, "report_to", ()):  # checkpoints' folders are removed
            os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(out.with_name(f"{out.name}.runs")))
        parts = _parts(args, config.seed)
        config = _config(args, parts)
        check_settings(parts.train, config)
        trainer = trainer_of(config.model, workers)  # which refuses workers it has no use for
        if first:
            for line in _description(parts, refit=getattr(config, "refit", False)):
                say(line, error=args.json)
            if args.model == AUTO_MODEL:
                say(f"model: {config.model} (--model takes another)", error=args.json)
            for note in (*parts.check(), *trainer.advice(parts.train, config)):
                say(f"  note: {for_terminal(note)}", error=args.json)
        checkpoint, resumed = _checkpoint(out, args, first)
        quiet = args.json or not first
        with training_progress(config.choice_metric, resumed, quiet=quiet) as progress:
            result = fit_parts(
                parts, config, checkpoint=checkpoint, progress=progress, workers=workers
            )
        if not first:
            return
        result.model.save(out, overwrite=args.overwrite)
        shutil.rmtree(checkpoint, ignore_errors=True)
    if args.json:
        print_json(_summary(result, config, out))
    else:
        _report(result, config, out)
        _next_steps(out, args.data, reads_texts=parts.train.texts is not None)


def _config(args: argparse.Namespace, parts: "Parts | None") -> "TrainingConfig":
    """The settings; where the data may choose the model, those of the usual one until it has."""
    from zlpr.models.registry import DEFAULT
    from zlpr.training import TrainingConfig
    from zlpr.training.automatic import AUTO_MODEL, FOR_MANY, possible, settle

    params = named_values(args.loss_param, "--loss-param")
    models = (DEFAULT, FOR_MANY) if args.model == AUTO_MODEL else (args.model,)
    choose = chosen_numbers(args.choose)
    values = {"loss_params": params, "choose": choose, **given_settings(args, *models)}
    if parts is not None:
        return settle({"model": args.model, **values}, parts)
    if args.model == AUTO_MODEL:
        return possible(values)[0]
    return TrainingConfig.of({"model": args.model, **values})


def _workers(args: argparse.Namespace) -> "AbstractContextManager[BlockWorkers | None]":
    """Those of a cluster, where one is asked for and the model can use it."""
    from zlpr.training.automatic import AUTO_MODEL
    from zlpr.training.registry import check_divides

    if args.workers is not None and (not args.ray or args.workers < 1):
        raise UserError("--workers is for --ray, and at least 1")
    if not args.ray:
        return nullcontext()
    if args.model != AUTO_MODEL:
        check_divides(args.model)
    from zlpr.training.ray_block_workers import RayBlockWorkers

    return RayBlockWorkers(args.ray, args.workers)


def _parts(args: argparse.Namespace, seed: int) -> "Parts":
    """Train, validation and test: as they came, or divided here."""
    from zlpr.data.rows import answered_before
    from zlpr.training.parts import combine, divide

    data = load_data(args.data, args)
    if args.validation is None and args.test is None:
        if args.split is not None and data.split is not None:
            raise UserError(f"{args.data}: comes divided; leave --split out to use its own parts")
        return divide(data, args.split, seed)
    if data.split is not None:
        raise UserError(f"{args.data}: comes divided; leave --validation and --test out")
    if args.split is not None and args.validation is not None:
        raise UserError("--split: nothing is divided where --validation is given; leave one out")
    like = _like(data)
    if like is not None:  # what positions and ranges of columns meant there
        told = answered_before(vars(args), like, another_part=True)
        told |= {} if like.features is None else _NO_FEATURES
        args = argparse.Namespace(**{**vars(args), **told})
    validation, test = (
        None if other is None else load_data(other, args, like, may_be_flat=True)
        for other in (args.validation, args.test)
    )
    return combine(data, validation, test, seed, args.split)


_NO_FEATURES = {"features_columns": None, "categorical_columns": None}


def _like(train: "Dataset") -> "Columns | None":
    """How the other parts are read: as this one was, though sparse features may be wider there."""
    return None if train.columns is None else replace(train.columns, num_features=None)


def _checkpoint(out: Path, args: argparse.Namespace, first: bool) -> tuple[Path, str]:
    """Where an unfinished run of this folder leaves its state; what to say once it is taken up."""
    from zlpr.training.checkpoints import run_of

    checkpoint = out.with_name(f"{out.name}.checkpoint")
    unfinished = run_of(checkpoint) if first else None  # refuses a folder of something else
    if args.restart and first:
        shutil.rmtree(checkpoint, ignore_errors=True)
    elif unfinished is not None:
        run = f"the unfinished run in {checkpoint}"
        return checkpoint, f"going on with {run} (--restart discards it)"
    return checkpoint, ""


def _description(parts: "Parts", *, refit: bool) -> Iterator[str]:
    """What was understood of the data, for a model whose last fit has both parts or one."""
    import numpy as np

    train, validation, test = parts.train, parts.validation, parts.test
    sizes = f"{len(train):,} training, {len(validation):,} validation"
    tested = "" if test is None else f" and {counted(len(test), 'test sample')}"
    sizes += tested or " samples, no test part"
    counts = np.asarray(train.labels.sum(axis=0))
    yield f"data: {for_terminal(train.name) or 'unnamed'}, {sizes}"
    if train.texts is None:
        yield f"inputs: {counted(train.inputs.shape[1], 'feature')} per sample"
    else:
        words = float(np.mean([len(text.split()) for text in train.texts[:10_000]]))
        empty = sum(not text.strip() for text in train.texts)
        note = f", {empty:,} of them empty" if empty else ""
        yield f"inputs: texts of {words:.1f} words on average{note}"
        if not any(map(str.isalpha, "".join(train.texts[:1_000]))):
            yield (
                "  note: the texts hold no letters; numbers are better given as features, "
                "with --features-columns, or in an svm or ARFF file"
            )
    without = int((np.diff(train.labels.indptr) == 0).sum())
    yield (
        f"labels: {train.num_labels:,}, {train.labels.nnz / len(train):.2f} per sample, "
        f"{counted(without, 'training sample')} without any"
    )
    yield f"  most frequent: {_listed(train, np.argsort(-counts, kind='stable')[:5], counts)}"
    if train.hierarchy is not None:
        below = sum(name in train.hierarchy.parents for name in train.label_names)
        yield f"hierarchy: {below:,} of {counted(train.num_labels, 'label')} have parents"
    always = np.flatnonzero(counts == len(train))
    if len(always):
        these = "this label" if len(always) == 1 else "these labels"
        yield (
            f"  note: every training sample has {these}, which leaves nothing to learn: "
            f"{_listed(train, always[:5], None)}{', …' if len(always) > 5 else ''}"
        )
    later = np.asarray(validation.labels.sum(axis=0)) > 0 if refit else np.zeros(len(counts), bool)
    for absent, what in (
        ((counts == 0) & ~later, "and cannot be learned"),
        ((counts == 0) & later, "but some in the validation part, from which the last fit learns"),
    ):
        columns = np.flatnonzero(absent)
        if len(columns):
            yield (
                f"  note: {counted(len(columns), 'label has', 'labels have')} no training sample "
                f"{what}: {_listed(train, columns[:5], None)}{', …' if len(columns) > 5 else ''}"
            )


def _listed(data: "Dataset", columns: Any, counts: Any) -> str:
    return ", ".join(
        for_terminal(data.label_names[i]) + ("" if counts is None else f" ({int(counts[i]):,})")
        for i in columns.tolist()
    )


def _summary(result: "FitResult", config: "TrainingConfig", out: Path) -> dict[str, Any]:
    return {
        "folder": str(out),
        "empty": config.convention,
        "data": dict(result.model.record.data),
        "metrics": result.figures,
        "chosen": dict(result.chosen),
        "decoding": result.model.decoder.to_config(),
        "decision": result.choice.to_dict(),
        "num_features": result.num_features,
        "seconds": result.seconds,
    }


def _report(result: "FitResult", config: "TrainingConfig", out: Path) -> None:
    from zlpr.metrics.table import figure_rows, in_words
    from zlpr.models.card import IN_HIERARCHY, refit_note

    chosen = ", ".join(f"{name} {value:.3g}" for name, value in result.chosen.items())
    decoding = dict(result.choice.rule.to_config())
    rule = decoding.pop("rule").replace("_", " ")
    details = ", ".join(
        f"{name} {value:.3g}" for name, value in decoding.items() if isinstance(value, float)
    )
    floor = result.model.record.settings.get("min_probability")
    rule += f" ({details})" if details else ""
    rule += f", no label below a probability of {floor:g}" if floor else ""
    say(f"chosen on validation: {chosen}; decoding by {rule}" if chosen else f"decoding by {rule}")
    if result.choice.judged:
        say(f"  {result.choice.describe()}")
    say(f"probabilities by {result.probabilities.describe()}")
    say(f"trained in {result.seconds:.1f} s, {counted(result.num_features, 'feature')}")
    say()
    headers, rows = figure_rows(result.figures)
    print_table(headers, rows)
    for sentence in (in_words(config.convention), *refit_note(result.model.record)):
        say(sentence)
    if result.model.hierarchy is not None:
        say(IN_HIERARCHY)
    say()
    say(f"model written to {for_terminal(str(out))}")


def _next_steps(out: Path, data: str, *, reads_texts: bool) -> None:
    """The commands that one types after training, with the paths that were given."""
    folder, source = (for_terminal(shlex.quote(from_system(name))) for name in (str(out), data))
    tried = '"a text of yours"' if reads_texts else f"--file {source}"
    say("\nnext:")
    for command in (f"predict {folder} {tried}", f"evaluate {folder} {source}", f"serve {folder}"):
        say(f"  zlpr {command}", style="command")
