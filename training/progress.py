# SPDX-License-Identifier: MIT
"""How far a study is, and about how long it still takes.

The remaining time is (amount - done) / rate + after_s. The amount is the work of all phases that are expected, rate is
their done work over the time since it was expected, and after_s is the time that other phases take at least. Work is
counted at the end of each step, so the rate is the one at the last step, and the estimate counts down from there.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from emulation.printing import as_written

if TYPE_CHECKING:
    from rich.console import Console  # noqa: TID251 (a type)

    from training.searches.search import Found


class Progress:
    """Is notified of how far a study is, from several threads, and shows nothing of it."""

    def expect(self, amount: float, *, after_s: float = 0.0) -> None:
        """The phases that follow have so much work together, and others after them take at least `after_s`."""

    def phase(self, text: str, *, total: float) -> None:
        """A phase begins, with its amount of work."""

    def advance(self, amount: float) -> None:
        """So much of it is done."""

    def finished(self, name: str, found: Sequence[Found]) -> None:
        """A task is finished, with its best points by class."""

    def resumed(self, name: str, found: Sequence[Found]) -> None:
        """A task was finished by an earlier run of the study."""


class Rate:
    """The remaining time of a known amount of work. began_s: a reading of the clock, as all other times."""

    def __init__(self, amount: float, *, began_s: float, after_s: float = 0.0) -> None:
        self._amount = max(amount, 1e-9)
        self._after_s = after_s
        self._began_s = self._last_s = began_s
        self._done = 0.0

    @property
    def is_over(self) -> bool:
        """All of it is done."""
        return self._done >= self._amount * (1 - 1e-9)

    @property
    def share(self) -> float:
        """The done share of it."""
        return min(self._done / self._amount, 1.0)

    def advance(self, amount: float, *, now_s: float) -> None:
        """So much more is done."""
        self._done += amount
        self._last_s = now_s

    def left_s(self, now_s: float) -> float | None:
        """The remaining time; None while nothing is done."""
        if not self._done:
            return None
        left_s = (self._amount - self._done) * (self._last_s - self._began_s) / self._done
        return max(left_s - (now_s - self._last_s), 0.0) + self._after_s


class LeftColumn(ProgressColumn):
    """The remaining time, of bars that run."""

    max_refresh = 0.5

    def __init__(self, left_s: Callable[[], float | None]) -> None:
        super().__init__(Column(no_wrap=True, min_width=len("0:00:00 left")))
        self._left_s = left_s

    def render(self, task: Task) -> Text:
        """E.g. `0:04:10 left`."""
        if task.stop_time is not None:
            return Text("")
        left_s = self._left_s()
        return Text(f"{'-:--:--' if left_s is None else datetime.timedelta(seconds=round(left_s))} left")


class Terminal(Progress):
    """Bars on stderr, so that figures alone stand on stdout; nothing when quiet. They fit 80 columns.

    Keeps how long each phase took, for what is printed at the end. clock: in s.
    """

    def __init__(
        self, *, quiet: bool = False, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        fixed = Column(no_wrap=True, min_width=len("100 %"))
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}", table_column=Column(no_wrap=True, width=25, overflow="ellipsis")),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %", table_column=fixed),
            TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=len("0:00:00"))),
            LeftColumn(self.left_s),
            console=console or as_written(stderr=True, quiet=quiet),
            expand=True,
        )
        self._clock = clock
        self._task: TaskID | None = None
        self._name = ""
        self._expected: Rate | None = None
        self._phase = Rate(0.0, began_s=clock())
        self._began_s = clock()
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
        self.seconds[self._name] = self._clock() - self._began_s
        task = self._bars.tasks[-1]
        if whole:  # searches that end early leave less to do than was planned
            self.advance((task.total or 0.0) - task.completed)
        self._bars.stop_task(self._task)

    def expect(self, amount: float, *, after_s: float = 0.0) -> None:
        """Estimate the remaining time of all phases that follow together."""
        self._end_phase(whole=True)
        self._task = None
        self._expected = Rate(amount, began_s=self._clock(), after_s=after_s)

    def phase(self, text: str, *, total: float) -> None:
        """Begin a bar; the one before is complete."""
        self._end_phase(whole=True)
        self._name, self._began_s = text, self._clock()
        self._phase = Rate(total, began_s=self._began_s)
        self._task = self._bars.add_task(text, total=max(total, 1e-9))

    def advance(self, amount: float) -> None:
        """Move the bar."""
        if self._task is None:
            return
        self._bars.advance(self._task, amount)
        for rate in (self._expected, self._phase):
            if rate is not None:
                rate.advance(amount, now_s=self._clock())

    def left_s(self) -> float | None:
        """The remaining time of all expected phases, or else of this one; None while nothing is done."""
        rate = self._phase if self._expected is None or self._expected.is_over else self._expected
        return rate.left_s(self._clock())

    def share(self) -> float:
        """The done share of all expected phases; 0 before there are any."""
        return 0.0 if self._expected is None else self._expected.share
