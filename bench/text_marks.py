"""Whether the linear default gains from treating links, mentions, numbers or emoji by themselves.

    python bench/text_marks.py DATA [--sets …] [--seeds 5] [--train 1000]

DATA holds the folders that `SETS` of `default_against_peers.py` names. Parts are drawn as in
`embed_against_default.py`. Each arm rewrites all texts before `zlpr train` by default sees them:

    links     http://… and www.… become the word "url", @name becomes "username"
    numbers   every digit becomes 0, so that numbers of one length are one word
    emoji     each becomes a word of its own, where the words of scikit-learn leave it out

Printed are the share of texts that an arm changes, the mean of Micro-F1 as they are, and for each
arm the mean of the paired differences with a 95 % interval over the seeds (Student's t).
"""

import argparse
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from default_against_peers import read_set
from embed_against_default import draw, run_cell

SETS = ("goemotions", "toxic", "wikimovies", "brighter-chn", "brighter-deu", "brighter-rus",
        "brighter-esp")  # fmt: skip
LINK, MENTION = re.compile(r"https?://\S+|www\.\S+"), re.compile(r"(?<!\w)@\w+")
EMOJI = re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]")
ARMS: dict[str, Callable[[str], str]] = {
    "links": lambda text: MENTION.sub("username", LINK.sub(" url ", text)),
    "numbers": lambda text: re.sub(r"\d", "0", text),
    "emoji": lambda text: EMOJI.sub(lambda found: f" emoji{ord(found[0]):x} ", text),
}


def rewritten(part: Any, rewrite: Callable[[str], str]) -> Any:
    """The part with its texts rewritten."""
    return dataclasses.replace(part, texts=[rewrite(text) for text in part.texts])


def row(name: str, data: Any, seeds: int, most: int) -> str:
    """One set's line of the table."""
    plain, changed = [], {arm: [] for arm in ARMS}
    shares = {
        arm: np.mean([rewrite(text) != text for text in data.texts[:5000]])
        for arm, rewrite in ARMS.items()
    }
    for seed in range(seeds):
        parts = draw(data, seed, most)
        plain.append(100 * run_cell(parts, "linear")["micro_f1"])
        for arm, rewrite in ARMS.items():
            if shares[arm]:
                parts_of_arm = [rewritten(part, rewrite) for part in parts]
                changed[arm].append(100 * run_cell(parts_of_arm, "linear")["micro_f1"])
    cells = [f"{np.mean(plain):.1f}"]
    for arm, values in changed.items():
        if not values:
            cells.append("none")
            continue
        differences = np.subtract(values, plain)
        half = stats.t.ppf(0.975, seeds - 1) * stats.sem(differences)
        cells.append(f"{differences.mean():+.2f} ± {half:.2f} ({100 * shares[arm]:.0f} %)")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> int:
    """Print the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--train", type=int, default=1000)
    args = parser.parse_args()
    print(f"| set | as it is | {' | '.join(ARMS)} |\n{'|---' * (len(ARMS) + 2)}|")
    for name in args.sets:
        print(row(name, read_set(args.data, name), args.seeds, args.train), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
