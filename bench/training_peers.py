"""What a user would train instead of zlpr's linear model, one peer per environment.

    PYTHON bench/training_peers.py PEER DATA.json SCORES.npz --repeat 3

`bench/training.py` calls this with the Python of each peer's own environment. A run goes from texts
in memory to a fitted model, features included; reading, importing and predicting are not timed.
This file imports nothing of zlpr.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Texts = list[str]
Labels = list[list[int]]
Scorer = Callable[[Texts], np.ndarray]


def tfidf(texts: Texts) -> tuple[Any, Any]:
    """scikit-learn's TF-IDF as it comes."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer()
    return vectorizer, vectorizer.fit_transform(texts)


def indicator(labels: Labels, num_labels: int) -> np.ndarray:
    """Label numbers as a matrix of 0 and 1."""
    matrix = np.zeros((len(labels), num_labels), dtype=np.int8)
    for row, numbers in enumerate(labels):
        matrix[row, numbers] = 1
    return matrix


def fit_scikit_learn(texts: Texts, labels: Labels, num_labels: int) -> Scorer:
    """One-vs-rest logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    vectorizer, features = tfidf(texts)
    model = OneVsRestClassifier(LogisticRegression(), n_jobs=threads())
    model.fit(features, indicator(labels, num_labels))
    return lambda new: model.decision_function(vectorizer.transform(new))


def fit_libmultilabel(texts: Texts, labels: Labels, num_labels: int) -> Scorer:
    """LibMultiLabel's one-vs-rest, with its own preprocessor."""
    from libmultilabel import linear

    data = {"data_format": "txt", "train": {"x": texts, "y": labels}}
    preprocessor = linear.Preprocessor()
    made = preprocessor.fit_transform({**data, "classes": list(range(num_labels))})
    model = linear.train_1vsrest(made["train"]["y"], made["train"]["x"], False, "", False)
    return lambda new: model.predict_values(preprocessor.vectorizer.transform(new))


def fit_napkinxc(texts: Texts, labels: Labels, num_labels: int) -> Scorer:
    """Binary relevance by napkinXC."""
    from napkinxc.models import BR

    vectorizer, features = tfidf(texts)
    folder = tempfile.TemporaryDirectory()
    model = BR(folder.name, threads=threads())
    model.fit(features, labels)

    def score(new: Texts) -> np.ndarray:
        scores = np.zeros((len(new), num_labels))
        found = model.predict_proba(vectorizer.transform(new), top_k=num_labels)
        for row, pairs in enumerate(found):
            for label, probability in pairs:
                scores[row, label] = probability
        folder.name  # noqa: B018 - the folder lives as long as the model is asked
        return scores

    return score


def fit_fasttext(texts: Texts, labels: Labels, num_labels: int) -> Scorer:
    """fastText: one-vs-all, 15 epochs, bigrams."""
    import fasttext

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        with path.open("w", encoding="utf-8") as stream:
            for text, numbers in zip(texts, labels, strict=True):
                marks = " ".join(f"__label__{number}" for number in numbers)
                stream.write(f"{marks} {' '.join(text.split())}\n")
        model = fasttext.train_supervised(
            str(path), loss="ova", epoch=15, wordNgrams=2, thread=threads(), verbose=0
        )

    def score(new: Texts) -> np.ndarray:
        scores = np.zeros((len(new), num_labels))
        for row, text in enumerate(new):
            for probability, mark in model.f.predict(
                " ".join(text.split()) + "\n", -1, 0.0, "strict"
            ):
                scores[row, int(mark.removeprefix("__label__"))] = probability
        return scores

    return score


PEERS = {
    "libmultilabel": fit_libmultilabel,
    "napkinxc": fit_napkinxc,
    "fasttext": fit_fasttext,
    "scikit-learn": fit_scikit_learn,
}


def threads() -> int:
    """As many as every arm of the benchmark gets."""
    return int(os.environ.get("OMP_NUM_THREADS", "2"))


def main() -> None:
    """Time a peer and keep its scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("data", type=Path)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    data = json.loads(args.data.read_text(encoding="utf-8"))
    fit = PEERS[args.peer]
    fit(data["train"]["texts"][:500], data["train"]["labels"][:500], data["num_labels"])  # imports
    seconds = []
    for _ in range(args.repeat):
        start = time.perf_counter()
        score = fit(data["train"]["texts"], data["train"]["labels"], data["num_labels"])
        seconds.append(time.perf_counter() - start)
    parts = {part: score(data[part]["texts"]) for part in ("validation", "test")}
    np.savez(args.scores, seconds=seconds, **parts)


if __name__ == "__main__":
    main()
