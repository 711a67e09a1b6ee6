# SPDX-License-Identifier: MIT
"""uvicorn's HTTP/1.1 protocol with time limits for each part of an exchange.

    head    from the connection, or the first byte of a further request, to the end of the headers
    body    from the end of the headers to the end of the body
    answer  from the last byte handed to the transport until the client's kernel has taken it

uvicorn itself limits only the time between two requests. A client that sends half of a request, or reads no answer,
would otherwise hold its connection for ever. A limit ends the connection without an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection", "TimeLimits", "connection_of", "timed_protocol"]

_STATE_KEY = "ccatune_connection"


@dataclass(frozen=True)
class TimeLimits:
    """The longest times of a head, a body and an answer, in seconds."""

    head_s: float
    body_s: float
    answer_s: float


class Connection:
    """The connection of a request. `on_lost` is called once if the client disconnects during the request."""

    __slots__ = ("on_lost",)

    def __init__(self) -> None:
        self.on_lost: Callable[[], None] | None = None


def connection_of(scope: Any) -> Connection | None:
    """Return the connection of an ASGI scope, or None if another server than ours runs the application."""
    found = scope.get("state", {}).get(_STATE_KEY)
    return found if isinstance(found, Connection) else None


def timed_protocol(limits: TimeLimits) -> type[H11Protocol]:
    """Return the protocol class with these limits."""

    class TimedProtocol(_Timed):
        _limits = limits

    return TimedProtocol


class _Timed(H11Protocol):
    _limits: TimeLimits

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connection = Connection()
        self.app_state = {**self.app_state, _STATE_KEY: self._connection}
        # The part that is awaited from the client, and its timer.
        self._awaited: object = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await(h11.IDLE, self._limits.head_s)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_rest()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.get_write_buffer_size() > 0:
            self.loop.call_later(self._limits.answer_s, self._abort_unread_answer)
        self._await_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await(None, 0.0)
        super().connection_lost(exc)
        on_lost, self._connection.on_lost = self._connection.on_lost, None
        if on_lost is not None:
            on_lost()

    def _await_rest(self) -> None:
        """Start the timer of the part that the client has begun, unless it runs already."""
        state = self.conn.their_state
        if self.transport.is_closing():
            self._await(None, 0.0)
        elif state is h11.SEND_BODY:
            self._await(h11.SEND_BODY, self._limits.body_s)
        elif state is h11.IDLE and (self.conn.trailing_data[0] or self.timeout_keep_alive_task is None):
            self._await(h11.IDLE, self._limits.head_s)
        else:
            self._await(None, 0.0)

    def _await(self, part: object, limit_s: float) -> None:
        if part is self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._awaited = part
        if part is not None:
            self._timer = self.loop.call_later(limit_s, self._time_is_over)

    def _time_is_over(self) -> None:
        self._timer = None
        self.transport.abort()

    def _abort_unread_answer(self) -> None:
        if self.transport.get_write_buffer_size() > 0:
            self.transport.abort()
