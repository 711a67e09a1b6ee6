# SPDX-License-Identifier: MIT
"""Thread pools for database work. Reads and writes have a pool each, so that waiting writes delay no read.

The queue of a pool is bounded in length and in time. Work that has waited too long is refused instead of run, because
its client has given up or is about to. Refused work is answered 503 with Retry-After.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from serving.errors import BusyError

__all__ = ["WorkPool"]

Result = TypeVar("Result")


class WorkPool:
    """Runs functions in threads of its own. `run` belongs to the event loop."""

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        max_queued: int,
        max_queue_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._clock = clock
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"ccatune-{name}")
        self._max_pending = threads + max_queued
        self._max_queue_s = max_queue_s
        self._n_pending = 0
        self.last_success_s = time.monotonic()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run the function in a thread, and return its result.

        Raises:
            BusyError: the queue is full, or the function has waited too long.
        """
        if self._n_pending >= self._max_pending:
            raise BusyError(f"expected room for another of the {self._name}, {self._n_pending} wait; try again")
        queued_s = self._clock()

        def timed() -> Result:
            if self._clock() - queued_s > self._max_queue_s:
                raise BusyError(f"expected the {self._name} to start in {self._max_queue_s:g} s, it waited; try again")
            return work()

        self._n_pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._executor, timed)
        future.add_done_callback(self._ended)
        return await future

    def close(self) -> None:
        """Wait until the work that runs has ended. Work in the queue is dropped."""
        self._executor.shutdown(cancel_futures=True)

    def _ended(self, future: asyncio.Future[Result]) -> None:
        self._n_pending -= 1
        if not future.cancelled() and future.exception() is None:
            self.last_success_s = time.monotonic()
