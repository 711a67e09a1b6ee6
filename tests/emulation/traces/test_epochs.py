# SPDX-License-Identifier: MIT
"""Where epochs begin and end, and which are dropped."""

import numpy as np
import pytest

from emulation.traces import Recording, Trace, TraceError, epochs


def recording(duration_ms: int, *, silent: range = range(0)) -> Recording:
    """One opportunity a millisecond (12 Mbit/s) but in `silent`."""
    times_ms = np.array([time for time in range(duration_ms) if time not in silent], dtype=np.uint32)
    return Recording("r", "set", Trace("r", times_ms, duration_ms), gaps=(), files=("r",))


def test_epochs_cover_a_recording_from_its_start() -> None:
    cut = epochs(recording(60_000))
    assert [(epoch.index, epoch.start_ms, epoch.end_ms) for epoch in cut] == [(0, 0, 30_000), (1, 30_000, 60_000)]
    assert cut[1].mean_rate_mbps == pytest.approx(12.0)
    assert cut[1].name == "r#1"
    assert cut[1].trace.period_ms == 30_000


@pytest.mark.parametrize(("duration_ms", "n_epochs"), [(14_999, 0), (15_000, 1), (44_999, 1), (45_000, 2)])
def test_a_tail_counts_from_half_an_epoch_on(duration_ms: int, n_epochs: int) -> None:
    cut = epochs(recording(duration_ms))
    assert len(cut) == n_epochs
    assert all(epoch.end_ms <= duration_ms for epoch in cut)


def test_a_silent_epoch_is_dropped_and_keeps_its_index() -> None:
    assert [epoch.index for epoch in epochs(recording(90_000, silent=range(30_000, 60_000)))] == [0, 2]


def test_other_lengths_are_taken() -> None:
    assert len(epochs(recording(1000), epoch_s=0.1)) == 10
    with pytest.raises(TraceError, match=r"at least 0\.001 s"):
        epochs(recording(1000), epoch_s=0)
