"""Run the code blocks of a Markdown page as a reader would: top to bottom, in one folder.

Python blocks of a page share one namespace, but for those with a title, which are saved under it;
`bash` blocks run line by line in the page's folder. Pages on other frameworks have an interpreter
of their own; `zlpr` and all other Python runs in that of the tests. What a page takes for granted
(`reviews.csv`, the weights of `roberta-base` or `all-MiniLM-L6-v2`) lies in that folder in small,
so that its commands run as they stand. Lines that would install or rebuild the environment (`pip
install`, `git clone`, `make`) are not run again inside the tests: their targets and extras are
checked to exist instead. Blocks in other languages (`text`, `toml`, `console`) are shown, not run.
"""

import contextlib
import csv
import io
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from zlpr.cli.main import main

ROOT = Path(__file__).parent.parent
FENCE = re.compile(
    r"^( *)```(\w*)(?: title=\"([\w.]+)\")?[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it starts, its language, the file it makes (or ""), and its code."""

    page: Path
    line: int
    language: str
    title: str
    code: str


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, dedented."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent, language, title, code = match.groups()
        lines = [line.removeprefix(indent) for line in code.splitlines()]
        number = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, number, language, title or "", "\n".join(lines)))
    return found


def run_page(page: Path, folder: Path) -> int:
    """Run the page's blocks in order, Python ones in one growing script; return how many ran.

    The script runs before a command that may need what it makes, and at the end of the page.
    """
    environment = _environment(folder)
    run_session = _in_an_interpreter if "frameworks" in page.parts else _here
    _lay_out(page.read_text(encoding="utf-8"), folder)
    earlier: list[Block] = []
    waits = False
    ran = 0
    for block in blocks_of(page):
        if block.title:
            (folder / block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            # A page's Python reads as one session: what an earlier block made, a later one uses.
            earlier.append(block)
            waits = True
            ran += 1
        elif block.language == "bash":
            lines = [line for line in _commands(block.code) if not _is_checked_only(line)]
            if lines and waits:
                run_session(earlier, folder, environment)
                waits = False
            for line in lines:
                _run_line(line, block, folder, environment)
            ran += 1
    if waits:
        run_session(earlier, folder, environment)
    return ran


def _in_an_interpreter(blocks: list[Block], folder: Path, environment: dict[str, str]) -> None:
    """Run Python blocks one after another, in an interpreter of their own."""
    script = "\n".join(block.code for block in blocks)
    _run([sys.executable, "-c", script], blocks[-1], folder, environment)


def _here(blocks: list[Block], folder: Path, environment: dict[str, str]) -> None:
    """Run Python blocks one after another in this process, which has loaded torch already."""
    script = "\n".join(block.code for block in blocks)
    module = types.ModuleType("__main__")
    with _as_if_in(folder, environment), torch.random.fork_rng():
        exec(compile(script, str(blocks[-1].page), "exec"), module.__dict__)  # noqa: S102


def _lay_out(text: str, folder: Path) -> None:
    """What a page takes for granted that its reader has, in small."""
    if "roberta-base" in text:
        from tests import tiny

        (folder / "roberta-base").mkdir()
        tiny.roberta(folder / "roberta-base", has_head=False)
    if "all-MiniLM-L6-v2" in text:
        from tests import tiny

        (folder / "all-MiniLM-L6-v2").mkdir()
        tiny.bert(folder / "all-MiniLM-L6-v2")
    if "reviews.csv" in text or "train.txt" in text:
        from zlpr.data import demo

        reviews = demo.make(120)
        rows = list(zip(reviews.label_sets(), reviews.texts, strict=True))
        with (folder / "reviews.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["text", "labels"])
            writer.writerows([text, ";".join(labels)] for labels, text in rows)
        lines = [f"{n}\t{' '.join(labels)}\t{text}" for n, (labels, text) in enumerate(rows)]
        (folder / "train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


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
        for named in re.findall(r"(?:zlpr|\.)\[([\w,]+)\]", line):
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
        "ZLPR_CACHE": str(folder / ".cache"),
    }


SHELL_SIGNS = frozenset("|<>;&$*?`~{}()")
"""Of a command line that needs a shell."""


def _run_line(line: str, block: Block, folder: Path, environment: dict[str, str]) -> None:
    """Run a command line: `zlpr` in this process, which has loaded what it needs, others by bash.

    Ray starts processes that would outlive the command here. Of several processes that train one
    model, which other tests start, this takes one.
    """
    line = re.sub(r"^torchrun .*?-m zlpr", "zlpr", line)
    words = shlex.split(line, comments=True)
    if words[0] != "zlpr" or SHELL_SIGNS & set(line) or "--ray" in words:
        _run(["bash", "-euo", "pipefail", "-c", line], block, folder, environment)
        return
    with _as_if_in(folder, environment) as messages:
        code = main(words[1:])
    assert code == 0, (
        f"{block.page.name}, block at line {block.line}:\n{line}\n{messages.getvalue()[-3000:]}"
    )


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """As on a machine of one core, where a comparison starts one process: two take longer here."""
    cores = sorted(os.sched_getaffinity(0))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    os.sched_setaffinity(0, {cores[worker % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def _as_if_in(folder: Path, environment: dict[str, str]) -> Iterator[io.StringIO]:
    """Work in a folder with nothing printed, on one core; gives what went to standard error."""
    messages = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        _one_core(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(messages),
    ):
        patch.chdir(folder)
        for name in ("NO_COLOR", "ZLPR_CACHE"):
            patch.setenv(name, environment[name])
        yield messages


def _run(command: list[str], block: Block, folder: Path, environment: dict[str, str]) -> None:
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert finished.returncode == 0, (
        f"{block.page.name}, block at line {block.line}:\n{command[-1]}\n{finished.stderr[-3000:]}"
    )
