# SPDX-License-Identifier: MIT
"""How late timers are during a run, and processors that are kept awake."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from emulation.mahimahi import _late, machine, processors
from emulation.mahimahi.machine import LATE_MOST, Machine, Watch, is_disturbed
from emulation.mahimahi.processors import kept_awake


def open_files() -> set[str]:
    return {str(path) for path in Path("/proc/self/fd").iterdir()}


def test_late_timers_are_counted_over_the_runs_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.time, "monotonic", lambda: 100.0)
    watch = Watch()
    assert watch.during_the_last(10.0).late_share is None
    watch._lines += [(89.5, 500, 400), (90.5, 500, 10), (91.5, 500, 0)]
    assert watch.during_the_last(10.0).late_share == 0.01


@pytest.mark.parametrize("behind_ns", [0, 1_000_000, 1_000_001, 2_500_000, 3_000_000, 3_000_001, 130_000_000])
def test_timers_of_a_pause_are_all_late_but_those_of_its_last_ms(behind_ns: int) -> None:
    due_ns = 5 * _late.EVERY_NS
    lateness_ns = list(range(behind_ns, -1, -_late.EVERY_NS))
    late = [ns for ns in lateness_ns if ns > _late.LATE_NS]
    assert _late.answered(due_ns, due_ns + behind_ns) == (len(lateness_ns), len(late))


def test_a_watch_of_timers_has_a_program_that_ends_with_it() -> None:
    with Watch(timers=True) as watch:
        program = watch._program
        assert program is not None
        _until(lambda: bool(watch._lines))
        seen = watch.during_the_last(60.0)
    assert seen.late_share is not None
    assert program.returncode is not None
    with Watch() as watch:
        assert watch._program is None


def test_a_pause_of_the_machine_is_many_late_timers_and_not_one() -> None:
    with Watch(timers=True) as watch:
        program = watch._program
        assert program is not None
        _until(lambda: bool(watch._lines))
        before = len(watch._lines)
        program.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        program.send_signal(signal.SIGCONT)
        # In one line: those of the pause are told of at once.
        _until(lambda: any(late > 0.25e9 / _late.EVERY_NS for _, _, late in watch._lines[before:]))
    assert all(late <= count for _, count, late in watch._lines)


def _until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_run_is_looked_at_from_before_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.time, "monotonic", lambda: 100.0)
    watch = Watch()
    # It lasted 10 s and ended some seconds ago; its first was the disturbed one.
    watch._lines += [(60.0, 500, 500), (86.5, 500, 50), (90.5, 500, 0)]
    assert watch.during_a_run(10.0).late_share == 0.05


def test_a_run_is_disturbed_by_late_timers_alone() -> None:
    def seen(late_share: float | None) -> Machine:
        return Machine(late_share=late_share)

    assert is_disturbed(seen(LATE_MOST * 1.01))
    assert not is_disturbed(seen(LATE_MOST))
    assert not is_disturbed(seen(None))
    assert not is_disturbed(None)


def test_processors_are_kept_awake_by_holding_a_latency_of_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "cpu_dma_latency"
    device.touch()
    monkeypatch.setattr(processors, "LATENCY", device)
    before = open_files()
    with kept_awake() as awake:
        assert awake
        assert device.read_bytes() == bytes(4)
    assert open_files() == before
    monkeypatch.setattr(processors, "LATENCY", tmp_path / "none")
    with kept_awake() as awake:
        assert not awake
