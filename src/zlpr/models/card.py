"""The model card: what a model is, what it was trained on, how well it does, what it cannot do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zlpr import __version__
from zlpr._counted import counted
from zlpr._escape import for_markdown, for_markdown_code, for_terminal
from zlpr.data import Columns
from zlpr.decoding import ProbabilityFloor, SetPosterior
from zlpr.decoding.with_ancestors import bare
from zlpr.metrics import Empty
from zlpr.metrics.table import figure_rows, in_words, shown
from zlpr.models.registry import NO_LOSS

if TYPE_CHECKING:
    from zlpr.models.base import FittedModel, TrainingRecord

MOST_ROWS = 100
"""Labels with a row of the table, the most frequent in training."""

EXAMPLE = "a short text"
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
            "license: unknown  # yours to say; the training data's terms may bind it",
            "---",
            "",
            f"# Multi-label classifier trained on {for_markdown(str(name))}",
            "",
            f"A {for_markdown_code(model.kind)} model of "
            f"{counted(len(model.label_names), 'label')}, trained "
            f"{_trained_with(record)}by zlpr {__version__} in {record.seconds:.1f} seconds.",
            "",
            "## Intended use",
            "",
            *_intended(columns),
            "",
            "## Use",
            "",
            *(_use_of_texts(model) if columns.num_features is None else _USE_OF_TABLES),
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
            "- A rare label's figures rest on few samples; look at its row below, and at",
            "  `zlpr evaluate` on your own data, before relying on one.",
            "",
            "## Labels",
            "",
            *_labels(model),
            "",
        ]
    )


def _intended(columns: Columns) -> list[str]:
    """What the model is for, and what it is not for."""
    inputs = "texts" if columns.features is None else "rows of a table"
    return [
        f"It gives {inputs} like those of its training data any number of the labels below, to",
        "sort, search or count them. It is not meant for other kinds of data, nor to decide alone",
        "where a wrong label harms somebody: there, let a person look at its probabilities.",
    ]


def _use_of_texts(model: "FittedModel") -> list[str]:
    """Code to start from, with what this model answers."""
    from zlpr.models.answers import answer

    said = answer(model, [EXAMPLE])[0]
    names = [for_terminal(repr(name)).replace("```", "") for name in model.label_names]
    chosen = ", ".join(names[i] for i in said.chosen) or "no label"
    probable = "none, no label is a candidate"
    if said.probabilities:
        best = max(said.probabilities, key=lambda i: said.probabilities[i])
        probable = f"{names[best]} {shown(said.probabilities[best])}"
    return [
        "```python",
        "import zlpr",
        "",
        'model = zlpr.load("PATH OF THIS FOLDER")',
        f'model.predict(["{EXAMPLE}"])  # {chosen}',
        f'model.predict_proba(["{EXAMPLE}"])  # the highest: {probable}',
        "```",
    ]


def _labels(model: "FittedModel") -> list[str]:
    """A row per label, the most frequent in training first; names alone where nothing is known."""
    record, names = model.record, [for_markdown(name) for name in model.label_names]
    if record.frequencies is None:
        return [", ".join(names)]
    counts = [int(count) for count in record.frequencies.counts]
    order = sorted(range(len(names)), key=lambda i: -counts[i])[:MOST_ROWS]
    headers, cells = ["label", "training samples"], [[names[i], f"{counts[i]:,}"] for i in order]
    if record.by_label is not None:
        part, report = record.by_label
        headers += [f"{part} samples", f"F1 on {part}"]
        for row, i in zip(cells, order, strict=True):
            row += [f"{int(report.support[i]):,}", shown(float(report.f1[i]))]
    table = [headers, ["---", *["--:"] * (len(headers) - 1)], *cells]
    rest = [names[i] for i in set(range(len(names))) - set(order)]
    more = ["", f"And {', '.join(sorted(rest))}."] if rest else []
    return [*(f"| {' | '.join(row)} |" for row in table), *more]


def _trained_with(record: "TrainingRecord") -> str:
    return "" if record.loss == NO_LOSS else f"with the loss {for_markdown_code(record.loss)} "


def _decides(model: "FittedModel") -> str:
    decoder, more = bare(model.decoder), ""
    if isinstance(decoder, ProbabilityFloor):
        more = f" No label below a probability of {decoder.min_probability:g} is predicted."
        decoder = decoder.rule
    more += f" {IN_HIERARCHY}" if model.hierarchy is not None else ""
    config = dict(decoder.to_config())
    rule = str(config.pop("rule"))
    if rule == "zero":
        return f"A label is predicted where its score is above 0, the loss's own bound.{more}"
    numbers = {name: value for name, value in config.items() if isinstance(value, int | float)}
    values = ", ".join(f"{name} = {value:.4g}" for name, value in numbers.items())
    values = f" ({values})" if values else ""
    how = "set by hand" if _is_by_hand(model.record) else "fitted on validation data"
    return f"By the rule `{rule}`{values}, {how}.{more}"


def _is_by_hand(record: "TrainingRecord") -> bool:
    """Whether a threshold or a number of labels was asked for, in training or on the page."""
    asked = any(record.settings.get(name) is not None for name in ("threshold", "top"))
    return asked or record.decision.get("by") == "hand"


def _estimates(model: "FittedModel") -> str:
    """Where probabilities come from, and how they did against the alternative."""
    chosen = model.record.decision.get("probabilities", {})
    by_sets = isinstance(model.calibrator, SetPosterior)
    words = "the marginals of a posterior over label sets" if by_sets else "a calibrator per label"
    losses = chosen.get("log_loss", {})
    told = ", ".join(f"`{name}` {loss:.3f}" for name, loss in losses.items())
    compared = f" (log loss on validation data, cross-fitted: {told})" if told else ""
    return f"Probabilities are those of {words}{compared}."


def empty_of(record: "TrainingRecord") -> Empty:
    """What empty cases count in a record's figures; the paper's way before it was said."""
    return "sklearn" if record.settings.get("empty") == "sklearn" else "paper"


def refit_note(record: "TrainingRecord") -> list[str]:
    """What figures are of, where that is not plain, in sentences.

    Those of a rule that was set on the page are of the model as it is, on what it was looked at
    with. Else validation figures may be from before a last fit, which had that part too.
    """
    if "on" in record.decision:
        noted = [f"{note[:1].upper()}{note[1:]}." for note in record.decision.get("notes", [])]
        of = f"The figures are of the model as it is, on: {record.decision['on']}."
        return [for_markdown(sentence) for sentence in (of, *noted)]
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
    return f"{value:.2f}" if isinstance(value, float) else str(value)
