"""The ranking loss and WARP by their pairs against the same by sorting: where which is quicker.

    python bench/hinges.py

Times are processor times of one thread, forward plus backward in float32, the best of interleaved
turns. The package goes through the pairs up to `zlpr.losses._hinge.FEW` positive labels a sample.
"""

import time

import torch

from zlpr.losses import _hinge, create

SHAPES = ((32, 6), (32, 28), (256, 28), (1024, 14), (2400, 65), (32, 600), (256, 600), (64, 5000))
POSITIVE_LABELS = (1, 2, 4, 8)
TURNS = 9
BY_PAIRS, BY_SORTING = float("inf"), -1.0


def milliseconds(name: str, samples: int, labels: int, positive: int) -> tuple[float, float]:
    """Of a loss by pairs, and by sorting."""
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(samples, labels, generator=random).requires_grad_()
    targets = torch.rand(samples, labels, generator=random) < positive / labels
    loss, best = create(name), {BY_PAIRS: float("inf"), BY_SORTING: float("inf")}
    for _ in range(TURNS):
        for few in best:
            _hinge.FEW = few
            began = time.process_time()
            torch.autograd.grad(loss(scores, targets), scores)
            best[few] = min(best[few], time.process_time() - began)
    return 1e3 * best[BY_PAIRS], 1e3 * best[BY_SORTING]


def main() -> None:
    """Print a line for each shape and number of positive labels."""
    torch.set_num_threads(1)
    print("samples x labels, positive labels a sample: pairs / sorting in ms, times as quick")
    for samples, labels in SHAPES:
        for positive in POSITIVE_LABELS:
            if positive < labels:
                told = []
                for name in ("ranking", "warp"):
                    pairs, sorting = milliseconds(name, samples, labels, positive)
                    told.append(f"{name} {pairs:.2f} / {sorting:.2f}, {sorting / pairs:.1f}")
                print(f"{samples} x {labels}, {positive}: {'; '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
