"""The losses besides ZLPR that training loops use, against what one would write in torch.

    python bench/other_losses.py            # a table of ratios, and whether each is at most 2
    python bench/other_losses.py --json

Times are of forward plus backward in float32 with boolean targets, module against function, the
best of interleaved turns of single calls. The versions here have no masks, weights or checks, and
lose digits or become NaN where `bench/fuzz_losses.py` looks.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from zlpr import losses  # noqa: E402

# samples, labels, share of positive cells
SHAPES = [
    (32, 6, 0.2),
    (32, 28, 0.042),
    (256, 28, 0.1),
    (32, 142, 0.011),
    (32, 618, 0.002),
    (256, 600, 0.05),
    (256, 600, 0.1),
    (256, 600, 0.3),
    (1024, 14, 0.3),
]
BAR = 2.0
CELLS = 1_000_000  # of all calls of a turn


def bce(s: Tensor, y: Tensor) -> Tensor:
    """Binary cross entropy."""
    return F.binary_cross_entropy_with_logits(s, y.float(), reduction="none").sum(-1).mean()


def focal(s: Tensor, y: Tensor, gamma: float = 2.0) -> Tensor:
    """Focal loss."""
    truth = y.float()
    entropy = F.binary_cross_entropy_with_logits(s, truth, reduction="none")
    p = torch.sigmoid(s)
    right = p * truth + (1 - p) * (1 - truth)
    return (entropy * (1 - right) ** gamma).sum(-1).mean()


def asymmetric(
    s: Tensor, y: Tensor, plus: float = 1.0, minus: float = 4.0, m: float = 0.05
) -> Tensor:
    """Asymmetric loss, as its authors write it."""
    truth, p = y.float(), torch.sigmoid(s)
    q = (1 - p + m).clamp(max=1)
    logs = truth * torch.log(p.clamp(min=1e-8)) + (1 - truth) * torch.log(q.clamp(min=1e-8))
    with torch.no_grad():
        right = p * truth + q * (1 - truth)
        focus = torch.pow(1 - right, plus * truth + minus * (1 - truth))
    return -(logs * focus).sum(-1).mean()


def lsep(s: Tensor, y: Tensor) -> Tensor:
    """Log-sum-exp over pairs, as a product."""
    below = torch.logsumexp(s.masked_fill(y, -torch.inf), -1)
    above = torch.logsumexp((-s).masked_fill(~y, -torch.inf), -1)
    return F.softplus(below + above).mean()


def dice2(s: Tensor, y: Tensor, g: float = 1.0) -> Tensor:
    """Dice over the batch."""
    p, truth = torch.sigmoid(s), y.float()
    both, whole = (p * truth).sum(0), (p * p).sum(0) + truth.sum(0)
    return (1 - (2 * both + g) / (whole + g)).sum()


def hbm(s: Tensor, y: Tensor, alpha: float = 1.0, m: float = 0.01) -> Tensor:
    """ZLPR with a bias and a margin."""
    zero = torch.zeros_like(s[:, :1])
    total = torch.zeros(())
    for side, sign in ((y, -1), (~y, 1)):
        part = side.float()
        with torch.no_grad():
            number = part.sum(-1, keepdim=True).clamp(min=1)
            mean = (s * part).sum(-1, keepdim=True) / number
            square = ((s - mean) * part).square().sum(-1, keepdim=True) / number
        d = sign * s + alpha * square.sqrt()
        kept = side & (torch.sigmoid(2 * d) > m)
        total = total + torch.logsumexp(torch.cat([zero, d.masked_fill(~kept, -torch.inf)], -1), -1)
    return total.mean()


PLAIN = {"bce": bce, "focal": focal, "asymmetric": asymmetric, "lsep": lsep, "dice2": dice2,
         "hbm": hbm}  # fmt: skip


def main() -> int:
    """Measure and print; the exit code says whether every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(2)
    ratios = {name: [ratio(name, *shape, args.turns) for shape in SHAPES] for name in PLAIN}
    if args.json:
        print(json.dumps({"shapes": SHAPES, "bar": BAR, "ratios": ratios}))
    else:
        print(" " * 12, *(f"{b}x{n} {d:g}".rjust(14) for b, n, d in SHAPES))
        for name, row in ratios.items():
            print(name.ljust(12), *(f"{value:.2f}".rjust(14) for value in row))
    worst = max(value for row in ratios.values() for value in row)
    print(f"the worst is {worst:.2f}, at most {BAR:g} wanted", file=sys.stderr)
    return 0 if worst <= BAR else 1


def ratio(name: str, samples: int, labels: int, density: float, turns: int) -> float:
    """Our time in units of the plain version's, once both were seen to have the same value."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(samples, labels, generator=generator).requires_grad_()
    targets = torch.rand(samples, labels, generator=generator) < density
    module = losses.create(name)
    torch.testing.assert_close(
        module(scores, targets), PLAIN[name](scores, targets), rtol=1e-3, atol=1e-4
    )
    calls = min(max(CELLS // (samples * labels), 10), 200)
    best = [float("inf")] * 2
    for _ in range(turns):
        for place, loss in enumerate((PLAIN[name], module)):
            best[place] = min(best[place], fastest(loss, scores, targets, calls))
    return best[1] / best[0]


def fastest(
    loss: Callable[[Tensor, Tensor], Tensor], scores: Tensor, targets: Tensor, calls: int
) -> float:
    """Seconds of the fastest of some calls, forward and backward."""
    best = float("inf")
    for _ in range(calls):
        scores.grad = None
        start = time.perf_counter()
        loss(scores, targets).backward()
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    sys.exit(main())
