# SPDX-License-Identifier: MIT
"""Short videos of the campaign: what is run, and how a viewer's waits are counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.campaign import Results, Store
from experiments.rtcp.cells import Cell
from experiments.rtcp.settings import load_settings
from experiments.rtcp.shorts import cases, session, shorts_table, stalls

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "reports" / "rtcp.yaml"
SETTINGS = load_settings(CONFIG).model_copy(update={"seeds": 5})


def test_a_viewer_waits_for_a_video_that_arrives_after_the_last_one_was_watched() -> None:
    """Begun at 2 s, due at 12 and 22 s; 25 s is 3 s late, so that the next is due at 35 s."""
    assert stalls([2.0, 1.0, 25.0, 35.0, 46.0], 10.0) == [0.0, 3.0, 0.0, 1.0]


def test_each_connection_carries_every_third_video_of_the_same_sizes() -> None:
    scenario, other = session(SETTINGS, "op2", "rtcp_bbr", 1), session(SETTINGS, "op1", "cubic", 1)
    videos = [flow.video for flow in scenario.flows]
    assert videos == [flow.video for flow in other.flows]
    assert [(video.chunks, video.chunk_s, video.buffer_s) for video in videos if video] == [(20, 30.0, 60.0)] * 3
    quotients = np.array([video.sizes_bytes for video in videos if video]) / (np.array([300, 450, 600, 750]) * 2500)
    assert 0.8 <= quotients.min() < 0.85
    assert 1.15 < quotients.max() <= 1.2
    assert len(np.unique(quotients[:, :, 0])) == 60


def test_a_session_has_what_the_viewer_got() -> None:
    part = Cell("shorts", "op3", "bbr", "videos")
    (case,) = (case for case in cases(SETTINGS) if case.key == part)
    found = Store(threads=2).run([case])
    columns = found[part]
    assert ((columns["mean_kbps"] > 300) & (columns["mean_kbps"] < 750)).all()
    assert ((columns["stalled"] > 0) == (columns["stalls_per_ms"] > 0)).all()
    # Events are whole numbers in 600 s.
    assert columns["stalls_per_ms"] * 600_000 == pytest.approx(np.rint(columns["stalls_per_ms"] * 600_000))
    others = {case.key: columns for case in cases(SETTINGS)}
    rows = shorts_table(Results(SETTINGS, others))
    assert len(rows) == 2 + 18
    assert rows[2].count("(") == 4
    assert "op2 | BBRv1" in rows[10]
    assert (rows[10].count("("), rows[14].count("(")) == (3, 0)
