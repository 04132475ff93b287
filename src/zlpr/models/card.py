"""The model card: what a model is, what it was trained on, how well it does, what it cannot do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zlpr import __version__
from zlpr._counted import counted
from zlpr._escape import for_markdown, for_markdown_code
from zlpr.data import Columns
from zlpr.decoding import SetPosterior
from zlpr.decoding.with_ancestors import bare
from zlpr.metrics import Empty
from zlpr.metrics.table import figure_rows, in_words
from zlpr.models.registry import NO_LOSS

if TYPE_CHECKING:
    from zlpr.models.base import FittedModel, TrainingRecord

_USE_OF_TEXTS = (
    "```python",
    "import zlpr",
    "",
    'model = zlpr.load("PATH OF THIS FOLDER")',
    'model.predict(["a text"])        # label names',
    'model.predict_proba(["a text"])  # probabilities, calibrated on validation data',
    "```",
)
_USE_OF_TABLES = (
    "```bash",
    "zlpr predict PATH_OF_THIS_FOLDER --file TABLE.csv  # with the columns named below",
    "```",
)

IN_HIERARCHY = (
    "Labels count with all their ancestors, true and predicted ones, so that Micro-F1 is the "
    "hierarchical F1."
)
"""What is said of figures where labels have a hierarchy."""


def model_card(model: "FittedModel") -> str:
    """The folder's README.md, in Markdown with the front matter that model hubs read."""
    record = model.record
    data = record.data
    name = data.get("name") or "unnamed data"
    columns = Columns.from_json(data.get("columns", {}))
    return "\n".join(
        [
            "---",
            "library_name: zlpr",
            f"pipeline_tag: {'text' if columns.features is None else 'tabular'}-classification",
            "tags: [multi-label, zlpr]",
            "---",
            "",
            f"# Multi-label classifier trained on {for_markdown(str(name))}",
            "",
            f"A {for_markdown_code(model.kind)} model of "
            f"{counted(len(model.label_names), 'label')}, trained "
            f"{_trained_with(record)}by zlpr {__version__} in {record.seconds:.1f} seconds.",
            "",
            "## Use",
            "",
            *(_USE_OF_TEXTS if columns.features is None else _USE_OF_TABLES),
            "",
            "## Data",
            "",
            *(
                f"- {for_markdown(key.replace('_', ' '))}: {for_markdown(_show(value))}"
                for key, value in {**data, "columns": columns.describe()}.items()
                if value
            ),
            "",
            "## Figures",
            "",
            *_figures(record.metrics, empty_of(record)),
            *refit_note(record),
            "",
            "## How it decides",
            "",
            _decides(model),
            _estimates(model),
            "",
            "## Limits",
            "",
            "- It knows the labels of its training data only, and data of that kind only.",
            "- Probabilities are calibrated on the validation data; elsewhere they may be off.",
            "- A rare label's figures rest on few samples; look at the per-label table of",
            "  `zlpr evaluate` before relying on one.",
            "",
            "## Labels",
            "",
            ", ".join(map(for_markdown, model.label_names)),
            "",
        ]
    )


def _trained_with(record: "TrainingRecord") -> str:
    return "" if record.loss == NO_LOSS else f"with the loss {for_markdown_code(record.loss)} "


def _decides(model: "FittedModel") -> str:
    config = dict(bare(model.decoder).to_config())
    rule = str(config.pop("rule"))
    closed = " " + IN_HIERARCHY if model.hierarchy is not None else ""
    if rule == "zero":
        return f"A label is predicted where its score is above 0, the loss's own bound.{closed}"
    numbers = {name: value for name, value in config.items() if isinstance(value, int | float)}
    values = ", ".join(f"{name} = {value:.4g}" for name, value in numbers.items())
    values = f" ({values})" if values else ""
    return f"By the rule `{rule}`{values}, fitted on validation data.{closed}"


def _estimates(model: "FittedModel") -> str:
    """Where probabilities come from, and how they did against the alternative."""
    chosen = model.record.decision.get("probabilities", {})
    by_sets = isinstance(model.calibrator, SetPosterior)
    words = "the marginals of a posterior over label sets" if by_sets else "a calibrator per label"
    losses = chosen.get("log_loss", {})
    shown = ", ".join(f"`{name}` {loss:.4f}" for name, loss in losses.items())
    compared = f" (log loss on validation data, cross-fitted: {shown})" if shown else ""
    return f"Probabilities are those of {words}{compared}."


def empty_of(record: "TrainingRecord") -> Empty:
    """What empty cases count in a record's figures; the paper's way before it was said."""
    return "sklearn" if record.settings.get("empty") == "sklearn" else "paper"


def refit_note(record: "TrainingRecord") -> list[str]:
    """That a model was at last trained on its validation data too, in a sentence, where it was."""
    if not (record.settings.get("refit") and "validation" in record.metrics):
        return []
    if "folds" in record.chosen:
        return [
            f"The validation figures are of training and validation part together, in "
            f"{record.chosen['folds']:g} folds, each scored by a fit that had not seen it."
        ]
    return ["The validation figures are from before the last fit, which had that part as well."]


def _figures(metrics: Mapping[str, Mapping[str, float]], empty: Empty) -> list[str]:
    if not metrics:
        return ["None were recorded."]
    headers, rows = figure_rows(metrics)
    head, *body = (f"| {' | '.join(map(for_markdown, line))} |" for line in (headers, *rows))
    return [
        head,
        "|---" * len(headers) + "|",
        *body,
        "",
        in_words(empty),
    ]


def _show(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
