# SPDX-License-Identifier: MIT
"""The demo as a person runs it, on made links: every step, its figures and what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulation import mahimahi
from kmod import bpf_host

ROOT = Path(__file__).resolve().parents[2]
CLI = [sys.executable, str(ROOT / "ccatune.py")]


@pytest.fixture(scope="module")
def made_links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    for seed in (1, 2):
        subprocess.run(
            [*CLI, "traces", "make", ROOT / "configs/traces/cellular-3g.json", "--duration", "300", "--seed", str(seed),
             "-o", folder / f"made-{seed}.down"],
            check=True, capture_output=True,
        )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def finished(made_links: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    out = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [*CLI, "demo", "--traces", made_links, "--out", out, "--no-keep", "--json"],
        check=True, capture_output=True, text=True, timeout=600, env={**os.environ, "CCATUNE_BPF": "/nowhere"},
    )  # fmt: skip
    figures: dict[str, object] = json.loads(done.stdout)
    return out, figures


def test_demo_prints_a_figure_for_every_target_and_scheme(finished: tuple[Path, dict[str, object]]) -> None:
    _, figures = finished
    for scheme in ("targets", "single", "default"):
        rows = figures[scheme]
        assert isinstance(rows, list)
        assert [row["target_ms"] for row in rows] == [50.0, 100.0, 200.0]
        assert all(0 < row["utilization"] <= 1 and row["p95_queueing_delay_ms"] > 0 for row in rows)


def test_demo_draws_a_picture(finished: tuple[Path, dict[str, object]]) -> None:
    out, _ = finished
    assert (out / "gain.png").read_bytes().startswith(b"\x89PNG")


def test_demo_leaves_the_published_table_in_the_stand_in(finished: tuple[Path, dict[str, object]]) -> None:
    out, _ = finished
    published = json.loads((out / "gr.json").read_text(encoding="utf-8"))
    state = json.loads((out / "proc" / "gr.json").read_text(encoding="utf-8"))
    assert f"digest {published['digest']}\n" in state["ensemble"]
    assert state["rejected_writes"] == 0


def test_demo_says_why_it_uses_the_stand_in(finished: tuple[Path, dict[str, object]]) -> None:
    _, figures = finished
    reason = mahimahi.lacking() or bpf_host.lacking() or "ccatune-bpf is not built; install clang-19 and libbpf-dev"
    assert f"The agent writes to a stand-in, not to this machine's kernel: {reason}" in str(figures["applied"])
    assert figures["flow"] is None


def test_demo_says_which_command_failed(tmp_path: Path) -> None:
    empty = tmp_path / "empty.down"
    empty.touch()
    done = subprocess.run(
        [*CLI, "demo", "--traces", empty, "--out", tmp_path / "out", "--no-keep"],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert "empty.down" in done.stderr
    assert "`ccatune train`" in done.stderr
    assert "Traceback" not in done.stderr
