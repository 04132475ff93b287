"""The figures of a comparison, as `zlpr compare` and `zlpr report` print them."""

from typing import TYPE_CHECKING, Any

from zlpr._escape import for_terminal
from zlpr.cli._console import print_table, say

if TYPE_CHECKING:
    from zlpr.compare import Results
    from zlpr.compare.tables import Table

MANY_CONTESTS = 3
"""With more tables than this, the terminal shows the wins alone; the report has them all."""


def print_results(results: "Results") -> None:
    """Tables in the terminal: per data set and model where they are few, and the wins."""
    from zlpr.compare.results import FITTED, OWN
    from zlpr.compare.tables import (
        BEST_MARK,
        LEGEND,
        UNFINISHED,
        terminal_rows,
        terminal_tables,
        wins_table,
    )
    from zlpr.metrics.table import in_words

    shown: list[Table] = []
    if len(results.contests) <= MANY_CONTESTS:
        for contest in results.contests:
            shown.extend(terminal_tables(results, contest))
    if len(results.contests) > 1:
        for columns, how in ((OWN, "at the own bound"), (FITTED, "with fitted decoding")):
            shown.append(wins_table(results, columns, title=f"Wins {how}", short=True))
    for table in shown:
        headers, rows = terminal_rows(table)
        print_table(
            headers, rows, title=for_terminal(table.title), strong=lambda x: x.endswith(BEST_MARK)
        )
        say()
    say(LEGEND)
    if results.unfinished:
        say(UNFINISHED)
    for empty in results.empty:
        say(in_words(empty))


def results_json(results: "Results") -> list[dict[str, Any]]:
    """Every mean with its spread, as plain values."""
    from zlpr.compare.results import COLUMNS
    from zlpr.compare.statistics import Spread, standing

    figures = []
    for contest in results.contests:
        for column in COLUMNS:
            stand = standing(results, contest, column)
            matched = results.matched(contest, column)
            for loss in results.judged(contest, column):
                spread = Spread.of(matched.get(loss))
                if spread is None or stand is None:
                    continue
                figures.append(
                    {
                        "data": contest.data,
                        "model": contest.model,
                        "loss": loss,
                        "metric": column.metric.name,
                        "decoding": column.decoding if column.metric.needs_decision else None,
                        "mean": spread.mean,
                        "deviation": spread.deviation,
                        "seeds": spread.seeds,
                        "compared": loss in matched.figures,
                        "best": loss in stand.best,
                        "within_noise_of_best": loss in stand.within_noise,
                    }
                )
    return figures
