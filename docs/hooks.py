r"""What the site computes when it is built: the mathematics, the paper's tables, the commands.

Formulas become MathML, which browsers show themselves, so that pages need no script and no
network; `pymdownx.arithmatex` leaves `\(…\)` and `\[…\]` in marked elements. The tables of the
paper come from the figures that the package carries, the commands' pages from their own help. The
playground of the home page is the page of `zlpr serve` without a server, with a model of the demo
corpus that is trained here, in a second or two.
"""

import argparse
import contextlib
import functools
import html
import io
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from latex2mathml.converter import convert

from zlpr.cli.main import COMMANDS, main
from zlpr.compare.results import OWN, Results
from zlpr.compare.statistics import count_wins
from zlpr.data import demo, make_split, published
from zlpr.decoding import Calibrator
from zlpr.metrics import PAPER_METRICS, MetricInfo, info
from zlpr.models.feature_config import FeatureConfig
from zlpr.serving.review import Review, review
from zlpr.serving.static_page import write_static_page
from zlpr.training import TrainingConfig, fit

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

    from zlpr.models import FittedModel

MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<math>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)
METRICS = [info(name) for name in PAPER_METRICS]
EXAMPLE = (
    "The app crashes whenever I open my invoice, and I was charged twice this month. "
    "Please cancel my subscription."
)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put what a page asks for where it asks; called by mkdocs for each page."""
    for mark, make in MARKS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def on_page_content(content: str, **_: object) -> str:
    """Replace every marked formula by MathML; called by mkdocs for each page."""
    return MARKED.sub(_render, content)


def on_post_build(config: "MkDocsConfig", **_: object) -> None:
    """Write the playground that the home page shows; called by mkdocs at the end."""
    model, found = playground()
    folder = Path(config.site_dir) / "playground"
    write_static_page(model, found, folder, name="support tickets", example=EXAMPLE)


@functools.cache
def playground() -> "tuple[FittedModel, Review]":
    """A model of the demo corpus, words alone and one threshold, that a page can hold."""
    parts = make_split(demo.make(4_000))
    train, validation = parts.part("train"), parts.part("validation")
    config = TrainingConfig(
        decode="threshold",
        refit=False,  # so that the validation part can be looked at
        regularisation=0.3,
        features=FeatureConfig(analyzer="word", min_count=2, max_features=2_500),
    )
    model = fit(train, validation, config).model
    # Each label's by itself: a mark on its bar can then say where the cut lies.
    model.calibrator = Calibrator().fit(validation.labels, model.predict_scores(validation.texts))
    return model, review(model, validation, parts.part("test"))


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
