"""Reading speed and memory: our JSON Lines reader against `json.loads` over the same lines.

    python bench/data.py titles.jsonl.xz [--json]

Two comparisons, each the best of a few runs of both sides in turn:

- with decompression: `read` of the file against `json.loads` over the lines that the standard
  library decompresses (`lzma.open(path, "rt")` and the like);
- without: `read` of a plain copy against `json.loads` over lines that are in memory already.

The bar is at most 1.5 times as long. Memory is the peak of what `read` holds beyond what was held
before, as `tracemalloc` counts it, as a multiple of the texts' UTF-8 bytes. The bar is at most 3.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from zlpr.data import read
from zlpr.data.files import COMPRESSED_SUFFIXES, open_bytes

SPEED_BAR = 1.5
MEMORY_BAR = 3.0


def seconds(work: Callable[[], object]) -> float:
    """How long one run takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(ours: Callable[[], object], theirs: Callable[[], object], runs: int) -> dict[str, float]:
    """Best times of both, measured in turn so that both meet the same machine, and their ratio."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(runs)]
    best, base = (min(times) for times in zip(*pairs, strict=True))
    return {"read_seconds": best, "json_loads_seconds": base, "ratio": best / base}


def parse_file(path: Path) -> None:
    """`json.loads` over the lines of a file as the standard library opens it."""
    with COMPRESSED_SUFFIXES.get(path.suffix, open)(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            json.loads(line)


def parse_lines(lines: list[str]) -> None:
    """`json.loads` over lines in memory."""
    for line in lines:
        json.loads(line)


def speed(path: Path, runs: int) -> dict[str, dict[str, float]]:
    """Both comparisons."""
    with tempfile.TemporaryDirectory() as folder, open_bytes(path) as stream:
        plain = Path(folder) / "plain.jsonl"
        plain.write_bytes(stream.read())
        lines = plain.read_text(encoding="utf-8").splitlines()
        return {
            "with_decompression": ratio(lambda: read(path), lambda: parse_file(path), runs),
            "without_decompression": ratio(lambda: read(plain), lambda: parse_lines(lines), runs),
        }


def memory(path: Path) -> dict[str, float]:
    """Peak memory while reading, by Python's own count."""
    tracemalloc.start()
    data = read(path)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sum(len(text.encode()) for text in data.texts or ())
    return {
        "samples": len(data),
        "text_bytes": size,
        "held_bytes": held,
        "peak_bytes": peak,
        "ratio": peak / size,
    }


def resident(path: Path) -> float:
    """Growth of a fresh process's peak resident memory, in bytes; 0 where it cannot be seen."""
    code = "import sys, bench.data as b; print(b.resident_growth(sys.argv[1]))"
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-c", code, str(path.resolve())]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return float(done.stdout)


def resident_growth(path: str) -> int:
    """Peak resident memory after reading minus before, in this process."""
    before = peak_resident()
    data = read(path)
    return peak_resident() - before if len(data) else 0


def peak_resident() -> int:
    """Linux's count; `getrusage` would count the parent process too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    lines = status.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main() -> int:
    """Measure, print, and fail where a bar is missed."""
    parser = argparse.ArgumentParser(description="Reading speed and memory of JSON Lines.")
    parser.add_argument("path", type=Path, help="a JSON Lines file, compressed or not")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side (3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    figures = {"speed": speed(args.path, args.runs), "memory": memory(args.path)}
    figures["memory"]["resident_ratio"] = resident(args.path) / figures["memory"]["text_bytes"]
    slowest = max(case["ratio"] for case in figures["speed"].values())
    heaviest = max(figures["memory"]["ratio"], figures["memory"]["resident_ratio"])
    met = slowest <= SPEED_BAR and heaviest <= MEMORY_BAR
    if args.json:
        bars = {"speed": SPEED_BAR, "memory": MEMORY_BAR}
        print(json.dumps({**figures, "bars": bars, "met": met}, indent=2))
    else:
        for name, case in figures["speed"].items():
            print(
                f"{name:22} read {case['read_seconds']:.2f} s, json.loads "
                f"{case['json_loads_seconds']:.2f} s: {case['ratio']:.2f} (bar {SPEED_BAR})"
            )
        held = figures["memory"]
        print(
            f"{held['samples']:,} samples, {held['text_bytes'] / 1e6:.1f} MB of text; peak "
            f"{held['peak_bytes'] / 1e6:.1f} MB: {held['ratio']:.2f}, resident growth "
            f"{held['resident_ratio']:.2f} (bar {MEMORY_BAR})"
        )
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
