# SPDX-License-Identifier: MIT
"""uvicorn's HTTP/1.1 protocol (on the parser `httptools`) with a time limit for each part of an exchange.

    head    from the connection, or the first byte of a further request, to the end of the headers
    body    from the end of the headers to the end of the body
    answer  from the last byte handed to the transport until the client's kernel has taken it

Between two requests the connection is one of `IdleConnections`.
uvicorn itself limits only the time between two requests. A client that sends half of a request, or reads no answer,
would otherwise hold its connection for ever. A limit ends the connection without an answer.

Neither uvicorn nor the parser limits what a client can make the registry keep. A connection is therefore answered 400
and closed if it

    sends more than `_MAX_HEAD_BYTES` of headers or trailers, or as much without ending a header
    sends more than `_MAX_PIPELINED` requests before the answer to the first one

So is a request that is malformed, or has not exactly one Host header (RFC 9112, section 3.2).

The registry speaks HTTP/1.1 only, and ignores a request for another protocol (RFC 9110, section 7.8). The parser takes
all that follows the head of such a request for the other protocol, and skips even its body. It is therefore replaced by
a new one, which reads the same head without its Upgrade header.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from serving.http.connections import IdleConnections
from serving.http.counted_log import CountedLog
from serving.http.problems import problem_response

_STATE_KEY = "ccatune_connection"
_MAX_HEAD_BYTES = 16 * 1024
_MAX_PIPELINED = 64
# The parser receives at most this much at once, because it reports a header only at its end.
_SLICE_BYTES = 4096
# The bytes of a header's line besides its name and value.
_HEADER_SEPARATORS_BYTES = len(": \r\n")

_TOO_LARGE = f"expected at most {_MAX_HEAD_BYTES} bytes of headers or trailers, got more"

_log = logging.getLogger(__name__)


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


def timed_protocol(limits: TimeLimits, idle: IdleConnections) -> type[HttpToolsProtocol]:
    """Return the protocol class with these limits. Its connections are in `idle` while they wait for a request."""
    limits_s = {_Part.HEAD: limits.head_s, _Part.BODY: limits.body_s, _Part.ANSWER: limits.answer_s}

    class TimedProtocol(_Timed):
        _limits_s = limits_s
        _idle = idle
        _refusals = CountedLog(_log)

    return TimedProtocol


class _Part(Enum):
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"


class _SmallEvent(asyncio.Event):
    """An event that makes its queue of waiters, some 700 bytes, only if somebody has to wait."""

    __slots__ = ("_is_set", "_waited")

    def __init__(self, *, is_set: bool) -> None:
        self._is_set = is_set
        self._waited: asyncio.Future[None] | None = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._waited is not None and not self._waited.done():
            self._waited.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> Literal[True]:
        if not self._is_set:
            if self._waited is None or self._waited.done():
                self._waited = asyncio.get_running_loop().create_future()
            # Several may wait, and one of them may be cancelled.
            await asyncio.shield(self._waited)
        return True


class _SmallQueue(list[Any]):
    """A queue for the few requests of a pipeline. It is almost always empty, and a deque would take 600 bytes."""

    def appendleft(self, item: Any) -> None:
        self.insert(0, item)


class _Timed(HttpToolsProtocol):
    _limits_s: ClassVar[dict[_Part, float]]
    _idle: ClassVar[IdleConnections]
    _refusals: ClassVar[CountedLog]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connection = Connection()
        self.pipeline = _SmallQueue()  # type: ignore[assignment]
        self.app_state = {**self.app_state, _STATE_KEY: self._connection}
        # The request that is being answered. `cycle` is the latest one, and `pipeline` has those between the two.
        self._answered: RequestResponseCycle | None = None
        # The part of a request that the client has begun and not ended.
        self._begun: _Part | None = None
        self._unparsed_bytes = 0
        # The part that is awaited from the client, and its timer.
        self._awaited: _Part | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Called by the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow._is_writable_event = _SmallEvent(is_set=True)
        self._await(_Part.HEAD)

    def data_received(self, data: bytes) -> None:
        for begin in range(0, len(data), _SLICE_BYTES):
            if self.transport.is_closing():
                break
            self._parse(data[begin : begin + _SLICE_BYTES])
        self._await_rest()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await(_Part.ANSWER)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._await_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await(None)
        self._idle.discard(self)
        self._answer_no_more()
        super().connection_lost(exc)
        on_lost, self._connection.on_lost = self._connection.on_lost, None
        if on_lost is not None:
            on_lost()

    # Called by the parser.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun = _Part.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer must not change the headers of a request that is being answered.
        if self._begun is _Part.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._require_acceptable_head()
        if self.parser.should_upgrade():
            return
        self._begun = _Part.BODY
        self._unparsed_bytes = 0
        super().on_headers_complete()
        # The task of the request has not begun yet, so nobody waits for the event.
        self.cycle.message_event = _SmallEvent(is_set=False)

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._begun = None
        self._unparsed_bytes = 0
        super().on_message_complete()

    # Called by uvicorn.

    def on_response_complete(self) -> None:
        # uvicorn's own method starts a timer for the next request, and reads on while requests are queued.
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            if not self.pipeline:
                self.flow.resume_reading()
        self._await_rest()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    # Called by the idle connections.

    def close_idle(self) -> None:
        if self.transport.get_write_buffer_size() > 0:
            # The client has not taken the last answer yet.
            self.transport.close()
            self._await_rest()
        else:
            # `close` would wait for an idle client of TLS to answer.
            self.transport.abort()

    def _parse(self, data: bytes) -> None:
        self._unparsed_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            head = self._head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self._unparsed_bytes = 0
            self._parse(head)
            if not self.transport.is_closing():
                self._parse(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            # The parser's own error hides the one that a callback raised.
            self._refuse(str(error.__context__ or error))
        else:
            if self._begun is not None and self._unparsed_bytes > _MAX_HEAD_BYTES:
                self._refuse(_TOO_LARGE)

    def _require_acceptable_head(self) -> None:
        size_bytes = len(self.url) + sum(
            len(name) + len(value) + _HEADER_SEPARATORS_BYTES for name, value in self.headers
        )
        n_hosts = sum(name == b"host" for name, _ in self.headers)
        if size_bytes > _MAX_HEAD_BYTES:
            raise ValueError(_TOO_LARGE)
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("expected a request to the registry, got CONNECT; the registry is no proxy")
        if n_hosts != 1 and (n_hosts > 1 or self.parser.get_http_version() != "1.0"):
            raise ValueError(f"expected one Host header, got {n_hosts}")
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise ValueError(f"expected at most {_MAX_PIPELINED} pipelined requests, got more")

    def _head_without_upgrade(self) -> bytes:
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def _refuse(self, why: str) -> None:
        """Close the connection. Answer 400 first, unless the client would take that for the answer to another request.

        No further byte of the client can be trusted to begin a request.
        """
        self._refusals.warning("refused %d malformed requests so far; the last one: %s", why)
        answered = self._answered
        is_answering = self.cycle is not None and not self.cycle.response_complete
        is_of_answered = self._begun is _Part.BODY and self.cycle is answered and not self.cycle.response_started
        if not is_answering or is_of_answered:
            response = problem_response(
                400, slug="bad-request", title="Bad Request", detail=why, headers={"Connection": "close"}
            )
            lines = [b"HTTP/1.1 400 Bad Request", *(b"%b: %b" % header for header in response.raw_headers)]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self._answer_no_more()
        self.transport.close()

    def _await_rest(self) -> None:
        """Start the timer of the part that the client must now complete, unless it runs already."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing() or self.flow.write_paused:
            part: _Part | None = _Part.ANSWER
        elif self.pipeline or (self._begun is _Part.HEAD and is_answering):
            # The transport reads no further request before this one is answered.
            part = None
        else:
            part = self._begun
        self._await(part)
        if part is None and not is_answering:
            # An idle connection keeps nothing of its last request in memory.
            self.cycle = self.scope = self.headers = self._answered = None  # type: ignore[assignment]
            self._idle.add(self)
        else:
            self._idle.discard(self)

    def _await(self, part: _Part | None) -> None:
        if part is self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._awaited = part
        if part is not None:
            self._timer = self.loop.call_later(self._limits_s[part], self._time_is_over)

    def _time_is_over(self) -> None:
        self._timer = None
        self._answer_no_more()
        self.transport.abort()

    def _answer_no_more(self) -> None:
        # uvicorn itself marks only the latest request. uvloop raises an error for a write after the end.
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()
