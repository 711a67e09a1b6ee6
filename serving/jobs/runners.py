# SPDX-License-Identifier: MIT
"""The runners that lately asked this process for a job or sent a heartbeat to it, and their path models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from serving.errors import PathsNotFoundError

# Names are chosen by runners. Those that were seen the longest ago are forgotten first.
MOST_RUNNERS: Final = 1000


class RunnersSeen:
    """The runners that this process has seen. within_s: the time for which it remembers one."""

    def __init__(self, *, within_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._within_s = within_s
        self._monotonic = monotonic
        self._seen: dict[str, tuple[float, Sequence[str] | None]] = {}

    def see(self, runner: str, *, paths: Sequence[str] | None = None) -> None:
        """Note a request of a runner. paths: as it says; None if it does not. This belongs to the event loop."""
        _, said = self._seen.pop(runner, (0.0, None))
        self._seen[runner] = (self._monotonic(), said if paths is None else paths)
        if len(self._seen) > MOST_RUNNERS:
            del self._seen[next(iter(self._seen))]

    @property
    def number(self) -> int:
        """How many were seen lately. Any thread may ask."""
        return len(self._lately())

    def require_paths(self, name: str | None) -> None:
        """Raise PathsNotFoundError where no runner has this path model: some were seen, and each says what it has."""
        if name is None:
            return
        said = self._lately()
        known = {one for paths in said for one in paths or ()}
        if said and None not in said and name not in known:
            raise PathsNotFoundError(
                f"paths: expected one of {', '.join(sorted(known)) or 'none'}, which the runners have in configs/paths,"
                f" got {name}; correct it, or put {name}.yaml there"
            )

    def _lately(self) -> list[Sequence[str] | None]:
        since_s = self._monotonic() - self._within_s
        return [paths for seen_s, paths in list(self._seen.values()) if seen_s >= since_s]
