"""One way to classify texts, in its own environment: parts of data in, decisions on the test out.

    PYTHON bench/default_arms.py ARM --parts PARTS.json … --decisions DECISIONS.npz …

`bench/default_against_peers.py` calls this with the Python of each arm's environment. Every arm may
choose on the validation part and is then fitted to training and validation part together, with what
it chose. Peers read the same features: TF-IDF of words and pairs of words with sublinear counts, or
of runs of one to three characters for text without spaces. Their strength of regularisation is
chosen by Micro-F1 at the threshold that is best on validation, on a path that goes on by half
decades until it turns. Beside the threshold for Micro-F1 they get one per label, and thresholds for
example F1 and subset accuracy, with the strength of the path that is best at these.
"""

import argparse
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RATIO = math.sqrt(10.0)
FARTHEST = 1e4
LEAST_F1 = 0.1
MOST_ITERATIONS = 10_000
SET_METRICS = {"example_f1": "for example F1", "subset_accuracy": "for subset accuracy"}
PUNCTUATION = re.compile(r"([.!?,'\"/():;])")

Scores = np.ndarray
Fit = Callable[[Any, np.ndarray, float], Callable[[Any], Scores]]


def indicator(part: dict[str, Any], num_labels: int) -> np.ndarray:
    """Label numbers as a matrix of truth values."""
    matrix = np.zeros((len(part["labels"]), num_labels), dtype=bool)
    for row, numbers in enumerate(part["labels"]):
        matrix[row, numbers] = True
    return matrix


def best_threshold(truth: np.ndarray, scores: Scores) -> tuple[float, float]:
    """The cut of scores with the highest F1 over all given cells, half-way to the next score."""
    truth, scores = truth.ravel(), scores.ravel()
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    hits = np.cumsum(truth[order])
    f1 = 2.0 * hits / (np.arange(1, len(order) + 1) + max(1, int(truth.sum())))
    ends = np.flatnonzero(np.append(ranked[1:] < ranked[:-1], True))
    last = ends[int(np.argmax(f1[ends]))]
    following = ranked[last + 1] if last + 1 < len(ranked) else ranked[last] - 1.0
    return float((ranked[last] + following) / 2.0), float(f1[last])


def best_set_threshold(truth: np.ndarray, scores: Scores, metric: str) -> tuple[float, float]:
    """The cut with the highest mean of a metric of samples' sets, by a sweep over all scores."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    hits = np.cumsum(np.take_along_axis(truth, order, axis=1), axis=1)
    size = truth.sum(axis=1, keepdims=True)
    taken = np.arange(1, truth.shape[1] + 1)
    if metric == "example_f1":
        values, none = 2.0 * hits / (taken + size), 0.0 * size
    else:
        values, none = (1.0 * (hits == taken) * (taken == size)), 1.0 * (size == 0)
    gains = np.diff(values, axis=1, prepend=none).ravel()
    by_score = np.argsort(-ranked.ravel(), kind="stable")
    cells = ranked.ravel()[by_score]
    means = (none.sum() + np.cumsum(gains[by_score])) / len(truth)
    ends = np.flatnonzero(np.append(cells[1:] < cells[:-1], True))
    last = ends[int(np.argmax(means[ends]))]
    if means[last] < none.mean():
        return float(cells[0]), float(none.mean())
    following = cells[last + 1] if last + 1 < len(cells) else cells[last] - 1.0
    return float((cells[last] + following) / 2.0), float(means[last])


class Tfidf:
    """The peers' features, learned from the texts of one part."""

    def __init__(self, texts: list[str], analyzer: str) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        ngrams = (1, 2) if analyzer == "word" else (1, 3)
        self.vectorizer = TfidfVectorizer(
            analyzer=analyzer, ngram_range=ngrams, sublinear_tf=True, dtype=np.float64
        )
        self.matrix = self.vectorizer.fit_transform(texts)

    def read(self, texts: list[str]) -> Any:
        """The features of other texts."""
        return self.vectorizer.transform(texts)


class Task:
    """The parts of one draw: features of the training part, then of both parts."""

    def __init__(self, data: dict[str, Any]) -> None:
        parts, labels = data["parts"], data["num_labels"]
        self.num_labels: int = labels
        self.analyzer: str = data["analyzer"]
        self.texts = {name: part["texts"] for name, part in parts.items()}
        self.truth = {name: indicator(part, labels) for name, part in parts.items()}
        self.both = self.texts["train"] + self.texts["validation"]
        self.both_truth = np.concatenate([self.truth["train"], self.truth["validation"]])


def climb(fit_and_score: Callable[[float], Scores], truth: np.ndarray, start: float) -> None:
    """Up the hill of validation Micro-F1, from a strength by half decades either way."""
    found = {start: best_threshold(truth, fit_and_score(start))[1]}
    for ratio in (RATIO, 1.0 / RATIO):
        place = start
        while 1.0 / FARTHEST < place * ratio < FARTHEST:
            place *= ratio
            found[place] = best_threshold(truth, fit_and_score(place))[1]
            if found[place] < max(found.values()):
                break


def run_tfidf(task: Task, fit: Fit, start: float) -> dict[str, Any]:
    """A linear peer: strength and thresholds from validation, the last fit on both parts."""
    train = Tfidf(task.texts["train"], task.analyzer)
    validation = train.read(task.texts["validation"])
    truth = task.truth["validation"]
    known: dict[float, Scores] = {}

    def score(strength: float) -> Scores:
        known[strength] = fit(train.matrix, task.truth["train"], strength)(validation)
        return known[strength]

    climb(score, truth, start)
    both = Tfidf(task.both, task.analyzer)
    test = both.read(task.texts["test"])
    last = cached(lambda strength: fit(both.matrix, task.both_truth, strength)(test))
    return decide(truth, known, last)


def cached(function: Callable[[Any], Scores]) -> Callable[[Any], Scores]:
    """The function, called once for each argument."""
    known: dict[Any, Scores] = {}

    def call(argument: Any) -> Scores:
        if argument not in known:
            known[argument] = function(argument)
        return known[argument]

    return call


def decide(
    truth: np.ndarray, tried: dict[Any, Scores], last: Callable[[Any], Scores]
) -> dict[str, Any]:
    """The rows of a peer: for each way to decide, what is best on validation, fitted to all.

    Args:
        truth: of the validation part.
        tried: validation scores by what may be chosen.
        last: test scores of the model that is fitted to both parts.
    """
    chosen = {"micro_f1": max(tried, key=lambda key: best_threshold(truth, tried[key])[1])}
    rows = cut(truth, tried[chosen["micro_f1"]], last(chosen["micro_f1"]))
    for metric, words in SET_METRICS.items():
        found = {key: best_set_threshold(truth, tried[key], metric) for key in tried}
        best = max(found, key=lambda key: found[key][1])
        chosen[metric] = best
        rows[f"one threshold {words}"] = last(best) > found[best][0]
    return {**rows, "chosen": chosen}


def cut(truth: np.ndarray, validation: Scores, test: Scores) -> dict[str, np.ndarray]:
    """Test scores cut at one threshold for Micro-F1, and at each label's own for its F1."""
    one = best_threshold(truth, validation)[0]
    fitted = [best_threshold(*columns) for columns in zip(truth.T, validation.T, strict=True)]
    # Where a label's own cut tells nothing (SCutFBR's bound), the common one decides.
    own = np.array([cut if f1 >= LEAST_F1 else one for cut, f1 in fitted])
    return {"one threshold": test > one, "threshold per label": test > own}


def fit_svc(features: Any, truth: np.ndarray, strength: float) -> Callable[[Any], Scores]:
    """LinearSVC, one label against the rest."""
    from sklearn.svm import LinearSVC

    return one_by_one(features, truth, lambda: LinearSVC(C=strength, max_iter=MOST_ITERATIONS))


def fit_logistic(features: Any, truth: np.ndarray, strength: float) -> Callable[[Any], Scores]:
    """Logistic regression, one label against the rest."""
    from sklearn.linear_model import LogisticRegression

    return one_by_one(
        features,
        truth,
        lambda: LogisticRegression(C=strength, solver="liblinear", max_iter=MOST_ITERATIONS),
    )


def one_by_one(
    features: Any, truth: np.ndarray, make: Callable[[], Any]
) -> Callable[[Any], Scores]:
    """A classifier per label; a label without both kinds of samples always scores the same."""
    models = [
        make().fit(features, column) if column.any() and not column.all() else column[0]
        for column in truth.T
    ]

    def score(new: Any) -> Scores:
        constant = np.ones(new.shape[0])
        columns = [
            (1e3 if model else -1e3) * constant
            if isinstance(model, np.bool_)
            else model.decision_function(new)
            for model in models
        ]
        return np.stack(columns, axis=1)

    return score


def fit_libmultilabel(features: Any, truth: np.ndarray, strength: float) -> Callable[[Any], Scores]:
    """LibMultiLabel's one-vs-rest with its usual solver, an SVM with squared hinge."""
    from libmultilabel import linear
    from scipy import sparse

    matrix = sparse.csr_matrix  # its rows have to be matrices, which those of arrays are not
    options = f"-s 1 -B 1 -c {strength}"
    model = linear.train_1vsrest(
        matrix(truth.astype(np.float64)), matrix(features), False, options, False
    )
    return lambda new: np.asarray(linear.predict_values(model, matrix(new)))


def fit_napkinxc(features: Any, truth: np.ndarray, strength: float) -> Callable[[Any], Scores]:
    """Binary relevance, by napkinXC, logistic."""
    from napkinxc.models import BR

    folder = tempfile.TemporaryDirectory()
    # By default it stops early and drops small weights, for sets with more labels than these.
    exact = {"liblinear_eps": 0.01, "weights_threshold": 0.0}
    model = BR(folder.name, threads=1, liblinear_c=strength, seed=0, **exact)
    model.fit(features, [np.flatnonzero(row).tolist() for row in truth])

    def score(new: Any) -> Scores:
        scores = np.zeros((new.shape[0], truth.shape[1]))
        for row, pairs in enumerate(model.predict_proba(new, top_k=truth.shape[1])):
            for label, probability in pairs:
                scores[row, label] = probability
        folder.name  # noqa: B018 - the folder lives as long as the model is asked
        return scores

    return score


def run_fasttext(task: Task) -> dict[str, Any]:
    """One-vs-all with pairs of words, or characters as words; the epochs chosen on validation."""
    import fasttext

    def line(text: str) -> str:
        """Lower case with marks apart, as fastText's tutorial prepares text."""
        words = PUNCTUATION.sub(r" \1 ", text.lower()).split()
        return " ".join(words if task.analyzer == "word" else "".join(words))

    def fit(texts: list[str], truth: np.ndarray, epochs: int) -> Callable[[list[str]], Scores]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.txt"
            with path.open("w", encoding="utf-8") as stream:
                for text, row in zip(texts, truth, strict=True):
                    marks = [f"__label__{number}" for number in np.flatnonzero(row)]
                    stream.write(f"{' '.join(marks)} {line(text)}\n")
            model = fasttext.train_supervised(
                str(path),
                loss="ova",
                lr=1.0,
                epoch=epochs,
                wordNgrams=2 if task.analyzer == "word" else 3,
                bucket=500_000,
                thread=1,
                seed=0,
                verbose=0,
            )

        def score(new: list[str]) -> Scores:
            scores = np.zeros((len(new), task.num_labels))
            for row, text in enumerate(new):
                for probability, mark in model.f.predict(line(text) + "\n", -1, 0.0, "strict"):
                    scores[row, int(mark.removeprefix("__label__"))] = probability
            return scores

        return score

    truth = task.truth["validation"]
    tried: dict[int, Scores] = {}
    reached = -1.0
    for epochs in (10, 25, 50, 100):
        model = fit(task.texts["train"], task.truth["train"], epochs)
        tried[epochs] = model(task.texts["validation"])
        found = best_threshold(truth, tried[epochs])[1]
        if found < reached:
            break
        reached = found
    last = cached(lambda epochs: fit(task.both, task.both_truth, epochs)(task.texts["test"]))
    return decide(truth, tried, last)


def run_zlpr(data: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Our own training, by default as `zlpr train` runs it on the same parts."""
    from zlpr.data import Dataset
    from zlpr.decoding import reliability_curve
    from zlpr.training import TrainingConfig, fit

    names = [str(number) for number in range(data["num_labels"])]
    train, validation, test = (
        Dataset.from_label_sets(
            [[names[label] for label in labels] for labels in part["labels"]],
            label_names=names,
            texts=part["texts"],
        )
        for part in (data["parts"][name] for name in ("train", "validation", "test"))
    )
    result = fit(train, validation, TrainingConfig(**settings), test=test)
    assert result.test is not None
    decided = result.model.decoder(result.test.scores, features=result.test.features)
    curve = reliability_curve(test.labels, result.model.calibrator(result.test.scores))
    chosen = {
        **result.chosen,
        "rule": result.choice.rule.name,
        "calibration_error": curve.expected_calibration_error,
        "label_calibration_error": curve.label_calibration_error,
    }
    return {"decided": np.asarray(decided, dtype=bool), "chosen": chosen}


ARMS: dict[str, Callable[[Task], dict[str, Any]]] = {
    "linearsvc": lambda task: run_tfidf(task, fit_svc, 1.0),
    "logistic": lambda task: run_tfidf(task, fit_logistic, 10.0),
    "libmultilabel": lambda task: run_tfidf(task, fit_libmultilabel, 1.0),
    "napkinxc": lambda task: run_tfidf(task, fit_napkinxc, 10.0),
    "fasttext": run_fasttext,
}


def main() -> None:
    """Run one arm on one draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arm")
    parser.add_argument("--parts", type=Path, nargs="+", required=True)
    parser.add_argument("--decisions", type=Path, nargs="+", required=True, help="one per parts")
    parser.add_argument("--settings", default="{}", help="of zlpr's training, as JSON")
    args = parser.parse_args()
    for parts, decisions in zip(args.parts, args.decisions, strict=True):
        data = json.loads(parts.read_text(encoding="utf-8"))
        start = time.process_time() + children_seconds()
        if args.arm == "zlpr":
            found = run_zlpr(data, json.loads(args.settings))
        else:
            found = ARMS[args.arm](Task(data))
        chosen = json.dumps(found.pop("chosen"))
        seconds = time.process_time() + children_seconds() - start
        np.savez_compressed(decisions, chosen=chosen, seconds=seconds, **found)


def children_seconds() -> float:
    """Processor time of processes that an arm started."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
