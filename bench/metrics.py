"""The six metrics of the paper against scikit-learn's functions, in one run.

    python bench/metrics.py [--samples 20000] [--labels 600] [--json]

Prints seconds and ratios for six calls of our functions and for one `MetricSet` (which computes
all its other figures on the way), peak memory beyond the inputs in units of the scores' size, and
a wide case (1 000 samples, 100 000 labels, CSR truth) that scikit-learn is not asked to do.
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

from zlpr import metrics

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


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="The six metrics against scikit-learn's.")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=600)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--wide-only", action="store_true", help="the wide case alone, as JSON")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
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
