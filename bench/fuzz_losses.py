"""Random hard cases for every loss, compared with extended precision, values and gradients.

    python bench/fuzz_losses.py --rows 1000000 --state fuzz.json
    python bench/fuzz_losses.py --losses lsep hbm --rows 20000
    python bench/fuzz_losses.py --case 4711             # one case, printed

Four dtypes; scores of 0, of the dtypes' largest numbers, infinite, tied, with a common offset; hard
and soft targets of all densities; masks over NaN; weights of 0 and up to 1e38; shapes with a 0.
A case is made from the seed and its number alone; with `--state` a run goes on where it stopped.
The reference is `tests/wide_reference.py`.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.losses import fuzzing  # noqa: E402

SHOWN = 20


def main() -> int:
    """Run cases until there are rows enough; the exit code says whether any was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="rows to compare in total")
    parser.add_argument("--losses", nargs="+", default=fuzzing.WAYS, choices=fuzzing.WAYS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="JSON file to go on from and to keep")
    parser.add_argument("--case", type=int, help="run and print this one only")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ways = tuple(args.losses)
    if args.case is not None:
        case = fuzzing.make_case(args.seed, args.case, ways)
        print(case, *fuzzing.complaints(case) or ["nothing is wrong"], sep="\n")
        return 0
    state = {"seed": args.seed, "losses": list(ways), "next": 0, "rows": {}, "wrong": {}}
    if args.state and args.state.exists():
        kept = json.loads(args.state.read_text())
        if (kept["seed"], kept["losses"]) != (args.seed, list(ways)):
            sys.exit(f"{args.state} is of another seed or of other losses; name another file")
        state = kept
    run(state, ways, args.rows, args.state)
    report(state)
    return 1 if state["wrong"] else 0


def run(state: dict, ways: tuple[str, ...], rows: int, file: Path | None) -> None:
    """Go through cases, adding to the state, which is kept every few seconds."""
    counted, started, saved = Counter(state["rows"]), time.monotonic(), time.monotonic()
    while sum(counted.values()) < rows:
        number = state["next"]
        case = fuzzing.make_case(state["seed"], number, ways)
        try:
            wrong = fuzzing.complaints(case)
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            state["wrong"].setdefault(case.way, []).append([number, *wrong])
        counted[case.way] += max(len(case.scores), 1)
        state["next"], state["rows"] = number + 1, dict(counted)
        if file and time.monotonic() - saved > 10:
            saved = time.monotonic()
            keep(state, file)
            rate = sum(counted.values()) / (saved - started)
            print(f"{sum(counted.values()):,} rows, {rate:,.0f} a second", file=sys.stderr)
    if file:
        keep(state, file)


def keep(state: dict, file: Path) -> None:
    """Write the state beside its place, then into it."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(state))
    part.replace(file)


def report(state: dict) -> None:
    """A line for each loss, and the first of its wrong cases."""
    for way, rows in state["rows"].items():
        wrong = state["wrong"].get(way, [])
        print(f"{way:24} {rows:>9,} rows  {len(wrong):>5} wrong cases")
        for number, *complaints in wrong[:SHOWN]:
            print(f"    case {number}: {'; '.join(complaints)}")
    total = sum(state["rows"].values())
    print(f"{total:,} rows, {sum(map(len, state['wrong'].values()))} wrong cases")


if __name__ == "__main__":
    sys.exit(main())
