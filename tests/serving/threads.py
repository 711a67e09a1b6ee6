# SPDX-License-Identifier: MIT
"""Threads of tests: calls at the same time, and what runs beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from socketserver import TCPServer
from typing import TypeVar

Result = TypeVar("Result")

END_S = 60.0


def at_once(calls: Iterable[Callable[[], Result]]) -> list[Result]:
    """Run each call in a thread of its own, all at the same time; returns their results, or raises the first error."""
    whole = list(calls)
    with ThreadPoolExecutor(len(whole)) as pool:
        return [call.result() for call in [pool.submit(call) for call in whole]]


@contextmanager
def beside(run: Callable[[], object], *, stop: Callable[[], object]) -> Iterator[None]:
    """Run this in a thread until the block ends."""
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(END_S)
        assert not thread.is_alive()


@contextmanager
def served(server: TCPServer) -> Iterator[str]:
    """Run a server until the block ends, and close it; yields its URL."""
    with server, beside(partial(server.serve_forever, 0.02), stop=server.shutdown):
        yield f"http://127.0.0.1:{server.server_address[1]}"
