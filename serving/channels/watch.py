# SPDX-License-Identifier: MIT
"""Wakes long polls when a channel is moved.

A move by this process wakes the channel's long polls within `spread_ms`. Moves by other processes on the same database
are detected by one check of all channels every `recheck_ms`, while at least one poll waits. With the default of
500 ms, any number of long polls costs two such checks per second.

The polls of one channel are woken in groups, one every `_STEP_S`. Each woken agent sends a report and its next poll.
The groups spread these requests as well, and the event loop answers other requests between two groups.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import ceil

from sqlalchemy.exc import SQLAlchemyError

from serving.errors import DatabaseError

ChannelKey = tuple[str, str]
# The watch follows the number of root documents and signatures under this key, which no channel has.
SIGNED_ROWS: ChannelKey = ("", "")

_STEP_S = 0.02
# A group is at least this large, so that few polls are all woken at once.
_SMALLEST_GROUP = 50

_log = logging.getLogger(__name__)


class Poll:
    """A waiting long poll. `leave` ends it early, for example because its client has disconnected."""

    __slots__ = ("_woken", "serial")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, serial: int) -> None:
        self.serial = serial
        self._woken: asyncio.Future[None] = loop.create_future()

    def leave(self) -> None:
        """End the wait. Call this in the event loop."""
        if not self._woken.done():
            self._woken.set_result(None)

    async def wait(self) -> None:
        """Wait until `leave` is called."""
        await self._woken


class ChannelWatch:
    """The waiting long polls of one event loop. `announce` and `close` may be called from any thread."""

    def __init__(
        self, read_heads: Callable[[], Mapping[ChannelKey, int]], *, recheck_ms: int, spread_ms: int = 0
    ) -> None:
        self._read_heads = read_heads
        self._recheck_s = recheck_ms / 1000
        self._n_steps = max(1, round(spread_ms / 1000 / _STEP_S))
        self._lock = threading.Lock()
        self._serials: dict[ChannelKey, int] = {}
        self._waiting: dict[ChannelKey, set[Poll]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._checker: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def n_waiting(self) -> int:
        """The number of polls that wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def serial_of(self, key: ChannelKey) -> int:
        """Return the highest serial of the channel that was announced, or 0."""
        return self._serials.get(key, 0)

    async def wait(
        self, key: ChannelKey, *, serial: int, timeout_s: float, on_start: Callable[[Poll], None] | None = None
    ) -> bool:
        """Wait until the channel's serial exceeds `serial`. Return False at the timeout or if the watch is closed.

        on_start: receives the poll before the wait begins.
        """
        loop = asyncio.get_running_loop()
        poll = Poll(loop, serial=serial)
        with self._lock:
            self._loop = loop
            if self._closed:
                return False
            if self._serials.get(key, 0) > serial:
                return True
            self._waiting[key].add(poll)
        self._start_checking()
        timer = loop.call_later(timeout_s, poll.leave)
        try:
            if on_start is not None:
                on_start(poll)
            await poll.wait()
        finally:
            timer.cancel()
            self._remove(key, poll)
        return self.serial_of(key) > serial

    def announce(self, key: ChannelKey, *, serial: int) -> None:
        """Record the channel's current serial, and wake the polls that know an older one. Older serials are ignored."""
        with self._lock:
            if serial <= self._serials.get(key, 0):
                return
            self._serials[key] = serial
        self._call(self._wake, key, serial)

    def close(self) -> None:
        """Wake all polls, so that they are answered, and let no further poll wait."""
        with self._lock:
            self._closed = True
            polls = [poll for waiting in self._waiting.values() for poll in waiting]
        self._call(_leave_all, polls)

    def _call(self, step: Callable[..., object], *arguments: object) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(step, *arguments)

    def _wake(self, key: ChannelKey, serial: int) -> None:
        with self._lock:
            polls = [poll for poll in self._waiting.get(key, ()) if poll.serial < serial]
        task = asyncio.get_running_loop().create_task(self._wake_in_groups(polls))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake_in_groups(self, polls: list[Poll]) -> None:
        group = max(_SMALLEST_GROUP, ceil(len(polls) / self._n_steps))
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        for number, first in enumerate(range(0, len(polls), group)):
            if number > 0:
                # A late group still waits for one turn of the event loop, which answers other requests.
                await asyncio.sleep(max(0.0, start_s + number * _STEP_S - loop.time()))
            _leave_all(polls[first : first + group])

    def _remove(self, key: ChannelKey, poll: Poll) -> None:
        with self._lock:
            waiting = self._waiting[key]
            waiting.discard(poll)
            if not waiting:
                del self._waiting[key]

    def _start_checking(self) -> None:
        if self._checker is None or self._checker.done():
            self._checker = asyncio.get_running_loop().create_task(self._check_while_waited_for())

    async def _check_while_waited_for(self) -> None:
        while True:
            await asyncio.sleep(self._recheck_s)
            if self._closed or not self._waiting:
                return
            try:
                heads = await asyncio.to_thread(self._read_heads)
            except (SQLAlchemyError, DatabaseError) as error:
                # The polls keep waiting: a short failure of the database must not make all agents reconnect at once.
                _log.warning("held polls: the database did not answer: %s", error)
                continue
            for key, serial in heads.items():
                self.announce(key, serial=serial)


def _leave_all(polls: Iterable[Poll]) -> None:
    for poll in polls:
        poll.leave()
