# SPDX-License-Identifier: MIT
"""The agent as a process: its start, its signals and its end. The tree is the stand-in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulation.standin import StandInTree
from serving.agent.store import LAST_KNOWN_GOOD, Store
from tests.serving.agent.fakes import FakeRegistry, table, wait_until

ONE, TWO = table(1), table(2)
WAIT_S = 60.0
NOBODY = "http://127.0.0.1:9"


@contextmanager
def agent(folder: Path, url: str, *, program: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run `ccatune-agent`; ended by its own id. program: a ccatune-bpf; None: the stand-in."""
    command = [sys.executable, "-m", "serving.agent", "--url", url, "--cca", "gr"]
    tree = ["--via", "bpf"] if program else ["--stand-in", str(folder / "tree")]
    with (folder / "agent.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--state-dir", str(folder / "state"), *tree, "--interval", "0.05", "--report-spread", "0"],
            stdout=log,
            stderr=log,
            env={**os.environ, "CCATUNE_BPF": str(program or "")},
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(WAIT_S)


def in_force(folder: Path) -> str:
    return StandInTree(folder / "tree").read("gr", "ensemble")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_agent_ends_on_a_signal_with_status_0_and_reverts_nothing(
    tmp_path: Path, registry: FakeRegistry, number: int
) -> None:
    registry.offer(ONE)
    with agent(tmp_path, registry.url) as process:
        registry.wait_for_report(lambda report: report["state"] == "Unsigned", timeout_s=WAIT_S)
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0
    assert in_force(tmp_path) == ONE.text
    assert "event=stopped" in (tmp_path / "agent.log").read_text()


def test_sigterm_ends_an_agent_that_waits_for_ccatune_bpf_and_ends_that_too(tmp_path: Path) -> None:
    program, started = tmp_path / "ccatune-bpf", tmp_path / "started"
    program.write_text(f"#!/bin/sh\necho $$ > {started}.part && mv {started}.part {started}\nexec sleep 600\n")
    program.chmod(0o755)
    with agent(tmp_path, NOBODY, program=program) as process:
        wait_until(started.exists)
        process.terminate()
        assert process.wait(WAIT_S) == 0
    assert not Path(f"/proc/{started.read_text().strip()}").exists()


def test_sighup_gives_the_table_back_to_the_agent(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.offer(ONE)
    with agent(tmp_path, registry.url) as process:
        registry.wait_for_report(lambda report: report["state"] == "Unsigned", timeout_s=WAIT_S)
        StandInTree(tmp_path / "tree").write("gr", "ensemble", table(70).text)
        registry.wait_for_report(lambda report: report["state"] == "Degraded", timeout_s=WAIT_S)
        process.send_signal(signal.SIGHUP)
        registry.wait_for_report(lambda report: report["state"] == "Unsigned", timeout_s=WAIT_S)
    assert in_force(tmp_path) == ONE.text


def test_agent_starts_with_the_last_known_good_when_nobody_answers(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    with store.acquire():
        store.save("gr", LAST_KNOWN_GOOD, TWO.to_json())
    with agent(tmp_path, NOBODY):
        wait_until(lambda: in_force(tmp_path) == TWO.text)
