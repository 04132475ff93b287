"""The losses besides ZLPR that training loops use, against what one would write in torch.

    python bench/other_losses.py                     # a table of ratios, and whether each is <= 2
    python bench/other_losses.py --out others.json   # kept, and gone on from

Times are of forward plus backward in float32 with boolean targets, module against function, the
best of interleaved turns of single calls. A ratio beyond the bar is measured again, both for as
long as before, at most twice, and the best of all turns count. The versions here have no masks,
weights or checks, and lose digits or become NaN where `bench/fuzz_losses.py` looks.
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
AGAIN = 2  # times that a miss is measured again


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
    parser.add_argument("--out", type=Path, help="JSON file to keep and to go on from")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    settings = {"threads": args.threads, "torch": torch.__version__}
    kept = json.loads(args.out.read_text()) if args.out and args.out.exists() else None
    if kept is not None and kept["settings"] != settings:
        raise SystemExit(f"{args.out} was measured with {kept['settings']}, not {settings}")
    seconds: dict[str, list[list[float]]] = kept["seconds"] if kept else {}
    for name in PLAIN:
        rows = seconds.setdefault(name, [])
        for shape in SHAPES[len(rows) :]:
            rows.append(seconds_of(name, shape, args.turns))
            if args.out:
                args.out.write_text(json.dumps({"settings": settings, "seconds": seconds}))
    ratios = {name: [ours / plain for plain, ours in rows] for name, rows in seconds.items()}
    if args.json:
        print(json.dumps({"shapes": SHAPES, "bar": BAR, "ratios": ratios}))
    else:
        print_report(ratios)
    return 0 if max(map(max, ratios.values())) <= BAR else 1


def print_report(ratios: dict[str, list[float]]) -> None:
    """A table, and how it stands to the bar."""
    print(" " * 12, *(f"{b}x{n} {d:g}".rjust(14) for b, n, d in SHAPES))
    for name, row in ratios.items():
        print(name.ljust(12), *(f"{value:.2f}".rjust(14) for value in row))
    found = [
        (x, name, shape)
        for name, row in ratios.items()
        for x, shape in zip(row, SHAPES, strict=True)
    ]
    missed = [row for row in found if row[0] > BAR]
    met = f"bars: met {len(found) - len(missed)} of {len(found)}, missed:"
    print(met + ("" if missed else " none"))
    for value, name, shape in missed:
        print(f"  {value:.3f} <= {BAR:g} {name} at {shape}")


def seconds_of(name: str, shape: tuple[int, int, float], turns: int) -> list[float]:
    """The plain version's time and ours, once both were seen to have the same value."""
    samples, labels, density = shape
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(samples, labels, generator=generator).requires_grad_()
    targets = torch.rand(samples, labels, generator=generator) < density
    module = losses.create(name)
    torch.testing.assert_close(
        module(scores, targets), PLAIN[name](scores, targets), rtol=1e-3, atol=1e-4
    )
    calls = min(max(CELLS // (samples * labels), 10), 200)
    best = [float("inf")] * 2
    for _ in range(1 + AGAIN):
        for _ in range(turns):
            for place, loss in enumerate((PLAIN[name], module)):
                best[place] = min(best[place], fastest(loss, scores, targets, calls))
        if best[1] <= BAR * best[0]:
            break
    return best


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
