"""The six metrics of the paper against scikit-learn's functions, in one run.

    python bench/metrics.py [--samples 20000] [--labels 600] [--json]
    python bench/metrics.py --candidates [--json]

Prints seconds and ratios for six calls of our functions and for one `MetricSet` (which computes
all its other figures on the way), peak memory beyond the inputs in units of the scores' size, and
a wide case (1 000 samples, 100 000 labels, CSR truth) that scikit-learn is not asked to do. With
`--candidates` alone: 100 000 samples of 1 000 000 labels with 100 candidates each, a rule fitted on
20 000 of them, all decided and judged, with the peak memory of the whole process and what the dense
scores would take.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sklearn.metrics as sk
from scipy import sparse

from zlpr import decoding, metrics

SKLEARN: dict[str, Callable[[Any, Any], float]] = {
    "subset_accuracy": sk.accuracy_score,
    "example_f1": lambda t, p: sk.f1_score(t, p, average="samples", zero_division=0),
    "micro_f1": lambda t, p: sk.f1_score(t, p, average="micro", zero_division=0),
    "macro_f1": lambda t, p: sk.f1_score(t, p, average="macro", zero_division=0),
    "average_precision": sk.label_ranking_average_precision_score,
    "ranking_loss": sk.label_ranking_loss,
}


@dataclass(frozen=True)
class Data:
    """Inputs of a benchmark; the truth is dense or CSR."""

    truth: Any
    scores: Any
    predicted: Any

    def second(self, name: str) -> Any:
        """What a metric takes beside the truth."""
        return self.scores if metrics.info(name).needs == "scores" else self.predicted


def make(samples: int, labels: int, cardinality: float, seed: int = 0) -> Data:
    """Scores of a fair model over labels of falling frequency; every sample has a label."""
    generator = np.random.default_rng(seed)
    share = 1 / np.arange(3, labels + 3)
    counts = 1 + generator.poisson(cardinality - 1, size=samples)
    rows = np.repeat(np.arange(samples), counts)
    columns = generator.choice(labels, size=len(rows), p=share / share.sum())
    truth = sparse.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(samples, labels))
    truth.sum_duplicates()
    scores = generator.standard_normal((samples, labels), dtype=np.float32)
    scores -= 3
    scores[rows, columns] += 4
    return Data(truth, scores, scores > 0)


def six(data: Data) -> dict[str, float]:
    """Our six functions, one after the other."""
    return {
        name: getattr(metrics, name)(data.truth, data.second(name), empty="sklearn")
        for name in SKLEARN
    }


def six_of_sklearn(data: Data) -> dict[str, float]:
    """scikit-learn's functions for the same six."""
    return {name: float(metric(data.truth, data.second(name))) for name, metric in SKLEARN.items()}


def all_at_once(data: Data) -> dict[str, float]:
    """Every figure of `MetricSet`."""
    return metrics.evaluate(data.truth, data.scores, data.predicted, empty="sklearn")


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Best of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def peak(function: Callable[[], object]) -> int:
    """Most bytes allocated by numpy and Python at one time while the function runs."""
    tracemalloc.start()
    function()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@dataclass(frozen=True)
class Comparison:
    """Ours against scikit-learn's on the same data; ratios above 1 mean ours is faster."""

    truth: str
    samples: int
    labels: int
    cardinality: float
    sklearn_seconds: float
    six_seconds: float
    metric_set_seconds: float
    six_ratio: float
    metric_set_ratio: float
    six_memory_over_scores: float
    metric_set_memory_over_scores: float
    largest_difference: float


def compare(samples: int, labels: int, cardinality: float, kind: str) -> Comparison:
    """Time both on the same data and check that they agree."""
    data = make(samples, labels, cardinality)
    if kind == "dense":
        data = Data(data.truth.toarray(), data.scores, data.predicted)
    ours, at_once, theirs = six(data), all_at_once(data), six_of_sklearn(data)
    six_seconds, set_seconds = (seconds(lambda f=f: f(data), 5) for f in (six, all_at_once))
    sklearn_seconds = seconds(lambda: six_of_sklearn(data), 2)
    return Comparison(
        truth=kind,
        samples=samples,
        labels=labels,
        cardinality=float(data.truth.sum() / samples),
        sklearn_seconds=sklearn_seconds,
        six_seconds=six_seconds,
        metric_set_seconds=set_seconds,
        six_ratio=sklearn_seconds / six_seconds,
        metric_set_ratio=sklearn_seconds / set_seconds,
        six_memory_over_scores=peak(lambda: six(data)) / data.scores.nbytes,
        metric_set_memory_over_scores=peak(lambda: all_at_once(data)) / data.scores.nbytes,
        largest_difference=max(abs(theirs[n] - r[n]) for n in theirs for r in (ours, at_once)),
    )


@dataclass(frozen=True)
class Wide:
    """The wide case; the process's peak beyond its inputs includes every allocator."""

    samples: int
    labels: int
    seconds: float
    memory_over_scores: float
    process_memory_over_scores: float


def wide(samples: int, labels: int) -> Wide:
    """All figures on wide data with CSR truth and CSR predictions."""
    data = make(samples, labels, cardinality=5)
    data = Data(data.truth, data.scores, sparse.csr_array(data.predicted))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    taken = seconds(lambda: all_at_once(data), 1)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    size = data.scores.nbytes
    return Wide(
        samples, labels, taken, peak(lambda: all_at_once(data)) / size, (after - before) / size
    )


@dataclass(frozen=True)
class Candidates:
    """Scores of candidates, decided and judged: seconds of each step and peak memory in bytes."""

    samples: int
    labels: int
    width: int
    fit_seconds: float
    decide_seconds: float
    evaluate_seconds: float
    inputs: int
    peak: int
    dense: int
    figures: dict[str, float]


def candidates(samples: int, labels: int, width: int, seed: int = 0) -> Candidates:
    """Fit a rule on a part, decide all, compute every metric; nothing dense is made."""
    generator = np.random.default_rng(seed)
    step = max(1, labels // width)
    places = np.arange(width) * step + generator.integers(0, step, (samples, width))
    values = np.sort(generator.normal(-2, 1, (samples, width)).astype(np.float32), axis=1)[:, ::-1]
    top = metrics.TopScores(places.astype(np.int32), values + 2, labels)
    own = np.sort(places[np.arange(samples)[:, None], generator.integers(0, 8, (samples, 3))])
    far = generator.integers(0, labels, (samples, 2))  # no candidates, for the most part
    columns = np.concatenate([own, far], axis=1)
    truth = sparse.csr_array(
        (np.ones(columns.size, bool), columns.ravel(), np.arange(0, columns.size + 1, 5)),
        shape=(samples, labels),
    )
    clock = [time.perf_counter()]
    rule = decoding.Threshold().fit(truth[:20_000], top[:20_000])
    clock.append(time.perf_counter())
    predicted = rule(top)
    clock.append(time.perf_counter())
    figures = metrics.evaluate(truth, top, predicted)
    clock.append(time.perf_counter())
    return Candidates(
        samples,
        labels,
        width,
        *np.diff(clock).tolist(),
        inputs=top.labels.nbytes + top.scores.nbytes + truth.indices.nbytes + truth.data.nbytes,
        peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        dense=4 * samples * labels,
        figures=figures,
    )


def show(results: list[Comparison], wide_result: Wide) -> None:
    """Print for people."""
    for result in results:
        print(
            f"{result.samples} x {result.labels}, {result.truth} truth, "
            f"{result.cardinality:.1f} labels per sample, agreement to "
            f"{result.largest_difference:.0e}\n"
            f"  scikit-learn, six functions  {result.sklearn_seconds:7.3f} s\n"
            f"  zlpr, six functions          {result.six_seconds:7.3f} s  "
            f"{result.six_ratio:6.1f} x faster  "
            f"memory {result.six_memory_over_scores:.2f} x scores\n"
            f"  zlpr, MetricSet              {result.metric_set_seconds:7.3f} s  "
            f"{result.metric_set_ratio:6.1f} x faster  "
            f"memory {result.metric_set_memory_over_scores:.2f} x scores"
        )
    print(
        f"{wide_result.samples} x {wide_result.labels}, CSR truth and predictions\n"
        f"  zlpr, MetricSet              {wide_result.seconds:7.3f} s  "
        f"memory {wide_result.memory_over_scores:.2f} x scores "
        f"(whole process {wide_result.process_memory_over_scores:.2f} x)"
    )


def show_candidates(found: Candidates, *, as_json: bool) -> None:
    """Print what was measured."""
    if as_json:
        print(json.dumps(asdict(found), indent=1))
        return
    print(f"{found.samples:,} samples, {found.labels:,} labels, {found.width} candidates each")
    print(f"fit {found.fit_seconds:.1f} s, decide {found.decide_seconds:.1f} s, ", end="")
    print(f"every metric {found.evaluate_seconds:.1f} s")
    print(f"peak of the process {found.peak / 2**30:.2f} GB, inputs {found.inputs / 2**30:.2f} GB")
    print(f"scores of all labels would take {found.dense / 2**30:.0f} GB")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="The six metrics against scikit-learn's.")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=600)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--wide-only", action="store_true", help="the wide case alone, as JSON")
    parser.add_argument(
        "--candidates", action="store_true", help="100 000 samples of 1 000 000 labels alone"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.candidates:
        show_candidates(candidates(100_000, 1_000_000, 100), as_json=arguments.json)
        return
    if arguments.wide_only:
        print(json.dumps(asdict(wide(1_000, 100_000))))
        return
    # A process of its own, so that its peak memory does not hide under that of the others.
    command = [sys.executable, __file__, "--wide-only"]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    wide_result = Wide(**json.loads(output))
    results = [
        compare(arguments.samples, arguments.labels, cardinality, kind)
        for cardinality, kind in ((5, "dense"), (5, "CSR"), (60, "dense"))
    ]
    if arguments.json:
        narrow = [asdict(result) for result in results]
        print(json.dumps({"narrow": narrow, "wide": asdict(wide_result)}, indent=1))
    else:
        show(results, wide_result)


if __name__ == "__main__":
    main()
