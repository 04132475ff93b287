"""Who hears how far the embedding of texts is, wherever it happens."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

Progress = Callable[[int, int], None]
"""Called with how many texts have been embedded, and of how many."""
_listener: ContextVar[Progress | None] = ContextVar("embedding_progress", default=None)


@contextlib.contextmanager
def embedding_progress(tell: Progress) -> Iterator[None]:
    """Hear how far embedding is, while the block trains or predicts.

    Examples:
        >>> with embedding_progress(lambda done, total: print(done, "of", total)):
        ...     heard()(64, 1000)
        64 of 1000
    """
    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


def heard() -> Progress | None:
    """Whom to tell; None where nobody listens."""
    return _listener.get()
