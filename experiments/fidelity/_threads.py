# SPDX-License-Identifier: MIT
"""Runs work that waits for other processes in parallel threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

__all__ = ["side_by_side"]

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(work: Callable[[T], R], items: Sequence[T], *, most: int) -> Iterator[R]:
    """Yield the result of each item as soon as it exists. At most `most` items are worked on at a time.

    An exception of `work` is raised here. After an exception, or if the caller stops early (also by Ctrl-C), no further
    item is started. The threads are daemons, so they do not keep the process alive. Child processes with a parent-death
    signal are killed when the process ends.
    """
    stopped = threading.Event()
    waiting: SimpleQueue[T] = SimpleQueue()
    over: SimpleQueue[tuple[R | None, BaseException | None]] = SimpleQueue()
    for item in items:
        waiting.put(item)

    def worker() -> None:
        while not stopped.is_set():
            try:
                item = waiting.get_nowait()
            except Empty:
                return
            try:
                over.put((work(item), None))
            except BaseException as error:
                stopped.set()
                over.put((None, error))

    for _ in range(min(most, len(items))):
        threading.Thread(target=worker, daemon=True).start()
    try:
        for _ in items:
            result, error = over.get()
            if error is not None:
                raise error
            yield result  # type: ignore[misc]  # a result where there is no error
    finally:
        stopped.set()
