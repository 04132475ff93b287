"""Build the site: `python docs/build.py SITE`, strictly: a broken link or reference is an error.

The pages are first completed in a folder of their own: the paper's tables come from the figures
that the package carries, the commands' page from their help, the reference of the losses from their
modules, the release notes from the changelog. Zensical then makes the site of that folder, and the
playground of the home page is written into it: the page of `zlpr serve` without a server, with a
model of the demo corpus that is trained here, in a second or two.
"""

import argparse
import contextlib
import functools
import inspect
import io
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import zlpr.losses
from zlpr.cli.main import COMMANDS, main, parser_of
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
    from zlpr.models import FittedModel

ROOT = Path(__file__).parent.parent
METRICS = [info(name) for name in PAPER_METRICS]
EXAMPLE = (
    "The app crashes whenever I open my invoice, and I was charged twice this month. "
    "Please cancel my subscription."
)
FAMILIES = {
    "zlpr": ["zlpr", "divergence"],
    "binary": ["binary"],
    "overlap": ["overlap"],
    "pairwise": ["pairwise"],
    "learned-threshold": ["learned_threshold"],
    "balanced": ["balanced"],
    "linear": ["linear", "optimiser_steps"],
}
"""The pages of the losses' reference, and the modules that each is about."""


def build(site: Path) -> None:
    """Write the whole site into a folder, which is replaced."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch)
        complete_pages(project / "docs")
        shutil.copy(ROOT / "mkdocs.yml", project)
        (project / "src").symlink_to(ROOT / "src")
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        made = subprocess.run(command, cwd=project, capture_output=True, text=True)
        if made.returncode:
            sys.exit(made.stdout + made.stderr)
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(project / "site", site)
    model, found = playground()
    write_static_page(model, found, site / "playground", name="support tickets", example=EXAMPLE)


def complete_pages(folder: Path) -> None:
    """Copy the pages, with what they ask for put where they ask."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for mark, make in MARKS.items():
            if mark in text:
                text = text.replace(mark, make())
        page.write_text(text, encoding="utf-8")


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
    return [
        name
        for action in parser_of(command)._actions
        if isinstance(action, argparse._SubParsersAction)
        for name in action.choices
    ]


def _help(heading: str, *words: str) -> list[str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    title = " ".join([heading, "zlpr", *words])
    return [title, "", "```text", printed.getvalue().rstrip(), "```", ""]


def _family_of() -> dict[str, str]:
    """Which page of the reference each public name of `zlpr.losses` is on."""
    return {
        name: family
        for family, modules in FAMILIES.items()
        for module in modules
        for name in vars(import_module(f"zlpr.losses.{module}"))
        if getattr(getattr(zlpr.losses, name, None), "__module__", "") == f"zlpr.losses.{module}"
    }


def _losses() -> str:
    """All losses by name, each with its function and its module class."""
    rows, families = [], _family_of()
    for name in zlpr.losses.available():
        known = zlpr.losses.info(name)
        function, module = known.function.__name__, _class_name(known.module)
        page = families[function]
        links = [f"[`{item}`]({page}.md#zlpr.losses.{item})" for item in (function, module)]
        cut = "rank only" if known.bound is None else f"{known.bound:g}"
        rows.append([f"`{name}`", known.summary.rstrip("."), cut, *links])
    return _table(["name", "what it is", "decides at", "function", "module"], rows)


def _class_name(module: object) -> str:
    """The class behind what makes a loss, which may be a function that fills in options."""
    return str(getattr(module, "__name__", None) or module.func.__name__)  # type: ignore[attr-defined]


def _members(family: str) -> str:
    """The reference of a family: its functions, each with its module class below it."""
    names = [name for name, page in _family_of().items() if page == family]
    order = {name: line for name in names for line in [_line_of(getattr(zlpr.losses, name))]}
    modules = [f"zlpr.losses.{module}" for module in FAMILIES[family]]
    names.sort(key=lambda name: (modules.index(getattr(zlpr.losses, name).__module__), order[name]))
    return "\n\n".join(f"::: zlpr.losses.{name}" for name in names)


def _line_of(item: object) -> int:
    """Where a function or class starts; a class right after the function that it wraps."""
    wrapped = getattr(item, "function", None) if inspect.isclass(item) else None
    return inspect.getsourcelines(item)[1] if wrapped is None else _line_of(wrapped) + 1  # type: ignore[arg-type]


def _examples() -> str:
    """A card per script: its picture, what its first line says, and its code behind a fold."""
    return "\n".join(_card(script) for script in sorted((ROOT / "examples").glob("*.py")))


def _card(script: Path) -> str:
    code = script.read_text(encoding="utf-8")
    says = code.partition('"""')[2].partition("\n")[0]
    lines = "\n".join(f"    {line}".rstrip() for line in ["```python", *code.splitlines(), "```"])
    picture = f"![The picture that {script.stem} draws](figures/examples/{script.stem}.png)"
    return (
        f'<div markdown>\n\n{picture}\n\n{says}\n\n??? example "{script.name}"\n\n{lines}\n\n</div>'
    )


def _release_notes() -> str:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.partition("\n\n")[2]


MARKS = {
    "<!-- paper: wins -->": _wins,
    "<!-- paper: results -->": _results,
    "<!-- commands -->": _commands,
    "<!-- losses -->": _losses,
    "<!-- examples -->": _examples,
    "<!-- release notes -->": _release_notes,
} | {f"<!-- losses: {family} -->": functools.partial(_members, family) for family in FAMILIES}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="the folder of the site, which is replaced")
    build(parser.parse_args().site)
