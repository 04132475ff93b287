"""Run the code blocks of a Markdown page as a reader would: top to bottom, in one folder.

Python blocks of a page share one namespace; `bash` blocks run line by line in the page's folder.
Lines that would install or rebuild the environment (`pip install`, `git clone`, `make`) are not
run again inside the tests: their targets and extras are checked to exist instead. Blocks in other
languages (`text`, `toml`, `console`) are shown, not run.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it starts, its language and its code."""

    page: Path
    line: int
    language: str
    code: str


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, dedented."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent, language, code = match.groups()
        lines = [line.removeprefix(indent) for line in code.splitlines()]
        found.append(
            Block(page, text.count("\n", 0, match.start()) + 1, language, "\n".join(lines))
        )
    return found


def run_page(page: Path, folder: Path) -> int:
    """Run the page's blocks in order, Python ones in one growing script; return how many ran."""
    environment = _environment(folder)
    earlier: list[str] = []
    ran = 0
    for block in blocks_of(page):
        if block.language == "python":
            # A page's Python reads as one session: what an earlier block made, a later one uses.
            script = "\n".join([*earlier, block.code])
            _run([sys.executable, "-c", script], block, folder, environment)
            earlier.append(block.code)
            ran += 1
        elif block.language == "bash":
            for line in _commands(block.code):
                if not _is_checked_only(line):
                    _run(["bash", "-euo", "pipefail", "-c", line], block, folder, environment)
            ran += 1
    return ran


def _commands(code: str) -> list[str]:
    joined = code.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def _is_checked_only(line: str) -> bool:
    """True for lines about the environment itself, once what they name is known to exist."""
    words = line.split()
    if words[0] == "make":
        for target in (word for word in words[1:] if not word.startswith("#") and "=" not in word):
            if line.index(target) > line.find("#") >= 0:
                break
            subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)
        return True
    if words[:2] == ["pip", "install"]:
        import tomllib

        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for named in re.findall(r"zlpr\[([\w,]+)\]", line):
            assert set(named.split(",")) <= extras["optional-dependencies"].keys()
        return True
    return words[:2] == ["git", "clone"] or words[0] == "cd"


def _environment(folder: Path) -> dict[str, str]:
    """This interpreter, this tree and a `zlpr` command, first on the path."""
    binaries = folder / ".bin"
    binaries.mkdir(exist_ok=True)
    command = binaries / "zlpr"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zlpr "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(binaries), str(Path(sys.executable).parent), os.environ["PATH"]])
    source = str(ROOT / "src")
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": source,
        "OMP_NUM_THREADS": "1",
        "NO_COLOR": "1",
    }


def _run(command: list[str], block: Block, folder: Path, environment: dict[str, str]) -> None:
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert finished.returncode == 0, (
        f"{block.page.name}, block at line {block.line}:\n{command[-1]}\n{finished.stderr[-3000:]}"
    )
