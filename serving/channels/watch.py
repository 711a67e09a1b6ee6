# SPDX-License-Identifier: MIT
"""Wakes long polls when a channel is moved.

A move by this process wakes the channel's long polls immediately. Moves by other processes on the same database are
detected by one query for all channels every `recheck_ms`, while at least one poll waits. With the default of 500 ms,
any number of long polls costs two queries per second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

from sqlalchemy.exc import SQLAlchemyError

__all__ = ["ChannelKey", "ChannelWatch"]

ChannelKey = tuple[str, str]

_log = logging.getLogger(__name__)


class ChannelWatch:
    """The waiting long polls of one event loop. `announce` and `close` may be called from any thread."""

    def __init__(self, read_heads: Callable[[], Mapping[ChannelKey, int]], *, recheck_ms: int) -> None:
        self._read_heads = read_heads
        self._recheck_s = recheck_ms / 1000
        self._lock = threading.Lock()
        self._serials: dict[ChannelKey, int] = {}
        # For each channel, the event of each waiting poll and the serial that the poll already knows.
        self._waiting: dict[ChannelKey, dict[asyncio.Event, int]] = defaultdict(dict)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._checker: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the server is stopping, so that no poll may wait any longer."""
        return self._closed

    async def wait(self, key: ChannelKey, *, serial: int, timeout_s: float) -> bool:
        """Wait until the channel's serial exceeds `serial`. Return False at the timeout or if the watch is closed."""
        event = asyncio.Event()
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._closed:
                return False
            if self._serials.get(key, 0) > serial:
                return True
            self._waiting[key][event] = serial
        self._start_checking()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), timeout_s)
        finally:
            self._leave(key, event)
        with self._lock:
            return self._serials.get(key, 0) > serial

    def announce(self, key: ChannelKey, *, serial: int) -> None:
        """Record the channel's current serial, and wake the polls that know an older one. Older serials are ignored."""
        with self._lock:
            if serial <= self._serials.get(key, 0):
                return
            self._serials[key] = serial
            events = [event for event, known in self._waiting.get(key, {}).items() if known < serial]
        self._wake(events)

    def close(self) -> None:
        """Wake all polls, so that they are answered, and let no further poll wait."""
        with self._lock:
            self._closed = True
            events = [event for waiting in self._waiting.values() for event in waiting]
        self._wake(events)

    def _wake(self, events: list[asyncio.Event]) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        for event in events:
            loop.call_soon_threadsafe(event.set)

    def _leave(self, key: ChannelKey, event: asyncio.Event) -> None:
        with self._lock:
            del self._waiting[key][event]
            if not self._waiting[key]:
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
            except SQLAlchemyError as error:
                # The polls keep waiting: a short failure of the database must not make all agents reconnect at once.
                _log.warning("held polls: the database did not answer: %s", error)
                continue
            for key, serial in heads.items():
                self.announce(key, serial=serial)
