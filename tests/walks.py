"""Which files three everyday calls pass through, in order: the walks of CONTRIBUTING.md.

    python -m tests.walks          # writes them anew

A file is listed when one of its functions is called for the first time; what a file is for is the
first line of its docstring.
"""

import ast
import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "zlpr"
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- walks: python -m tests.walks -->", "<!-- end of walks -->"


def files_passed(call: Callable[[], Any]) -> list[str]:
    """Files of the package whose functions a call runs, in the order of the first call of each."""
    seen: dict[str, None] = {}
    known = set()

    def notice(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in known:
            return
        known.add(code)
        is_definition = code.co_name == "<module>" or not code.co_flags & 0x1  # bodies of classes
        if not is_definition and code.co_filename.startswith(str(SOURCE)):
            seen.setdefault(str(Path(code.co_filename).relative_to(SOURCE)))

    sys.settrace(notice)  # not setprofile, which also stops at every return and call of C
    try:
        call()
    finally:
        sys.settrace(None)
    return [name for name in seen if not name.endswith("__init__.py") and name != "_lazy.py"]


def walks() -> dict[str, list[str]]:
    """The files of each walk."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        backward, train, compare, cell = map(files_passed, (_backward, _train, _compare, _cell))
    return {
        "`ZLPRLoss()(scores, targets).backward()`": backward,
        "`zlpr train f.csv --out m`": train,
        "`zlpr compare`": compare,
        "`zlpr compare`, one run in a worker, beside what `zlpr train` passes": [
            name for name in cell if name not in train
        ],
    }


def _backward() -> None:
    import torch

    from zlpr.losses import ZLPRLoss

    scores = torch.randn(8, 20, requires_grad=True)
    ZLPRLoss()(scores, torch.rand(8, 20) < 0.1).backward()


def _write_data() -> None:
    rows = [f"sample {i} {'red' if i % 2 else 'blue'},{'a' if i % 2 else 'b'}" for i in range(120)]
    Path("f.csv").write_text("text,labels\n" + "\n".join(rows) + "\n", encoding="utf-8")


def _train() -> None:
    from zlpr.cli.main import main

    _write_data()
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["train", "f.csv", "--out", "m"]) == 0


def _compare() -> None:
    from zlpr.cli.main import main

    _write_data()
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        command = ["compare", "--data", "f.csv", "--losses", "zlpr", "bce", "--workers", "1"]
        assert main([*command, "--seeds", "1", "--out", "compared"]) == 0


def _cell() -> None:
    from zlpr.compare.cell import Place, run_cell
    from zlpr.compare.grid import DataSpec, Grid, cells
    from zlpr.compare.records import LossSpec

    grid = Grid((DataSpec("f.csv"),), ("linear",), (LossSpec("zlpr", "zlpr"),), (0,))
    assert run_cell(cells(grid)[0], Place("", 1)).status == "done"


def purpose(name: str) -> str:
    """The first line of a file's docstring."""
    text = ast.get_docstring(ast.parse((SOURCE / name).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def as_text(found: dict[str, list[str]]) -> str:
    """The walks in Markdown."""
    lines = []
    for title, names in found.items():
        lines += [f"{title}:", ""]
        lines += [f"{i}. `{name}`: {purpose(name)}" for i, name in enumerate(names, 1)]
        lines.append("")
    return "\n".join(lines)


def listed() -> dict[str, list[str]]:
    """The walks that CONTRIBUTING.md has now."""
    section = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    found: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line.startswith("`") and line.endswith(":"):
            names = found.setdefault(line.removesuffix(":"), [])
        elif match := re.match(r"\d+\. `([^`]+)`", line):
            names.append(match[1])
    return found


def write() -> None:
    """Put the walks into CONTRIBUTING.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{as_text(walks())}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write()
