"""Progress bars for what may take more than two seconds; silent where nobody watches."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from zlpr._escape import for_terminal
from zlpr.models.embedding_progress import embedding_progress


@contextlib.contextmanager
def progress(
    what: str, *, total: int | None = None, steps: int | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while the block runs; it is gone afterwards.

    Args:
        what: what is being done.
        total: the bytes it will take.
        steps: the steps it will take; without either the bar only tells that work goes on.

    Yields:
        A function to call with each number of bytes or steps done.
    """
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    if total is not None:
        columns.insert(2, DownloadColumn())
    elif steps is not None:
        columns.insert(2, MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(for_terminal(what), total=steps if total is None else total)

        def embedding(done: int, of: int) -> None:
            if len(bars.tasks) == 1:
                bars.add_task("embedding texts", total=of)
            bars.update(bars.tasks[-1].id, completed=done, total=of, visible=done < of)

        with embedding_progress(embedding):
            yield lambda count: bars.advance(task, count)
