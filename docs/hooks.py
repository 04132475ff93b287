r"""What the site computes when it is built: the mathematics, the paper's tables, the commands.

Formulas become MathML, which browsers show themselves, so that pages need no script and no
network; `pymdownx.arithmatex` leaves `\(…\)` and `\[…\]` in marked elements. The tables of the
paper come from the figures that the package carries, the commands' pages from their own help.
"""

import argparse
import contextlib
import html
import io
import re
from importlib import import_module

from latex2mathml.converter import convert

from zlpr.cli.main import COMMANDS, main
from zlpr.compare.results import OWN, Results
from zlpr.compare.statistics import count_wins
from zlpr.data import published
from zlpr.metrics import PAPER_METRICS, MetricInfo, info

MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<math>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)
METRICS = [info(name) for name in PAPER_METRICS]


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put what a page asks for where it asks; called by mkdocs for each page."""
    for mark, make in MARKS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def on_page_content(content: str, **_: object) -> str:
    """Replace every marked formula by MathML; called by mkdocs for each page."""
    return MARKED.sub(_render, content)


def _render(match: re.Match[str]) -> str:
    display = "block" if match["open"] == "[" else "inline"
    mathml = convert(html.unescape(match["math"]), display=display)
    return f'<{match["tag"]} class="math-{display}">{mathml}</{match["tag"]}>'


def _table(headers: list[str], rows: list[list[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _wins() -> str:
    rows, results = [], Results.from_paper()
    for column in OWN:
        printed = published.wins(column.metric.name)
        wins = count_wins(results, column, published.DECIDING_LOSSES)
        counted = {loss: entry.total for loss, entry in wins.items()}
        cells = [
            str(printed[loss])
            if printed[loss] == counted[loss]
            else f"{printed[loss]} (counted: {counted[loss]})"
            for loss in published.DECIDING_LOSSES
        ]
        rows.append([column.metric.title, *cells])
    return _table(["metric", *published.DECIDING_LOSSES], rows)


def _results() -> str:
    parts = []
    for name in published.SETS:
        for encoder in published.ENCODERS:
            rows = [
                [loss, *(_cell(name, encoder, loss, metric) for metric in METRICS)]
                for loss in published.losses(name, encoder)
            ]
            titles = [metric.title for metric in METRICS]
            parts += [f"### {name}, {encoder}", "", _table(["loss", *titles], rows), ""]
    return "\n".join(parts)


def _cell(name: str, encoder: published.Encoder, loss: str, metric: MetricInfo) -> str:
    value = published.result(name, encoder, loss, metric.name)
    if value is None:
        return ""
    rivals = [
        figure
        for rival in published.losses(name, encoder)
        if (figure := published.result(name, encoder, rival, metric.name)) is not None
    ]
    best = max(rivals, key=lambda figure: metric.sign * figure)
    return f"**{value:.2f}**" if value == best else f"{value:.2f}"


def _commands() -> str:
    parts = []
    for name in COMMANDS:
        parts += _help("##", name)
        for action in _actions(name):
            parts += _help("###", name, action)
    return "\n".join(parts)


def _actions(command: str) -> list[str]:
    """What a command can be told to do, as `zlpr data` to prepare; none for most."""
    parser = argparse.ArgumentParser()
    import_module(COMMANDS[command].module).add_arguments(parser)
    return [
        name
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name in action.choices
    ]


def _help(heading: str, *words: str) -> list[str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    title = " ".join([heading, "zlpr", *words])
    return [title, "", "```text", printed.getvalue().rstrip(), "```", ""]


MARKS = {
    "<!-- paper: wins -->": _wins,
    "<!-- paper: results -->": _results,
    "<!-- commands -->": _commands,
}
