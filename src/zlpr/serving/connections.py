"""HTTP connections that do not wait for ever: a request's head must arrive in time.

uvicorn waits without end for the rest of a head, so that a client that sends a byte a minute holds
a connection for as long as it likes.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def timed_protocol(header_seconds: float) -> type[H11Protocol]:
    """The HTTP protocol of uvicorn with a limit on the time that a head takes.

    Args:
        header_seconds: from a connection's opening, or from a later head's first byte, to its end.
    """

    class TimedProtocol(H11Protocol):
        head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._await_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
                self._stop_waiting()
            elif self.head_timer is None and self.conn.trailing_data[0]:
                self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _await_head(self) -> None:
            self.head_timer = self.loop.call_later(header_seconds, self._give_up)

        def _stop_waiting(self) -> None:
            if self.head_timer is not None:
                self.head_timer.cancel()
                self.head_timer = None

        def _give_up(self) -> None:
            self.head_timer = None
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.transport.close()

    return TimedProtocol
