"""Fits of the linear model in a basis of the samples, and without: processor time by shape.

    python bench/sample_basis.py [--labels 6 20 65 200] [--samples 500 1000 2500 5000]
        [--words 40] [--loss zlpr]

Of each shape random texts (words drawn by Zipf's law, TF-IDF, some sixty words a text, and of
different words so many times the samples as `--words` says) are fitted at three regularisations,
each from the one before, with one thread. The time of making the basis is told apart; the last
columns say how far the objectives are apart and whether training would use it
(`zlpr.training.sample_basis.pays`).
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse

from zlpr.cli._console import print_table
from zlpr.training import LinearConfig, solvers
from zlpr.training.sample_basis import pays
from zlpr.training.solvers import WholeData

WORDS_OF_A_TEXT = 60
PATH = (1.0, 0.1, 0.01)


def draw(
    samples: int, labels: int, words_per_sample: int
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Texts and labels that their words tell."""
    rng = np.random.default_rng(0)
    words = words_per_sample * samples
    drawn = (words ** rng.random((samples, WORDS_OF_A_TEXT))).astype(np.int64)
    rows = np.repeat(np.arange(samples), WORDS_OF_A_TEXT)
    counts = sparse.csr_array((np.ones(drawn.size), (rows, drawn.ravel())), shape=(samples, words))
    counts.sum_duplicates()
    held = np.bincount(counts.indices, minlength=words)
    counts.data *= (np.log(samples / np.maximum(held, 1)) + 1)[counts.indices]
    lengths = np.sqrt((counts * counts).sum(axis=1))
    features = sparse.csr_array(counts / lengths[:, None], dtype=np.float32)
    told = features @ rng.standard_normal((words, labels)).astype(np.float32)
    return features, sparse.csr_array(told > np.quantile(told, 1 - min(0.3, 3 / labels)))


def fit(features: sparse.csr_array, labels: sparse.csr_array, loss: str) -> tuple[float, ...]:
    """Seconds of making the basis and of the path, and the last objective."""
    began = time.process_time()
    solver = WholeData(features, labels, LinearConfig(loss=loss))
    made = time.process_time() - began
    start, balance = solver.start(), solver.balance()
    began = time.process_time()
    for share in PATH:
        solution = solver.solve(start, share * balance)
        start = solution.parameters
    return made, time.process_time() - began, solution.loss


def compare(
    samples: Sequence[int], labels: Sequence[int], words_per_sample: int, loss: str
) -> list[list[str]]:
    """A row for each shape."""
    table = []
    for count in samples:
        for number in labels:
            features, targets = draw(count, number, words_per_sample)
            found = {}
            for inside in (True, False):
                solvers.pays = lambda *shape, inside=inside: inside
                found[inside] = fit(features, targets, loss)
            (made, within, value), (_, without, plain) = found[True], found[False]
            used = pays(count, features.shape[1], number)
            table.append(
                [
                    f"{count:,}", f"{features.shape[1]:,}", f"{number}", f"{without:.2f}",
                    f"{made:.2f} + {within:.2f}", f"{without / (made + within):.2f}",
                    f"{value / plain - 1:+.1e}", "yes" if used else "no",
                ]
            )  # fmt: skip
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[500, 1000, 2500, 5000])
    parser.add_argument("--labels", type=int, nargs="+", default=[6, 20, 65, 200])
    parser.add_argument("--words", type=int, default=40, help="different ones for each sample")
    parser.add_argument("--loss", default="zlpr")
    args = parser.parse_args()
    torch.set_num_threads(1)
    head = ["samples", "features", "labels", "without, s", "basis + fits, s", "times as fast"]
    rows = compare(args.samples, args.labels, args.words, args.loss)
    print_table([*head, "objective", "used"], rows)


if __name__ == "__main__":
    main()
