"""One way to classify texts, in its own environment: parts of data in, decisions on the test out.

    PYTHON bench/default_arms.py ARM PARTS.json DECISIONS.npz

`bench/default_against_peers.py` calls this with the Python of each arm's environment. Every arm may
choose on the validation part and is then fitted to training and validation part together, with what
it chose. Peers read the same features: TF-IDF of words and pairs of words with sublinear counts, or
of runs of one to three characters for text without spaces. Their strength of regularisation is
chosen by Micro-F1 at the threshold that is best on validation.
"""

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RATIO = math.sqrt(10.0)
FARTHEST = 1e4
LEAST_F1 = 0.1
ZLPR_METRICS = ("micro_f1", "example_f1", "subset_accuracy")

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


def choose(fit_and_score: Callable[[float], Scores], truth: np.ndarray, start: float) -> float:
    """Up the hill of validation Micro-F1, from a strength by half decades either way."""
    found = {start: best_threshold(truth, fit_and_score(start))[1]}
    for ratio in (RATIO, 1.0 / RATIO):
        place = start
        while 1.0 / FARTHEST < place * ratio < FARTHEST:
            place *= ratio
            found[place] = best_threshold(truth, fit_and_score(place))[1]
            if found[place] < max(found.values()):
                break
    return max(found, key=found.__getitem__)


def run_tfidf(task: Task, fit: Fit, start: float) -> dict[str, Any]:
    """A linear peer: strength and thresholds from validation, the last fit on both parts."""
    features = Tfidf(task.texts["train"], task.analyzer)
    validation = features.read(task.texts["validation"])
    truth = task.truth["validation"]
    known: dict[float, Scores] = {}

    def score(strength: float) -> Scores:
        known[strength] = fit(features.matrix, task.truth["train"], strength)(validation)
        return known[strength]

    strength = choose(score, truth, start)
    features = Tfidf(task.both, task.analyzer)
    model = fit(features.matrix, task.both_truth, strength)
    scores = model(features.read(task.texts["test"]))
    return {**cut(truth, known[strength], scores), "chosen": strength}


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

    return one_by_one(features, truth, lambda: LinearSVC(C=strength))


def fit_logistic(features: Any, truth: np.ndarray, strength: float) -> Callable[[Any], Scores]:
    """Logistic regression, one label against the rest."""
    from sklearn.linear_model import LogisticRegression

    return one_by_one(
        features, truth, lambda: LogisticRegression(C=strength, solver="liblinear", max_iter=200)
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
    model = BR(folder.name, threads=1, liblinear_c=strength, seed=0)
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
        return " ".join(text.split() if task.analyzer == "word" else "".join(text.split()))

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
                lr=0.5,
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
    tried = {
        epochs: fit(task.texts["train"], task.truth["train"], epochs)(task.texts["validation"])
        for epochs in (10, 25, 50)
    }
    epochs = max(tried, key=lambda number: best_threshold(truth, tried[number])[1])
    scores = fit(task.both, task.both_truth, epochs)(task.texts["test"])
    return {**cut(truth, tried[epochs], scores), "chosen": epochs}


def run_zlpr(data: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Our own training, by default as `zlpr train` runs it on the same parts."""
    from zlpr.data import Dataset
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
    chosen = {**result.chosen, "rule": result.choice.rule.name}
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
    parser.add_argument("parts", type=Path)
    parser.add_argument("decisions", type=Path)
    parser.add_argument("--settings", default="{}", help="of zlpr's training, as JSON")
    args = parser.parse_args()
    data = json.loads(args.parts.read_text(encoding="utf-8"))
    start = time.process_time()
    if args.arm == "zlpr":
        found = run_zlpr(data, json.loads(args.settings))
    else:
        found = ARMS[args.arm](Task(data))
    chosen = json.dumps(found.pop("chosen"))
    seconds = time.process_time() - start + children_seconds()
    np.savez_compressed(args.decisions, chosen=chosen, seconds=seconds, **found)


def children_seconds() -> float:
    """Processor time of processes that an arm started."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
