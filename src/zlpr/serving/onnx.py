"""Predict with an ONNX file that `zlpr export` wrote, by onnxruntime and numpy alone.

    python -m zlpr.serving.onnx reviews.onnx "Arrived broken, and nobody answers."

    >>> model = OnnxModel("reviews.onnx")  # doctest: +SKIP
    >>> model.predict(["Arrived broken, and nobody answers."])  # doctest: +SKIP
    [('delivery', 'quality')]

This file imports nothing of zlpr: it may be copied beside the model and run by itself
(`python onnx_runtime.py reviews.onnx "…"`). It is also the reference for other languages. A text
becomes features as `text_features` writes it down, which is all that a program needs besides a
runtime of ONNX; an encoder's file needs the package `tokenizers` for its tokens.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # each thousandth of a second counts from here to the first answer
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Inputs = dict[str, NDArray[Any]]

WORDS = {"word": r"\w\w+", "word+emoji": "\\w\\w+|[\u2600-\u27bf\U0001f1e6-\U0001faff]"}
"""What a word is, by the name that a vocabulary gives its symbols."""
CELLS_AT_ONCE = 1 << 24
"""Entries times labels that are computed together: 64 MB."""
ROWS_AT_ONCE = 64
LARGEST_FEATURE = 1e30
"""Beyond it, a score may be more than single precision holds."""


class View:
    """The n-grams of one kind that a model knows: of words, of characters in words, or of all.

    Args:
        view: as the vocabulary lists it.
        first: the column of its first n-gram.
    """

    def __init__(self, view: dict[str, Any], first: int) -> None:
        self.symbols = view["symbols"]
        self.shortest, self.longest = view["ngrams"]
        self.first, self.counts, self.num_texts = first, view["counts"], view["num_texts"]
        self.places = dict(zip(view["terms"], range(len(view["terms"])), strict=True))

    def runs(self, text: str) -> Iterator[Sequence[str]]:
        """Symbols in a row that n-grams are made of; none crosses from one run to the next."""
        lower = text.lower()
        if self.symbols in WORDS:
            yield re.findall(WORDS[self.symbols], lower)
        elif self.symbols == "subword":
            yield from (f" {word} " for word in re.findall(r"\S+", lower))
        else:
            yield re.sub(r"\s\s+", " ", lower)

    def rarity(self, place: int) -> float:
        """What an n-gram weighs that was in so many of the training texts: the rarer, the more."""
        return 1.0 + math.log((1.0 + self.num_texts) / (1.0 + self.counts[place]))

    def features(self, text: str) -> tuple[list[int], list[float]]:
        """Columns and values of a text's n-grams; the values have length one."""
        joint = " " if self.symbols in WORDS else ""
        found = Counter(
            joint.join(run[start : start + size])
            for run in self.runs(text)
            for size in range(self.shortest, self.longest + 1)
            for start in range(len(run) - size + 1)
        )
        known = [(self.places[term], found[term]) for term in found if term in self.places]
        columns = [self.first + place for place, _ in known]
        values = [self.rarity(place) * (1.0 + math.log(count)) for place, count in known]
        length = math.sqrt(sum(value * value for value in values))
        return columns, [value / length for value in values]


def text_features(views: Sequence[View], texts: Sequence[str]) -> Inputs:
    """`indices` and `values` of the n-grams of texts, (texts, entries), filled up with zeros."""
    rows = [[view.features(text) for view in views] for text in texts]
    width = max((sum(len(columns) for columns, _ in row) for row in rows), default=0)
    indices = np.zeros((len(texts), max(width, 1)), dtype=np.int64)
    values = np.zeros(indices.shape, dtype=np.float32)
    for place, row in enumerate(rows):
        columns = [column for part, _ in row for column in part]
        indices[place, : len(columns)] = columns
        values[place, : len(columns)] = [value for _, part in row for value in part]
    return {"indices": indices, "values": values}


class OnnxModel:
    """A model from an ONNX file: label names, scores and probabilities of texts or features.

    Args:
        path: the file.
        threads: that onnxruntime may use; None leaves it to onnxruntime.

    Attributes:
        label_names: a name per score.
        about: kind, loss, rule and version of the package that wrote the file.
        reading: how inputs are made.

    Raises:
        ValueError: the file is none that `zlpr export` wrote.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(
                os.fspath(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as fault:  # onnxruntime has no base class of its own
            reason = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
            raise ValueError(f"{path}: not a model that onnxruntime can run ({reason})") from fault
        held = self._session.get_modelmeta().custom_metadata_map
        if not {"zlpr", "labels", "reading"} <= held.keys():
            raise ValueError(f"{path}: not a file that zlpr export wrote")
        self.about: dict[str, Any] = json.loads(held["zlpr"])
        self.label_names: tuple[str, ...] = tuple(json.loads(held["labels"]))
        self.reading: dict[str, Any] = json.loads(held["reading"])
        self._views: list[View] = []
        if self.reading["inputs"] == "texts":
            first = 0
            for view in json.loads(held["vocabulary"])["views"]:
                self._views.append(View(view, first))
                first += len(view["terms"])
        elif self.reading["inputs"] == "tokens":
            self._tokenizer = _load_tokenizer(held["tokenizer"], self.reading)

    def predict(self, inputs: Any) -> list[tuple[str, ...]]:
        """The label names of each sample."""
        decision = self.run(inputs)["decision"]
        return [tuple(self.label_names[i] for i in np.flatnonzero(row)) for row in decision]

    def predict_scores(self, inputs: Any) -> NDArray[np.float32]:
        """Scores of shape (samples, labels)."""
        return self.run(inputs)["scores"]

    def predict_proba(self, inputs: Any) -> NDArray[np.float32]:
        """Probabilities of shape (samples, labels)."""
        return self.run(inputs)["probabilities"]

    def run(self, inputs: Any) -> Inputs:
        """`scores`, `probabilities` and `decision`, each of shape (samples, labels).

        Args:
            inputs: a list of texts, or a matrix of features (dense, or scipy's CSR), whichever the
                model reads.
        """
        names = ("scores", "probabilities", "decision")
        shape = (0, len(self.label_names))
        parts = [dict.fromkeys(names, np.zeros(shape, dtype=np.float32))]
        parts[0]["decision"] = np.zeros(shape, dtype=bool)
        order: list[NDArray[np.int64]] = []
        for rows, batch in self._batches(inputs):
            results = self._session.run(list(names), batch)
            parts.append(dict(zip(names, results, strict=True)))
            order.append(rows)
        back = np.argsort(np.concatenate([np.zeros(0, dtype=np.int64), *order]))
        return {name: np.concatenate([part[name] for part in parts])[back] for name in names}

    def _batches(self, inputs: Any) -> Iterator[tuple[NDArray[np.int64], Inputs]]:
        """What the graph reads, some samples at a time: their numbers, and the inputs."""
        if self.reading["inputs"] == "features":
            yield from self._feature_batches(inputs)
            return
        if isinstance(inputs, str) or not all(isinstance(text, str) for text in inputs):
            raise ValueError("this model reads texts: give a list of strings")
        texts = list(inputs)
        if self.reading["inputs"] == "tokens":
            yield from self._token_batches(texts)
            return
        for start in range(0, len(texts), ROWS_AT_ONCE):
            read = text_features(self._views, texts[start : start + ROWS_AT_ONCE])
            if not self.reading["sparse"]:
                read = {"features": _dense(read, self.reading["num_features"])}
            yield from self._bounded(start, read)

    def _bounded(self, start: int, read: Inputs) -> Iterator[tuple[NDArray[np.int64], Inputs]]:
        """Batches cut so that none takes more than a bounded amount of memory."""
        samples, entries = next(iter(read.values())).shape
        size = max(1, CELLS_AT_ONCE // max(1, entries * len(self.label_names)))
        for first in range(0, samples, size):
            part = {name: array[first : first + size] for name, array in read.items()}
            yield np.arange(start + first, start + min(first + size, samples)), part

    def _feature_batches(self, inputs: Any) -> Iterator[tuple[NDArray[np.int64], Inputs]]:
        expected = self.reading["num_features"]
        matrix = inputs.tocsr() if hasattr(inputs, "tocsr") else np.asarray(inputs)
        if matrix.dtype.kind not in "biuf" or matrix.ndim != 2 or matrix.shape[1] != expected:
            raise ValueError(
                f"this model reads features: give a matrix of {expected} columns, not one of "
                f"shape {matrix.shape}"
            )
        for start in range(0, matrix.shape[0], ROWS_AT_ONCE):
            block = matrix[start : start + ROWS_AT_ONCE]
            self._check_numbers(block.data if hasattr(block, "indptr") else block)
            if self.reading["sparse"]:
                read = _entries(block)
            else:
                dense = block.toarray() if hasattr(block, "toarray") else block
                read = {"features": np.ascontiguousarray(dense, dtype=np.float32)}
            yield from self._bounded(start, read)

    def _check_numbers(self, values: Any) -> None:
        """Refuse what is no number; NaN is a missing one where training had such."""
        unfit = ~(np.abs(values) <= LARGEST_FEATURE)
        if self.reading.get("missing"):
            unfit &= ~np.isnan(values)
        if unfit.any():
            raise ValueError(
                f"the features hold {values[unfit].flat[0]}; this model takes numbers up to "
                f"{LARGEST_FEATURE:g}"
            )

    def _token_batches(self, texts: list[str]) -> Iterator[tuple[NDArray[np.int64], Inputs]]:
        """Token ids, the longest texts first, so that a batch holds texts of like length."""
        most = self.reading["max_length"] * self.reading["characters_per_token"]
        # Half of a surrogate pair is no text to a tokenizer, which would stop at it.
        whole = [text[:most].encode("utf-8", "replace").decode("utf-8") for text in texts]
        encoded = self._tokenizer.encode_batch(whole)
        ids = [one.ids or [self.reading["pad_token"]] for one in encoded]
        types = [one.type_ids or [0] for one in encoded]
        order = np.argsort([-len(row) for row in ids], kind="stable")
        for start in range(0, len(order), ROWS_AT_ONCE):
            rows = order[start : start + ROWS_AT_ONCE]
            width = len(ids[rows[0]])
            read = {
                "input_ids": self._padded([ids[i] for i in rows], width, "pad_token"),
                "attention_mask": self._padded([[1] * len(ids[i]) for i in rows], width, ""),
            }
            if self.reading["token_types"]:
                read["token_type_ids"] = self._padded([types[i] for i in rows], width, "pad_type")
            yield rows, read

    def _padded(self, rows: list[list[int]], width: int, filler: str) -> NDArray[np.int64]:
        full = np.full((len(rows), width), self.reading.get(filler, 0), dtype=np.int64)
        for row, values in zip(full, rows, strict=True):
            row[
                slice(width - len(values), None) if self.reading["pad_left"] else slice(len(values))
            ] = values
        return full


def _dense(read: Inputs, num_features: int) -> NDArray[np.float32]:
    """Features by their columns as a number for each."""
    full = np.zeros((len(read["indices"]), num_features), dtype=np.float32)
    np.add.at(full, (np.arange(len(full))[:, None], read["indices"]), read["values"])
    return full


def _entries(block: Any) -> Inputs:
    """Rows of a matrix by the columns that are not 0."""
    if hasattr(block, "indptr"):
        parts = [(row.indices, row.data) for row in (block[[i]] for i in range(block.shape[0]))]
    else:
        parts = [(np.flatnonzero(row), row[np.flatnonzero(row)]) for row in block]
    width = max((len(columns) for columns, _ in parts), default=0)
    indices = np.zeros((len(parts), max(width, 1)), dtype=np.int64)
    values = np.zeros(indices.shape, dtype=np.float32)
    for place, (columns, numbers) in enumerate(parts):
        indices[place, : len(columns)], values[place, : len(columns)] = columns, numbers
    return {"indices": indices, "values": values}


def _load_tokenizer(text: str, reading: dict[str, Any]) -> Any:
    """The tokenizer of an encoder, set to cut and not to fill up."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_padding()
    tokenizer.enable_truncation(reading["max_length"], direction=reading["truncation_side"])
    return tokenizer


def main(arguments: Sequence[str]) -> int:
    """Print the labels of texts, a line of JSON each; without texts, of standard input's lines."""
    if not arguments or arguments[0] in {"-h", "--help"}:
        sys.stdout.write("usage: python -m zlpr.serving.onnx FILE.onnx [TEXT …]\n")
        return 0 if arguments else 2
    try:
        model = OnnxModel(arguments[0])
        texts = list(arguments[1:]) or [line.rstrip("\r\n") for line in sys.stdin]
        results = model.run(texts)
    except ValueError as fault:
        sys.stderr.write(f"error: {fault}\n")
        return 2
    rows = zip(texts, results["decision"], results["probabilities"], strict=True)
    for text, decision, probabilities in rows:
        chosen = np.flatnonzero(decision).tolist()
        shares = {model.label_names[i]: round(float(probabilities[i]), 4) for i in chosen}
        line = {"text": text, "labels": list(shares), "probabilities": shares}
        sys.stdout.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
