# SPDX-License-Identifier: MIT
"""What the accelerator gains on a made link, and what it costs beside a forward."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from emulation.mahimahi.namespace import shells
from experiments.accelerator import command
from experiments.accelerator.cost import FORWARD, SPLICING, run


def test_the_command_compares_a_link_without_and_with_a_proxy(tmp_path: Path) -> None:
    """6 Mbit/s: with 100 ms a CUBIC server fills the queue of 1000 packets, 2 s, and so does CUBIC in the proxy."""
    (tmp_path / "made.down").write_text("".join(f"{at_ms}\n" for at_ms in range(2, 40_001, 2)))
    options = ["--only", "simulator", "--duration", "40", "--traces", str(tmp_path), "--json"]
    done = CliRunner().invoke(command, options, catch_exceptions=False)
    rows = {row["between"]: row for row in json.loads(done.stdout)["gain"]}
    assert list(rows) == ["none", "proxy, cubic", "proxy, gr"]
    delays_ms = [row["queueing_delay_p95_ms"] for row in rows.values()]
    assert 1500 < delays_ms[0] < 2050
    assert delays_ms[1] == pytest.approx(delays_ms[0], rel=0.1)
    assert delays_ms[2] < 150
    assert [row["utilization"] > 0.95 for row in rows.values()] == [True, True, True]
    assert rows["proxy, gr"]["buffered_p50_bytes"] == pytest.approx(4 * 2**20, rel=0.05)


@pytest.mark.mahimahi
def test_a_proxy_costs_more_than_a_forward() -> None:
    if shutil.which("haproxy", path=shells.PATH) is None:
        pytest.skip("not installed: haproxy")
    (forward_s, forward_gbps), (proxy_s, proxy_gbps) = (run(it, "64 KB", seconds=1) for it in (FORWARD, SPLICING))
    assert 0 < forward_s < proxy_s < 2
    assert min(forward_gbps, proxy_gbps) > 0
