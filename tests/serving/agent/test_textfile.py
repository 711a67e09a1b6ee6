# SPDX-License-Identifier: MIT
"""The agent's figures for the node exporter, read by Prometheus' own parser"""

from __future__ import annotations

import io
import json
import random
import shutil
import stat
import subprocess
import threading
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from serving.agent import cli
from serving.agent.loop import Agent
from tests.serving.agent.fakes import FakeRegistry, FakeTree, log_to, settings_of, table
from tests.serving.agent.kernel_rows import row
from tests.serving.threads import beside

NOW_S = 1_772_366_400.0


def agent_of(folder: Path, tree: FakeTree, url: str, file: Path, log: io.StringIO) -> Agent:
    settings = settings_of(folder, url, textfile=file)
    return Agent(settings, tree=tree, log=log_to(log), boot_id="boot-1", rng=random.Random(1), now_s=lambda: NOW_S)


def figures(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The samples by name and by the values of their labels after those of algorithm and channel."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("cca"), labels.pop("channel")) == ("gr", "champion")
            name = sample.name.removeprefix("ccatune_agent_")
            found.setdefault(name, {})[tuple(labels.values())] = sample.value
    return found


def test_the_file_says_state_serials_contact_and_the_sums_of_the_flows_by_class(tmp_path, registry):
    tree, file, log = FakeTree(), tmp_path / "ccatune.prom", io.StringIO()
    registry.offer(table(1))
    agent_of(tmp_path, tree, registry.url, file, log).run_once()
    tree.rows = row(2) + row(3, state=1) + row(1, state=1, flows="followers") + row(4, delay_class=1, group="held_back")
    agent_of(tmp_path, tree, registry.url, file, log).run_once()
    found = figures(file.read_text(encoding="utf-8"))
    assert {state for state, value in found["state"].items() if value} == {("Unsigned",)}
    assert len(found["state"]) == 10
    assert found["error"] == {(): 0}
    assert found["offered_serial"] == found["effective_serial"] == {(): 1}
    assert found["last_contact_timestamp_seconds"] == {(): NOW_S}
    assert found["delay_samples_total"] == {("1", "ensemble", "0"): 600, ("1", "held_back", "1"): 400}
    assert found["delay_samples_within_target_total"] == {("1", "ensemble", "0"): 540, ("1", "held_back", "1"): 360}
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [path.name for path in tmp_path.iterdir() if path.name != "state"] == [file.name], (
        "no temporary file is left"
    )
    if shutil.which("promtool"):
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=file.read_bytes(), capture_output=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_registry_that_is_gone_is_an_error_and_leaves_the_time_of_the_last_contact_out(tmp_path):
    file = tmp_path / "ccatune.prom"
    agent_of(tmp_path, FakeTree(), "http://127.0.0.1:9", file, io.StringIO()).run_once()
    found = figures(file.read_text(encoding="utf-8"))
    assert {state for state, value in found["state"].items() if value} == {("Offline",)}
    assert found["error"] == {(): 1}
    assert "last_contact_timestamp_seconds" not in found


def test_the_file_follows_the_agent_and_goes_with_it(tmp_path: Path, registry: FakeRegistry) -> None:
    file = tmp_path / "ccatune.prom"
    registry.offer(table(1))
    agent = agent_of(tmp_path, FakeTree(), registry.url, file, io.StringIO())
    with beside(agent.run, stop=agent.stop):
        registry.wait_for_report(lambda report: report["effective_serial"] == 1)
        # The report is on its way before the file is written.
        pause = threading.Event()
        while figures(file.read_text(encoding="utf-8"))["effective_serial"] != {(): 1}:
            assert not pause.wait(0.02)
    assert not file.exists()


def test_a_file_that_cannot_be_written_is_logged_once_and_the_table_is_applied(tmp_path, registry):
    tree, log = FakeTree(), io.StringIO()
    registry.offer(table(1))
    agent = agent_of(tmp_path, tree, registry.url, tmp_path / "nowhere" / "ccatune.prom", log)
    reports, _ = agent.run_once()
    assert reports[0].effective_serial == 1
    agent.run_once()
    assert log.getvalue().count("textfile_failed") == 1


def test_the_log_as_json_has_the_time_in_each_line(tmp_path, registry, monkeypatch, capsys):
    registry.offer(table(1))
    words = ["--url", registry.url, "--cca", "gr", "--state-dir", str(tmp_path), "--log", "json", "--once"]
    monkeypatch.setattr(cli, "make_tree", lambda *_, **__: FakeTree())
    assert cli.run(words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines[0]["event"] == "started"
    assert all(line["time"].endswith("Z") for line in lines)
