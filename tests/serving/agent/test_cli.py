# SPDX-License-Identifier: MIT
"""`ccatune-agent`: what it prints, what it writes, and how it exits."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from serving.agent import cli as agent_cli
from serving.agent import commands
from serving.agent.cli import run
from serving.agent.kernel import Tree
from serving.agent.log import EventLog, is_journal
from serving.agent.loop import Agent
from serving.agent.settings import AgentSettings
from serving.agent.store import LAST_KNOWN_GOOD, STATE, Store
from tests.serving.agent.fakes import FakeRegistry, FakeTree, table

ONE, TWO = table(1), table(2)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(agent_cli, "DEFAULT_CONFIG", tmp_path / "no-agent.toml")
    for name in [name for name in os.environ if name.startswith("CCATUNE_AGENT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> FakeTree:
    """The tree that `run` uses instead of /proc, and the settings it was made for."""
    made = FakeTree()
    monkeypatch.setattr(agent_cli, "_tree_of", lambda *_arguments, **_options: made)
    return made


def options(folder: Path, registry: FakeRegistry) -> list[str]:
    return ["--url", registry.url, "--cca", "gr", "--state-dir", str(folder / "state"), "--agent-id", "host"]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("tree")
def test_once_prints_the_state_and_exits_0_in_sync(
    tmp_path: Path, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(ONE)
    assert run([*options(tmp_path, registry), "--once"]) == 0
    out = capsys.readouterr()
    assert out.out == f"gr: Unsigned; offered serial 1, in force serial 1 ({ONE.ensemble.digest})\n"
    assert "event=applied cca=gr" in out.err


@pytest.mark.usefixtures("tree")
def test_once_exits_1_when_not_in_sync_and_speaks_json(
    tmp_path: Path, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*options(tmp_path, registry), "--once", "--json"]) == 1
    out = capsys.readouterr()
    (report,) = json.loads(out.out)
    assert report["state"] == "NoChannel"
    assert "404" in report["error"]
    assert all(json.loads(line)["event"] for line in out.err.splitlines())


def test_dry_run_says_what_and_why_and_writes_nothing_at_all(
    tmp_path: Path, registry: FakeRegistry, tree: FakeTree, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(ONE)
    assert run([*options(tmp_path, registry), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"would do: apply local/champion serial 1 ({ONE.ensemble.digest[:19]})" in out
    assert "why: the registry offers a table and none is in force" in out
    assert tree.text == ""
    assert tree.accepted == []
    assert registry.reports == []
    assert list(tmp_path.iterdir()) == []


def test_dry_run_leaves_the_state_folder_as_it_was(
    tmp_path: Path, registry: FakeRegistry, tree: FakeTree, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(ONE)
    run([*options(tmp_path, registry), "--once"])
    (tmp_path / "state" / "gr" / ".pending.x.tmp").write_bytes(b"half")
    before = files_of(tmp_path)
    tree.write("gr", "ensemble", table(50).text)
    registry.offer(TWO)
    capsys.readouterr()
    assert run([*options(tmp_path, registry), "--dry-run", "--json"]) == 1
    (plan,) = json.loads(capsys.readouterr().out)
    assert (plan["would"], plan["blocked"]) == ("nothing", "Degraded")
    assert "an operator changed the table" in plan["why"]
    assert files_of(tmp_path) == before
    assert tree.text == table(50).text


@pytest.mark.usefixtures("tree")
def test_dry_run_names_a_damaged_file_and_leaves_it(
    tmp_path: Path, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(ONE)
    run([*options(tmp_path, registry), "--once"])
    (tmp_path / "state" / "gr" / LAST_KNOWN_GOOD).write_bytes(b"half")
    assert run([*options(tmp_path, registry), "--dry-run"]) == 0
    assert "is damaged and is not used" in capsys.readouterr().out
    assert (tmp_path / "state" / "gr" / LAST_KNOWN_GOOD).read_bytes() == b"half"


@pytest.mark.usefixtures("tree")
def test_an_urgent_table_is_named_as_urgent_before_and_after_it_is_applied(
    tmp_path: Path, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(table(2, urgent=True))
    assert run([*options(tmp_path, registry), "--dry-run"]) == 0
    assert f"would do: apply local/champion serial 2 ({TWO.ensemble.digest[:19]}) as urgent;" in capsys.readouterr().out
    run([*options(tmp_path, registry), "--once"])
    assert f"in force serial 2 urgent ({TWO.ensemble.digest})" in capsys.readouterr().out
    run(["status", "--state-dir", str(tmp_path / "state")])
    assert f"in force serial 2 urgent ({TWO.ensemble.digest})" in capsys.readouterr().out
    run(["status", "--state-dir", str(tmp_path / "state"), "--json"])
    assert json.loads(capsys.readouterr().out)["states"][0]["effective_urgent"] is True


@pytest.mark.usefixtures("tree")
def test_an_algorithm_that_is_no_longer_kept_is_neither_shown_nor_resumed_and_keeps_its_tables(
    tmp_path: Path, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(ONE)
    run([*options(tmp_path, registry), "--cca", "roccet", "--once"])
    kept = tmp_path / "state" / "roccet" / LAST_KNOWN_GOOD
    kept.write_bytes(b"its table")
    assert run([*options(tmp_path, registry), "--once"]) == 0
    capsys.readouterr()
    with Store(tmp_path / "state").acquire():
        assert run(["status", "--state-dir", str(tmp_path / "state")]) == 0
    assert run(["resume", "--state-dir", str(tmp_path / "state")]) == 0
    assert "roccet" not in capsys.readouterr().out
    assert kept.read_bytes() == b"its table"


@pytest.mark.usefixtures("tree")
def test_status_exits_0_where_an_agent_runs_and_is_in_sync(
    tmp_path: Path, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(ONE)
    run([*options(tmp_path, registry), "--once"])
    capsys.readouterr()
    store = Store(tmp_path / "state")
    with store.acquire():
        assert run(["--state-dir", str(tmp_path / "state"), "status", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["running"] is True
        assert [state["state"] for state in found["states"]] == ["Unsigned"]
        (store.root / "gr" / STATE).write_bytes(b"half")
        assert found["why"] == []
        assert run(["status", "--state-dir", str(tmp_path / "state")]) == 1
    assert "is damaged" in capsys.readouterr().out


def test_status_says_each_cause_of_exit_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state_dir = str(tmp_path / "state")
    assert run(["status", "--state-dir", state_dir, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["why"] == ["not running", "no algorithm"]
    store = Store(tmp_path / "state")
    with store.acquire():
        store.save("gr", STATE, {"cca": "gr", "state": "Rejected", "confirmed_every_s": 1e-9})
        assert run(["status", "--state-dir", state_dir, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["why"] == ["gr Rejected", "gr stale"]


def test_second_signal_to_stop_leaves_the_first_ones_deadline() -> None:
    class Stopping:
        def stop(self) -> None:
            left_s.append(signal.getitimer(signal.ITIMER_REAL)[0])

    numbers = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before, left_s = [signal.getsignal(number) for number in numbers], list[float]()
    try:
        agent_cli._install_signals(Stopping())  # type: ignore[arg-type]  # it needs no more of an agent
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    assert 0 < left_s[1] < left_s[0] - 0.05


def test_fault_of_the_agent_has_a_status_that_no_answer_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Any) -> Tree:
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "Store", fail)
    monkeypatch.setattr(sys, "argv", ["ccatune-agent", "status"])
    with pytest.raises(SystemExit) as ended:
        agent_cli.main()
    assert ended.value.code == 70
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_resume_of_what_the_folder_does_not_know_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["resume", "--state-dir", str(tmp_path), "--cca", "gr"]) == 2
    assert re.fullmatch(
        r"ccatune-agent: state folder .* expected gr in it, it holds none; .*\n", capsys.readouterr().err
    )


def test_mistakes_are_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in [
        ([], "url: expected http"),
        (["--url", "http://r"], "cca: expected at least one algorithm"),
        (["--url", "http://r", "--cca", "nosuch"], "cca: expected one of gr, cubic"),
        (["--url", "http://r", "--cca", "gr", "--via", "xdp"], "'auto', 'proc', 'bpf'"),
        (["--url", "http://r", "--cca", "gr", "--interval", "0"], "interval_s: expected 0.05 to 3600 s"),
        (["--config", "/nonexistent.toml"], "there is none; set --config"),
        (["--no-such"], "No such option"),
    ]:
        assert run(arguments) == 2
        error = capsys.readouterr().err
        assert error.startswith("ccatune-agent: ")
        assert words in error
        assert error.count("\n") == 1


def test_unit_is_printed_as_it_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["unit"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "CapabilityBoundingSet=CAP_NET_ADMIN",
        "Before=network-pre.target",
        "Type=notify",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "StateDirectory=ccatune-agent",
    ):
        assert line in lines
    assert not [line for line in lines if line.startswith("ExecStop")]


def test_unit_for_bpf_is_the_same_unit_with_more_rights(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["unit"]) == 0
    unit = capsys.readouterr().out
    assert run(["unit", "--bpf"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(unit)
    added = printed.removeprefix(unit).splitlines()
    for line in ("[Service]", "CapabilityBoundingSet=CAP_BPF", "SystemCallFilter=bpf", "ReadWritePaths=/sys/fs/bpf"):
        assert line in added
        assert line == "[Service]" or line not in unit.splitlines()


def chosen(arguments: list[str]) -> AgentSettings:
    """The settings that the command line, environment and file add up to."""
    found: list[AgentSettings] = []

    def note(settings: AgentSettings, **_options: object) -> Agent:
        found.append(settings)
        raise click.Abort

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent_cli, "Agent", note)
        with pytest.raises(click.Abort):
            agent_cli.agent.main(arguments, standalone_mode=False)
    return found[0]


def test_option_wins_over_environment_over_file_over_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        'url = "http://file"\ncca = "gr"\nchannel = "file"\nagent_id = "file"\nwait_s = 7\nlabels.site = "fra1"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("CCATUNE_AGENT_CONFIG", str(path))
    monkeypatch.setenv("CCATUNE_REGISTRY_URL", "http://environment")
    monkeypatch.setenv("CCATUNE_AGENT_CHANNEL", "environment")
    monkeypatch.setenv("CCATUNE_AGENT_AGENT_ID", "environment")
    settings = chosen(["--agent-id", "option"])
    assert (settings.url, settings.ccas, settings.wait_s) == ("http://environment", ("gr",), 7)
    assert (settings.channel, settings.agent_id) == ("environment", "option")
    assert (settings.timeout_s, settings.labels) == (10, {"site": "fra1"})
    monkeypatch.setenv("CCATUNE_AGENT_LABELS", "site=ams1 rack=a3")
    assert chosen([]).labels == {"site": "ams1", "rack": "a3"}
    assert chosen(["--label", "site=lon1"]).labels == {"site": "lon1"}
    assert (settings.via, chosen(["--via", "proc"]).via) == ("auto", "proc")
    path.write_text('url = "http://file"\ncca = "gr"\nvia = "bpf"\n', encoding="utf-8")
    assert chosen([]).via == "bpf"


def test_several_algorithms_come_from_options_environment_or_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('cca = ["gr", "roccet"]\n', encoding="utf-8")
    assert chosen(["--url", "http://r", "--config", str(path)]).ccas == ("gr", "roccet")
    assert chosen(["--url", "http://r", "--cca", "gr", "--cca", "rtcp_bbr"]).ccas == ("gr", "rtcp_bbr")
    monkeypatch.setenv("CCATUNE_AGENT_CCA", "roccet gr")
    assert chosen(["--url", "http://r"]).ccas == ("roccet", "gr")


def test_help_version_and_a_stand_in_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-h"]) == 0
    shown = capsys.readouterr().out
    assert "--stand-in" in shown
    assert "ccatune " not in shown
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ccatune-agent, version 0.")
    monkeypatch.setitem(sys.modules, "emulation.standin", None)
    assert run(["--url", "http://r", "--cca", "gr", "--stand-in", "x"]) == 2
    assert "stand_in: expected the module emulation.standin, which this installation" in capsys.readouterr().err


def test_messages_of_the_agent_name_no_command_that_its_package_lacks() -> None:
    folder = Path(agent_cli.__file__).parent
    named = {
        found
        for path in folder.iterdir()
        if path.suffix in {".py", ".service"}
        for found in re.findall(r"`ccatune [a-z][^`]*`", path.read_text(encoding="utf-8"))
    }
    assert named == set()


def test_lines_of_the_log_have_times_except_in_the_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = io.StringIO()
    EventLog(stream=line, has_times=True, now_s=lambda: 1_772_366_400.5).event("started")
    assert line.getvalue() == "time=2026-03-01T12:00:00.500Z event=started\n"
    with (tmp_path / "log").open("w") as stream:
        found = os.fstat(stream.fileno())
        assert not is_journal(stream)
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        assert is_journal(stream)


@pytest.mark.usefixtures("tree")
def test_status_of_a_running_agent_that_confirms_nothing_is_stale_and_exits_1(
    tmp_path: Path, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(ONE)
    run([*options(tmp_path, registry), "--once"])
    store, path = Store(tmp_path / "state"), tmp_path / "state" / "gr" / STATE
    with store.acquire():
        for mtime_s, words in (
            (time.time() - 3600, r"; stale, 36\d\d s old; is the agent stopped, or the disk full\?"),
            (time.time() + 3600, r"; stale, of unknown age: was the clock set back\?"),
        ):
            os.utime(path, (mtime_s, mtime_s))
            capsys.readouterr()
            assert run(["status", "--state-dir", str(store.root)]) == 1
            assert re.search(words, capsys.readouterr().out)
        run(["status", "--state-dir", str(store.root), "--json"])
        (state,) = json.loads(capsys.readouterr().out)["states"]
        assert (state["age_s"], state["stale"]) == (None, True)
        store.confirm("gr", STATE)
        assert run(["status", "--state-dir", str(store.root)]) == 0
        assert re.search(r"; \d+ s old\n", capsys.readouterr().out)


def test_serial_that_was_replayed_needs_forget_and_resume(
    tmp_path: Path, registry: FakeRegistry, tree: FakeTree, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(TWO)
    assert run([*options(tmp_path, registry), "--once"]) == 0
    registry.offer(ONE)
    assert run([*options(tmp_path, registry), "--dry-run"]) == 1
    assert "got 1, which is older" in capsys.readouterr().out
    assert run([*options(tmp_path, registry), "--once"]) == 1
    assert (registry.reports[-1]["state"], tree.text) == ("Rejected", TWO.text)
    for command in ("forget", "resume"):
        assert run([command, "--state-dir", str(tmp_path / "state"), "--cca", "gr"]) == 0
    assert run([*options(tmp_path, registry), "--dry-run"]) == 0
    run([*options(tmp_path, registry), "--once"])
    run(["resume", "--state-dir", str(tmp_path / "state")])
    assert run([*options(tmp_path, registry), "--once"]) == 0
    assert tree.text == ONE.text


@pytest.mark.usefixtures("tree")
def test_agent_without_a_given_id_reports_under_one_that_stays(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.offer(ONE)
    for _ in range(2):
        run([*options(tmp_path, registry)[:-2], "--once"])
    paths = {report["path"] for report in registry.reports}
    assert len(paths) == 1
    assert re.fullmatch(r"/v1/agents/.*-[0-9a-f]{16}/reports", paths.pop())


@pytest.mark.usefixtures("tree")
def test_token_comes_from_the_file_or_from_systemd(
    tmp_path: Path, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.offer(ONE)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    for name, text in (("ccatune-token", "of-systemd"), ("token", "of-the-file")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o400)
    assert run([*options(tmp_path, registry), "--once"]) == 0
    config = tmp_path / "agent.toml"
    config.write_text(f'token_file = "{tmp_path}/token"\ninsecure_http = true\n', encoding="utf-8")
    assert run([*options(tmp_path, registry), "--config", str(config), "--once"]) == 0
    assert registry.shown == ["Bearer of-systemd"] * 3 + ["Bearer of-the-file"] * 3
    out = capsys.readouterr()
    assert "of-" not in out.out + out.err
