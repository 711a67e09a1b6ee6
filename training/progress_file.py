# SPDX-License-Identifier: MIT
"""Writes how far a study is into a file, for programs that wait for it.

    {"phase": "searching: single", "share": 0.41, "left_s": 62.0, "searches": 1, "points": 3, "points_meeting": 2,
     "best_of": "single", "best": [{"meets": true, "metrics": {"p95_queueing_delay_ms": 48.1}}, ...]}

share and left_s are of this run alone: an estimate for all searches that were missing when it began. The other figures
count the searches of earlier runs, too. `best` has the best point of each delay class of the search `best_of`, which
finished last. The file is replaced whole, at most every `WRITE_S`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kmod.ensemble import write_atomically
from training.progress import Terminal

if TYPE_CHECKING:
    from training.searches.search import Found

WRITE_S = 1.0
DIGITS = 6


class FileProgress(Terminal):
    """The bars, and the same in a file."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(**options)
        self._path = path
        self._lock = threading.Lock()
        self._written_s = -float("inf")
        self._text, self._searches, self._points, self._meeting = "", 0, 0, 0
        self._best_of: str | None = None
        self._best: list[dict[str, Any]] = []

    def phase(self, text: str, *, total: float) -> None:
        """Begin a bar, and write."""
        super().phase(text, total=total)
        self._text = text
        self._write(at_once=True)

    def advance(self, amount: float) -> None:
        """Move the bar, and write now and then."""
        super().advance(amount)
        self._write()

    def finished(self, name: str, found: Sequence[Found]) -> None:
        """Count a search, and write."""
        with self._lock:
            self._searches += 1
            self._points += len(found)
            self._meeting += sum(one.score.feasible for one in found)
            self._best_of = name
            self._best = [
                {"meets": one.score.feasible, "metrics": {k: round(v, DIGITS) for k, v in one.score.metrics.items()}}
                for one in found
            ]
        self._write(at_once=True)

    def resumed(self, name: str, found: Sequence[Found]) -> None:
        """Count a search of an earlier run."""
        self.finished(name, found)

    def _write(self, *, at_once: bool = False) -> None:
        with self._lock:
            now_s = self._clock()
            if not at_once and now_s - self._written_s < WRITE_S:
                return
            self._written_s = now_s
            progress = {
                "phase": self._text,
                "share": self.share(),
                "left_s": self.left_s(),
                "searches": self._searches,
                "points": self._points,
                "points_meeting": self._meeting,
                "best_of": self._best_of,
                "best": self._best,
            }
            write_atomically(self._path, json.dumps(progress).encode("ascii"))
