"""How much the service takes on: every limit in one place, with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a request may be, and how many may wait.

    Attributes:
        body_bytes: of a request; more is refused before it is read whole.
        texts: in one request.
        text_characters: of one text.
        seconds: from a request's last byte to its answer.
        body_seconds: for a request's body to arrive.
        header_seconds: for a request's head to arrive.
        waiting: samples that may wait for the model.
        connections: at a time.
        batch: samples that the model is given at once.
    """

    body_bytes: int = 4_000_000
    texts: int = 1_000
    text_characters: int = 100_000
    seconds: float = 30.0
    body_seconds: float = 20.0
    header_seconds: float = 10.0
    waiting: int = 10_000
    connections: int = 1_000
    batch: int = 256
