# SPDX-License-Identifier: MIT
"""How far a study is, and about how long it still takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from emulation.printing import as_written

if TYPE_CHECKING:
    from training.searches.search import Found

__all__ = ["Progress", "Silent", "Terminal"]


class Progress(Protocol):
    """Is notified of how far a study is, from several threads."""

    def phase(self, text: str, *, total: float) -> None:
        """A phase begins, with its amount of work."""

    def advance(self, amount: float) -> None:
        """So much of it is done."""

    def finished(self, name: str, found: Sequence[Found]) -> None:
        """A task is finished, with its best points by class."""


class Silent:
    """Shows nothing."""

    def phase(self, text: str, *, total: float) -> None:
        """Nothing."""

    def advance(self, amount: float) -> None:
        """Nothing."""

    def finished(self, name: str, found: Sequence[Found]) -> None:
        """Nothing."""


class Terminal:
    """Bars on stderr, so that figures alone stand on stdout; nothing when quiet.

    Keeps how long each phase took, for what is printed at the end.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=as_written(stderr=True, quiet=quiet),
            expand=True,
        )
        self._task: TaskID | None = None
        self._names: list[str] = []
        self._began = time.monotonic()
        self.seconds: dict[str, float] = {}

    def __enter__(self) -> Terminal:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_phase(whole=kind is None)
        self._bars.stop()

    def _end_phase(self, *, whole: bool) -> None:
        if self._task is None:
            return
        self.seconds[self._names[-1]] = time.monotonic() - self._began
        if whole:  # points that stopped early leave less to do than was planned
            self._bars.update(self._task, completed=self._bars.tasks[-1].total, note="")
        self._bars.stop_task(self._task)

    def phase(self, text: str, *, total: float) -> None:
        """Begin a bar; the one before is complete."""
        self._end_phase(whole=True)
        self._began = time.monotonic()
        self._names.append(text)
        self._task = self._bars.add_task(text, total=max(total, 1e-9), note="")

    def advance(self, amount: float) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bars.advance(self._task, amount)

    def finished(self, name: str, found: Sequence[Found]) -> None:
        """Say which part was finished last."""
        met = sum(f.score.feasible for f in found)
        if self._task is not None:
            self._bars.update(self._task, note=f"{name}: {met} of {len(found)} targets met")
