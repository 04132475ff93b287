"""`zlpr explain`: what the words of a text add to the scores of its labels."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from zlpr._errors import UserError
from zlpr._escape import for_terminal
from zlpr.cli._console import print_json, print_table, say
from zlpr.cli._decision import add_decision_arguments, decide_by_hand
from zlpr.cli._flags import words

if TYPE_CHECKING:
    from zlpr.models.explanation import Explanation

EXAMPLE = 'zlpr explain reviews-model "Arrived broken, and nobody answers." --label delivery'
INTERMIXED = True
ROUNDING = 5e-4  # what three decimals do not show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the text and how much to show."""
    parser.add_argument("model", metavar="DIR", help="a folder that 'zlpr train' wrote")
    parser.add_argument("text", metavar="TEXT", type=words, help="the text to explain")
    parser.add_argument(
        "--label",
        metavar="NAME",
        help="explain this label (default: all predicted ones, or the one with the highest score)",
    )
    parser.add_argument(
        "--contributions",
        type=int,
        default=10,
        metavar="N",
        help="how many words and n-grams to list for each label (default 10)",
    )
    add_decision_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Load, explain, print."""
    from zlpr import load

    model = load(args.model)
    decide_by_hand(model, args)
    if args.contributions < 0:
        raise UserError(f"--contributions {args.contributions}: expected 0 or more")
    explanations = model.explain(args.text, args.label, args.contributions)
    if args.json:
        print_json([_plain(args.text, explanation) for explanation in explanations])
        return
    for place, explanation in enumerate(explanations):
        if place:
            say()
        _show(args.text, explanation, args.contributions)


def _plain(text: str, explanation: "Explanation") -> dict[str, object]:
    """An explanation as JSON, its words with their letters."""
    plain = asdict(explanation)
    plain["words"] = [
        {"word": text[place.start : place.end], **asdict(place)} for place in explanation.words
    ]
    return plain


def _show(text: str, explanation: "Explanation", most: int) -> None:
    """A title, the words that count most beside the n-grams that do, and what is left."""
    from zlpr.metrics.table import shown

    verb = "predicted" if explanation.predicted else "not predicted"
    say(
        f"{for_terminal(explanation.label)}: {verb}, score {explanation.score:.3f}, "
        f"probability {shown(explanation.probability)}"
    )
    if explanation.approximates:
        say(f"approximate: {explanation.approximates}")
    rows = _word_rows(text, explanation, most) if explanation.words else _part_rows(explanation)
    print_table(["part", "adds"], [[name, f"{value:+.3f}"] for name, value in rows])
    if explanation.words and not explanation.approximates:
        listed = ", ".join(f"{part.part!r} {part.value:+.3f}" for part in explanation.contributions)
        say(f"largest n-grams: {for_terminal(listed)}")


def _word_rows(text: str, explanation: "Explanation", most: int) -> list[tuple[str, float]]:
    """The words that add most, and all else, so that the column adds up to the score."""
    ranked = sorted(explanation.words, key=lambda place: -abs(place.value))
    rows = [(text[place.start : place.end], place.value) for place in ranked[:most]]
    if len(ranked) > most:
        rows.append(("all other words", sum(place.value for place in ranked[most:])))
    rows += [(part.part, part.value) for part in explanation.elsewhere]
    rows.append(("a text without words", explanation.bias))
    missing = explanation.score - sum(value for _, value in rows)
    return [*rows, ("all else", missing)] if abs(missing) > ROUNDING else rows


def _part_rows(explanation: "Explanation") -> list[tuple[str, float]]:
    """The features that add most, and all else."""
    rows = [(part.part, part.value) for part in explanation.contributions]
    return [*rows, ("all else", explanation.rest), ("the label by itself", explanation.bias)]
