"""What each decoding rule does to each of the six metrics, for one set of saved scores.

    python bench/decoding.py DATA [--loss zlpr] [--metric micro_f1 ...] [--save scores.npz] [--json]
    python bench/decoding.py scores.npz

DATA is anything `zlpr train` takes: a file, a folder, or "demo". A linear model is trained on it
with the loss; its scores on the validation and test parts are what the rules work on, and `--save`
keeps them, so that a second run (given the .npz) needs no training. An .npz of another model's
scores will do as well: `validation_true`, `validation_score`, `test_true`, `test_score`, each of
shape (samples, labels).

Every rule is fitted on validation for each `--metric` and judged on test. The best of each column
is marked with *. The last two metrics depend on the scores alone and are the same for all rules.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr import UserError, decoding, metrics

FIGURES = (*metrics.PAPER_METRICS, "cardinality_predicted", "empty_predictions")


@dataclass(frozen=True)
class SavedScores:
    """True labels and scores of one model, each of shape (samples, labels)."""

    validation_true: NDArray[np.bool_]
    validation_score: NDArray[np.floating[Any]]
    test_true: NDArray[np.bool_]
    test_score: NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Row:
    """One rule fitted for one metric; None where there is nothing to fit."""

    rule: str
    fitted_for: str | None
    seconds: float
    figures: dict[str, float]


def train(spec: str, loss: str, columns: dict[str, str]) -> SavedScores:
    """Scores of a linear model trained on the data."""
    from zlpr import data, training

    parts = training.divide(data.load(spec, **columns))
    validation, test = parts.validation, parts.test
    if test is None:
        raise UserError(f"{spec}: its split has no test part")
    result = training.fit(parts.train, validation, training.TrainingConfig(loss=loss))
    return SavedScores(
        validation.labels.toarray(),
        result.model.predict_scores(validation.inputs),
        test.labels.toarray(),
        result.model.predict_scores(test.inputs),
    )


def judge(scores: SavedScores, rule: decoding.Rule, metric: str | None) -> Row:
    """Fit a rule on validation and compute its figures on test."""
    start = time.perf_counter()
    rule.fit(scores.validation_true, scores.validation_score, metric or "micro_f1")
    seconds = time.perf_counter() - start
    predicted = rule(scores.test_score)
    figures = metrics.evaluate(scores.test_true, scores.test_score, predicted)
    return Row(rule.name, metric, seconds, {name: figures[name] for name in FIGURES})


def judge_all(scores: SavedScores, loss: str, fit_for: list[str]) -> list[Row]:
    """Every rule, fitted for every metric."""
    rows = [judge(scores, decoding.ZeroBound(), None)]
    for metric in fit_for:
        for name in decoding.rules_of_scores():
            if name == "expected_f1":
                rule = decoding.create(name, calibrator=decoding.Calibrator(link_scale(loss)))
            else:
                rule = decoding.create(name)
            if name != "zero":
                rows.append(judge(scores, rule, metric))
    return rows


def link_scale(loss: str) -> float:
    """Where calibration starts for the loss; 1 for those that only rank."""
    from zlpr import losses

    return losses.info(loss).link_scale or 1.0


def calibration(scores: SavedScores, loss: str) -> dict[str, float]:
    """Expected calibration error on test, of the bare link and after fitting on validation."""
    calibrator = decoding.Calibrator(link_scale(loss))
    error = decoding.expected_calibration_error
    before = error(scores.test_true, calibrator(scores.test_score))
    calibrator.fit(scores.validation_true, scores.validation_score)
    return {"bare_link": before, "fitted": error(scores.test_true, calibrator(scores.test_score))}


def show(rows: list[Row], errors: dict[str, float]) -> None:
    """Print for people."""
    titles = [metrics.info(name).title for name in FIGURES]
    print(f"{'rule':<20}{'fitted for':<17}" + "".join(f"{t:>10}" for t in titles) + "   fit, s")
    best = {}
    for name in FIGURES[:4]:
        best[name] = max(row.figures[name] for row in rows)
    for row in rows:
        cells = "".join(
            f"{value:>9.4f}" + ("*" if value == best.get(name) else " ")
            for name, value in row.figures.items()
        )
        print(f"{row.rule:<20}{row.fitted_for or '-':<17}{cells}{row.seconds:>9.2f}")
    print(
        f"expected calibration error: {errors['bare_link']:.4f} by the bare link, "
        f"{errors['fitted']:.4f} fitted"
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help='a data file or folder, "demo", or an .npz of saved scores')
    parser.add_argument("--loss", default="zlpr")
    parser.add_argument(
        "--metric",
        action="append",
        choices=decoding.DECISION_METRICS,
        help="what to fit the rules for (repeat for several; default: the first four of the six)",
    )
    parser.add_argument("--text", help="column of the text, where it has no usual name")
    parser.add_argument("--labels", help="column of the labels, where it has no usual name")
    parser.add_argument("--save", type=Path, help="keep the scores in this .npz")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.data.endswith(".npz"):
        with np.load(arguments.data) as arrays:
            scores = SavedScores(**arrays)
    else:
        named = {"text": arguments.text, "labels": arguments.labels}
        columns = {name: column for name, column in named.items() if column is not None}
        scores = train(arguments.data, arguments.loss, columns)
    if arguments.save:
        np.savez_compressed(arguments.save, **asdict(scores))
    rows = judge_all(scores, arguments.loss, arguments.metric or list(metrics.PAPER_METRICS[:4]))
    errors = calibration(scores, arguments.loss)
    if arguments.json:
        figures = {"rows": [asdict(row) for row in rows], "calibration_error": errors}
        print(json.dumps(figures, indent=1))
    else:
        show(rows, errors)


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"bench/decoding.py: {error}")
