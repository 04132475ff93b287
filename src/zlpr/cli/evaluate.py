"""`zlpr evaluate`: a trained model's figures on labelled data, and the labels it does worst on."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._escape import for_terminal
from zlpr.cli._console import print_json, print_table, say
from zlpr.cli._decision import add_decision_arguments, decide_by_hand
from zlpr.cli._label_numbers import with_model_names
from zlpr.cli._progress import progress
from zlpr.cli._reading import add_reading_arguments, columns_of, load_data

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.decoding import ReliabilityCurve
    from zlpr.metrics import Empty, FrequencyGroup, LabelReport
    from zlpr.models import FittedModel

EXAMPLE = "zlpr evaluate reviews-model reviews.csv --plot reviews.png"
WORST_LABELS = 10  # that the tables list


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the data and what to show."""
    parser.add_argument("model", metavar="DIR", help="a folder that 'zlpr train' wrote")
    parser.add_argument("data", metavar="DATA", help="a file, a folder of parts, or 'demo'")
    parser.add_argument(
        "--part",
        choices=("train", "validation", "test", "all"),
        help="which part of the data to measure on (default: test where the data has a split, or "
        "is what the model was trained on and divided then; all of it otherwise)",
    )
    parser.add_argument(
        "--zero-bound", action="store_true", help="cut scores at 0, as the paper does"
    )
    add_decision_arguments(parser)
    parser.add_argument(
        "--unknown-labels",
        choices=("error", "drop"),
        default="error",
        help="what to do with labels that the model does not know (default error)",
    )
    parser.add_argument(
        "--worst",
        type=int,
        metavar="N",
        help="how many of the worst labels to list (default 10, and all of them as JSON)",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw reliability and the F1 of labels into FILE"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a FILE that is there")
    parser.add_argument(
        "--empty",
        choices=("sklearn", "paper"),
        default="sklearn",
        help="count empty cases as scikit-learn does (default), or as the paper's tables do",
    )
    parser.add_argument(
        "--propensity",
        nargs=2,
        type=float,
        metavar=("A", "B"),
        help="constants of the propensity-scored metrics (default 0.55 1.5; usual are 0.5 0.4 for "
        "Wikipedia and 0.6 2.6 for Amazon)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Read, predict, measure."""
    from zlpr import load
    from zlpr.cli._plots import check_picture, plot_evaluation
    from zlpr.training.parts import seen_before

    by_hand = ("threshold", "top", "min_probability")
    given = [name for name in by_hand if getattr(args, name) is not None]
    if args.zero_bound and given:
        raise UserError(f"--zero-bound and --{given[0].replace('_', '-')}: give one of them")
    if args.worst is not None and args.worst < 0:
        raise UserError(f"--worst {args.worst}: expected 0 or more")
    if args.plot:
        check_picture(args.plot, overwrite=args.overwrite)
    model = load(args.model)
    decide_by_hand(model, args)
    data = _part(_read(model, args), args.part)
    seen = seen_before(data, model.record.data)
    if seen:
        say(f"note: {seen}", error=True)
    with progress(f"predicting {counted(len(data), 'sample')}"):
        evaluation = Evaluation.of(
            model,
            data,
            zero_bound=args.zero_bound,
            empty=args.empty,
            propensity=args.propensity,
        )
    if args.plot:
        plot_evaluation(evaluation.curve, evaluation.report, data, Path(args.plot))
    if args.json:
        print_json(evaluation.to_json(args.worst))
    else:
        evaluation.print(WORST_LABELS if args.worst is None else args.worst)
        if args.plot:
            say(f"\nfigures drawn in {args.plot}")


def _read(model: "FittedModel", args: argparse.Namespace) -> "Dataset":
    """The data with the model's labels in the model's order."""
    from zlpr.data.label_names import is_number
    from zlpr.training.parts import divide_again

    like = columns_of(model)
    above = model.hierarchy
    data = load_data(args.data, args, like, may_be_flat=above is not None)
    data = with_model_names(data, model, like)
    is_flat = above is not None and data.hierarchy is None
    if above is not None:
        data = data.with_ancestors(above)
    divided, note = divide_again(data, model.record.data)
    if note and args.part != "all":
        say(f"note: {note} (--part all for all of it)", error=True)
        data = divided
    try:
        aligned = data.with_label_names(model.label_names, unknown=args.unknown_labels)
    except UserError as fault:
        raise UserError(
            f"{fault} (--unknown-labels drop); where they are numbers of labels that have names, "
            "list these with --label-names"
            if all(map(is_number, data.label_names))
            else f"{fault} (--unknown-labels drop)"
        ) from None
    for note in aligned.notes[len(data.notes) :]:
        say(f"note: {note}", error=True)
        if is_flat:
            say(
                "note: what stands above these is left out, too, for the model does not know it; "
                "--hierarchy or --hierarchy-separator tells it",
                error=True,
            )
    return aligned


def _part(data: "Dataset", part: str | None) -> "Dataset":
    if part == "all" or (part is None and data.split is None):
        return data
    if data.split is None:
        raise UserError(
            f"{data.name or 'the data'} has no split; leave --part out to use all of it"
        )
    chosen = data.part(part or "test")  # type: ignore[arg-type]
    if not len(chosen):
        raise UserError(f"{data.name or 'the data'}: no samples in its {part or 'test'} part")
    return chosen


_LABEL_HEADERS = ("label", "F1", "precision", "recall", "true", "predicted")
CELLS_AT_ONCE = 2**25
"""Scores that are held at a time: some hundred megabytes with what is made of them."""


def _blocks(data: "Dataset") -> Iterator[slice]:
    """Rows whose scores fit in memory, whatever the number of samples."""
    size = max(1, CELLS_AT_ONCE // max(1, data.num_labels))
    for start in range(0, len(data), size):
        yield slice(start, start + size)


@dataclass(frozen=True)
class Evaluation:
    """What a model does on data: the figures, each label's, and how far probabilities hold."""

    data: "Dataset"
    figures: dict[str, float]
    report: "LabelReport"
    groups: "tuple[FrequencyGroup, ...]"
    curve: "ReliabilityCurve"
    empty: "Empty"

    @classmethod
    def of(
        cls,
        model: "FittedModel",
        data: "Dataset",
        *,
        zero_bound: bool,
        empty: "Empty",
        propensity: Sequence[float] | None = None,
    ) -> "Evaluation":
        """Predict and measure."""
        from zlpr import decoding, metrics
        from zlpr.decoding.with_ancestors import like
        from zlpr.training.judging import MANY_LABELS, frequencies_of

        constants = {} if propensity is None else dict(zip("ab", propensity, strict=True))
        try:
            frequencies = frequencies_of(model.record.frequencies, **constants)
        except ValueError as fault:
            raise UserError(f"--propensity: {fault}") from None
        if propensity is not None and frequencies is None:
            raise UserError(
                "--propensity: these metrics are of models that know how often each label was in "
                f"training, and of {MANY_LABELS} labels or more"
            )
        rule = like(model.decoder, decoding.create("zero")) if zero_bound else model.decoder
        figures = metrics.MetricSet(data.num_labels, empty=empty, frequencies=frequencies)
        curves = []
        for rows in _blocks(data):
            read = model.read(data.inputs[rows])
            scores = model.score(read)
            labels = data.labels[rows]
            figures.update(labels, scores, rule(scores, features=model.features(read)))
            curves.append(decoding.reliability_curve(labels, model.calibrator(scores)))
        return cls(
            data,
            figures.compute(),
            figures.label_report(),
            figures.by_frequency(),
            decoding.ReliabilityCurve.joined(curves),
            empty,
        )

    def worst(self, count: int | None = None) -> list[int]:
        """Columns of the labels that samples have or are predicted, lowest F1 first."""
        f1, support = self.report.f1.tolist(), self.report.support.tolist()
        predicted = self.report.predicted.tolist()
        judged = [i for i in range(len(f1)) if support[i] or predicted[i]]
        return sorted(judged, key=lambda i: (f1[i], -support[i], -predicted[i]))[:count]

    def label(self, column: int) -> dict[str, Any]:
        """One label's figures."""
        report = self.report
        return {
            "label": self.data.label_names[column],
            "f1": float(report.f1[column]),
            "precision": float(report.precision[column]),
            "recall": float(report.recall[column]),
            "support": int(report.support[column]),
            "predicted": int(report.predicted[column]),
        }

    def to_json(self, worst: int | None = None) -> dict[str, Any]:
        """Everything, the labels worst first: so many of them, or all."""
        return {
            "samples": len(self.data),
            "empty": self.empty,
            "metrics": self.figures,
            "expected_calibration_error": self.curve.expected_calibration_error,
            "label_calibration_error": self.curve.label_calibration_error,
            "by_frequency": [asdict(group) for group in self.groups],
            "labels": [self.label(column) for column in self.worst(worst)],
        }

    def print(self, worst: int) -> None:
        """The tables."""
        from zlpr.metrics.table import figure_rows, in_words, shown
        from zlpr.models.card import IN_HIERARCHY

        name = for_terminal(self.data.name) or "the data"
        size = counted(len(self.data), "sample")
        say(f"{size} of {name}, {counted(self.data.num_labels, 'label')}\n")
        headers, rows = figure_rows({"value": self.figures})
        rows += [
            ["expected calibration error ↓", shown(self.curve.expected_calibration_error)],
            ["calibration error by label ↓", shown(self.curve.label_calibration_error)],
        ]
        print_table(headers, rows)
        say(in_words(self.empty))
        if self.data.hierarchy is not None:
            say(IN_HIERARCHY)
        if self.groups:
            say()
            print_table(
                [
                    "labels by training samples",
                    "labels",
                    "of them here",
                    "true",
                    "Macro-F1",
                    "recall",
                ],
                [
                    [
                        f"{group.name}, {group.fewest:,} to {group.most:,}",
                        f"{group.labels:,}",
                        f"{group.present:,}",
                        f"{group.support:,}",
                        shown(group.macro_f1),
                        shown(group.recall),
                    ]
                    for group in self.groups
                ],
                title="From frequent to rare labels, a third of all training occurrences each",
            )
        labels = [self.label(column) for column in self.worst(worst)]
        if labels:
            cells = [
                [shown(value) if isinstance(value, float) else str(value) for value in row.values()]
                for row in labels
            ]
            say()
            print_table(_LABEL_HEADERS, cells, title=f"The {counted(len(labels), 'worst label')}")
