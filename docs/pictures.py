"""Make the pictures of README and documentation anew: `python docs/pictures.py` (`make pictures`).

Two are drawn from tables of the documentation: what a fitted decision gains (`decision.md`) and how
fast things are (`benchmarks.md`). The others are the examples' own, and photographs of the report,
the page and the terminal in Chromium, after real commands on the demo corpus.
"""

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
BLUE, SKY, ORANGE, GREY = "#0072B2", "#56B4E9", "#E69F00", "#6E6E6E"
TEXT = "The parcel arrived two weeks late, the box was broken, and I want my money back."
COLUMNS = 100
PHOTOGRAPHS = ("terminal-*.png", "page-*.png", "report.png", "evaluate.png")
TRAINING = ("train", "tickets.jsonl", "--out", "tickets-model")
COMPARISON = (
    *("compare", "--data", "tickets.jsonl", "--losses", "zlpr", "bce", "dice2"),
    *("--seeds", "3", "--out", "compared"),
)


def decision() -> None:
    """A line per metric: cut at zero, one fitted threshold, the rule chosen on validation."""
    text = (ROOT / "docs" / "decision.md").read_text(encoding="utf-8")
    found = re.findall(
        r"^## (.+?)\n.*?^\| data \| (.+?)\n.*?^\| mean \| (.+?)\n", text, re.M | re.S
    )
    figure, axes = _axes(height=2.5)
    for row, (_, head, means) in enumerate(reversed(found)):
        values = dict(zip(head.split(" | "), means.split(" | "), strict=False))
        points = [float(values[name]) for name in ("zero", "threshold", "auto")]
        axes.plot(points, [row] * 3, color="#C8C8C8", linewidth=3, zorder=1)
        for value, (colour, marker, _), (right, up) in zip(points, STEPS, BESIDE, strict=True):
            axes.plot([value], [row], marker, color=colour, markersize=9)
            axes.annotate(f"{value:.1f}", (value, row), (right, up), textcoords="offset points",
                          ha="center", va="center", fontsize=8.5)  # fmt: skip
    axes.set_yticks(
        range(len(found)), [metric[0].upper() + metric[1:] for metric, *_ in found[::-1]]
    )
    axes.set(
        ylim=(-0.6, len(found) - 0.35), xlim=(37, 76), xlabel="%, mean over ten public data sets"
    )
    axes.tick_params(axis="y", length=0)
    for place, (colour, marker, name) in zip((0.0, 0.27, 0.62), STEPS, strict=True):
        axes.plot([place + 0.012], [1.06], marker, color=colour, markersize=8,
                  transform=axes.transAxes, clip_on=False)  # fmt: skip
        axes.text(place + 0.035, 1.06, name, transform=axes.transAxes, va="center", fontsize=9.5)
    _save(figure, "decision-steps.png")


STEPS = [
    (GREY, "s", "ZLPR cut at zero"),
    (ORANGE, "^", "one threshold, fitted"),
    (BLUE, "o", "the default: rule chosen on validation"),
]


BESIDE = [(-21, 0), (0, -14), (21, 0)]
"""Where the number of each step stands, in points from its mark."""


def speed() -> None:
    """Bars: how many times faster than BCE and the usual ZLPR, and than other packages."""
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    shapes = ["32 x 28", "256 x 142", "256 x 600", "256 x 2,400", "1024 x 10,000"]
    rows = {
        row.split(" | ")[0][2:]: row.split(" | ")
        for row in re.findall(r"^\| \d+ x .+$", text, re.M)
    }
    against = {"against BCE": 1, "against the usual ZLPR": 4}
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(8.4, 3.1), layout="constrained")
    for number, (name, column) in enumerate(against.items()):
        values = [_times(rows[shape][column]) for shape in shapes]
        places = [place - 0.2 + 0.4 * number for place in range(len(shapes))][::-1]
        bars = panels[0].barh(places, values, 0.36, color=(BLUE, SKY)[number], label=name)
        panels[0].bar_label(bars, [_faster(value) for value in values], padding=3, fontsize=7.5)
    panels[0].set_yticks(range(len(shapes)), shapes[::-1])
    panels[0].set(title="ZLPR, forward and backward\n(batch x labels)", xlim=(0, 23))
    panels[0].legend(frameon=False, fontsize=8, loc="upper right")
    others = _other_speeds(text)
    bars = panels[1].barh(list(others)[::-1], list(others.values())[::-1], 0.6, color=BLUE)
    panels[1].bar_label(
        bars, [_faster(value) for value in others.values()][::-1], padding=3, fontsize=7.5
    )
    panels[1].set(title="against other packages", xlim=(0, 44))
    for panel in panels:
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_xlabel("times as fast")
        panel.spines[["top", "right"]].set_visible(False)
        panel.title.set_fontsize(9.5)
        panel.tick_params(labelsize=8)
    _save(figure, "speed.png")


def _other_speeds(text: str) -> dict[str, float]:
    dense, many = re.findall(r"dense truth, .*? \| (\d+\.\d) times faster", text)
    trainers = dict(
        re.findall(
            r"^\| (LibMultiLabel|scikit-learn|fastText).*?\| (\d+\.\d) times faster", text, re.M
        )
    )
    ours, bare = re.findall(r"^\| 200 \| (?:`zlpr serve`, scores|bare) \| (\d+)", text, re.M)
    return {
        "metrics: scikit-learn": float(dense),
        "metrics, many labels per sample": float(many),
        "training: fastText": float(trainers["fastText"]),
        "training: scikit-learn": float(trainers["scikit-learn"]),
        "training: LibMultiLabel": float(trainers["LibMultiLabel"]),
        "200 clients: bare FastAPI": int(ours) / int(bare),
    }


def _times(words: str) -> float:
    """The speed, in units of the other's, in the middle of what a cell of a table says."""
    numbers = [float(number) for number in re.findall(r"\d+\.\d", words)] or [1.0]
    middle = sum(numbers) / len(numbers)
    return 1 / middle if "slower" in words else middle


def _faster(times: float) -> str:
    if 0.95 < times < 1.05:
        return "as fast"
    return f"{times:.1f} times faster" if times > 1 else f"{1 / times:.1f} times slower"


def _axes(height: float):  # type: ignore[no-untyped-def]
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, height), layout="constrained")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure, axes


def _save(figure: object, name: str) -> None:
    figure.savefig(FIGURES / name, dpi=130)  # type: ignore[attr-defined]
    print(FIGURES / name)


def examples() -> None:
    """The picture of each example, by running it."""
    for script in sorted((ROOT / "examples").glob("*.py")):
        target = FIGURES / "examples" / f"{script.stem}.png"
        subprocess.run([sys.executable, script, target], check=True)


def photographs() -> None:
    """The terminal, the report and the page, after real commands in a folder of their own."""
    from playwright.sync_api import sync_playwright

    from zlpr.data import demo, write

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = Path(scratch)
        write(demo.make(2_000, seed=1), folder / "tickets.jsonl")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        screen = browser.new_page(viewport={"width": 900, "height": 720})
        _terminal(screen, folder, "terminal-train.png", TRAINING)
        _terminal(screen, folder, "terminal-predict.png", ("predict", "tickets-model", TEXT))
        _terminal(screen, folder, "terminal-explain.png", ("explain", "tickets-model", TEXT))
        _terminal(screen, folder, "terminal-compare.png", COMPARISON)
        _run(folder, ["evaluate", "tickets-model", "tickets.jsonl", "--plot", "figures.png"])
        shutil.copy(folder / "figures.png", FIGURES / "evaluate.png")
        page = browser.new_page(viewport={"width": 1120, "height": 760})
        page.goto((folder / "compared" / "report.html").as_uri())
        page.screenshot(path=FIGURES / "report.png")
        print(FIGURES / "report.png")
        _serving(page, folder)
        browser.close()
    make_small()


def _run(folder: Path, arguments: list[str] | tuple[str, ...]) -> str:
    """What a command prints at a terminal of a fixed width, with its colours."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "zlpr", *arguments]
    running = subprocess.Popen(command, cwd=folder, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    while True:
        try:
            block = os.read(ours, 65_536)
        except OSError:  # the terminal is closed when the command ends
            break
        if not block:
            break
        printed += block
    if running.wait():
        sys.exit(printed.decode())
    return _screen(printed.decode().replace("\r\n", "\n"))


def _screen(printed: str) -> str:
    """What is left on the screen: lines that were cleared or written over are gone."""
    lines = [""]
    for piece in re.split(r"(\n|\r|\x1b\[\d*A|\x1b\[2K|\x1b\[\?25[lh])", printed):
        if piece == "\n":
            lines.append("")
        elif piece in {"\r", "\x1b[2K"}:
            lines[-1] = ""
        elif re.fullmatch(r"\x1b\[\d*A", piece):
            for _ in range(int(re.sub(r"\D", "", piece[2:]) or 1)):
                if len(lines) > 1:
                    lines.pop()
            lines[-1] = ""
        elif not piece.startswith("\x1b[?25"):
            lines[-1] += piece
    return "\n".join(lines).strip("\n")


def _terminal(
    screen: "Page", folder: Path, name: str, arguments: list[str] | tuple[str, ...]
) -> None:
    """A photograph of a command and what it prints."""
    from rich.console import Console
    from rich.text import Text

    words = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    with Path(os.devnull).open("w") as nothing:
        console = Console(record=True, width=COLUMNS, file=nothing, force_terminal=True)
        console.print(Text(f"$ zlpr {words}", style="bold"), soft_wrap=True)
        console.print(Text.from_ansi(_run(folder, arguments)), soft_wrap=True)
        body = console.export_html(inline_styles=True, code_format="{code}")
    style = (
        "background:#15181d;color:#e6e6e6;font:14px/1.4 'DejaVu Sans Mono',monospace;"
        f"padding:16px;margin:0;border-radius:8px;width:{COLUMNS}ch;"
        "white-space:pre-wrap;overflow-wrap:anywhere"
    )
    screen.set_content(f'<body style="margin:0"><pre style="{html.escape(style)}">{body}</pre>')
    screen.locator("pre").first.screenshot(path=FIGURES / name)
    print(FIGURES / name)


def _serving(page: "Page", folder: Path) -> None:
    """The page of `zlpr serve`: a text, and the thresholds."""
    command = [
        sys.executable,
        "-m",
        "zlpr",
        "serve",
        "tickets-model",
        "tickets.jsonl",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as server:  # fmt: skip
        address = ""
        for line in server.stdout or ():
            if found := re.search(r"http://[\d.]+:\d+/", line):
                address = found.group()
                break
        threading.Thread(target=(server.stdout or sys.stdin).read, daemon=True).start()
        try:
            page.set_viewport_size({"width": 1120, "height": 720})
            page.goto(address)
            page.fill("#text", TEXT)
            page.wait_for_selector("#why:not([hidden])")
            page.wait_for_timeout(500)
            page.screenshot(path=FIGURES / "page-try.png")
            page.click("#tab-threshold")
            page.wait_for_selector("#figures td.now")
            page.wait_for_timeout(500)
            page.screenshot(path=FIGURES / "page-threshold.png")
        finally:
            server.terminate()


def make_small() -> None:
    """Photographs with 128 colours, which nobody tells apart, at half the size."""
    from PIL import Image

    for name in PHOTOGRAPHS:
        for path in FIGURES.glob(name):
            Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


KINDS = {"decision": decision, "speed": speed, "examples": examples, "photographs": photographs}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help=f"of {', '.join(KINDS)}")
    for kind in parser.parse_args().kinds:
        KINDS[kind]()
