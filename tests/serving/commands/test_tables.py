# SPDX-License-Identifier: MIT
"""Every table of every command at 80 columns, with values as long as they are in use

A row is one line of at most 80 characters, and shows every column of its heading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

import ccatune
from serving.database import AgentRow, AuditRow, TokenRow
from tests.serving.api import make_ensemble
from tests.serving.running import Running

WIDTH = 80
LONG = "web-frontend-17.eu-central-1.compute.example.com"
CHANNEL = "canary-europe-central-and-north-2026-q4"
ERROR = "registry https://registry.example: expected an answer within 10 s, got no whole one; the table stays in force"


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def require_table(output: str, headings: Sequence[str], *, rows: int, ends: Sequence[str] = ()) -> list[str]:
    """Check the lines from the heading on: their width, their number, and that each heading stands in it."""
    lines = output.splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []
    pattern = re.compile(r" .*?\b".join(map(re.escape, headings)) if len(headings) > 1 else headings[0])
    at = next(number for number, line in enumerate(lines) if pattern.search(line))
    found = lines[at + 1 : at + 1 + rows]
    assert len(found) == rows
    for line in found:
        for end in ends:
            assert end in line
    return found


@pytest.fixture
def command(api, capsys, monkeypatch) -> Iterator[Callable[..., str]]:
    """Runs a command of `ccatune` on a registry with long names; gives its output."""
    monkeypatch.setenv("CCATUNE_TOKEN", api.token)
    api.move(0, channel=CHANNEL)
    api.move(
        1, channel=CHANNEL, hold_back_permille=125, urgent=True, note="p95 rose on 3g in the north, see the report"
    )
    api.request("POST", f"/v1/channels/gr/{CHANNEL}/rollback", json={"note": "the same again, in the night"})
    report = {"cca": "gr", "channel": CHANNEL, "state": "Incompatible", "error": ERROR, "offered_serial": 4321,
              "effective_serial": 4320, "effective_digest": make_ensemble(0).digest}  # fmt: skip
    for number in range(2):
        api.request("POST", f"/v1/agents/{LONG}-{number}/reports", json=report)
    api.new_token("read", "report", "publish", "move", principal=LONG, ccas=["gr", "roccet", "rtcp_bbr3"],
                  channels=[CHANNEL], agent_id=LONG, lifetime_s=9_000_000)  # fmt: skip
    now = datetime.now(UTC)
    with api.database.write() as session:
        session.execute(update(AgentRow).values(received_at=now - timedelta(days=29), id_shared_at=now))
        session.execute(update(AuditRow).values(actor=f"operator-{LONG}"))
        session.execute(update(TokenRow).values(last_used_at=now))
    with Running(api.database, open=False) as registry:

        def run(*words: object) -> str:
            assert ccatune.run([*map(str, words), "--url", registry.url]) == 0
            return capsys.readouterr().out

        yield run


@pytest.mark.service
@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_tables_of_the_registry(command) -> None:
    digest = make_ensemble(0).digest.removeprefix("sha256:")
    agents = ["agent", "channel", "state", "serial", "table", "report", "problem"]
    require_table(
        command("agents", "list"), agents, rows=2, ends=["Incompatible", "4320 of", digest[:8], "silent 29 d"]
    )
    moved = ["serial", "table", "held back", "urgent", "moved (UTC)"]
    require_table(command("channels", "list"), ["channel", *moved], rows=1, ends=[digest[:12], "yes"])
    history = command("channels", "history", "gr", CHANNEL)
    rows = require_table(history, [*moved, "as of", "note"], rows=3)
    assert "12.5 %" in rows[1]
    shown = command("channels", "show", "gr", CHANNEL)
    assert max(map(len, shown.splitlines())) <= WIDTH
    facts = [name for name in moved if name != "held back"]  # none is
    assert [line.split("  ")[0] for line in shown.splitlines()] == ["registry", "channel", *facts, "as of", "note"]
    ensembles = ["table", "algorithm", "states", "classes", "bytes", "published (UTC)"]
    require_table(command("ensembles", "list"), ensembles, rows=2)
    tokens = ["id", "of", "kind", "valid", "used (UTC)", "scopes", "only for"]
    require_table(command("tokens", "list"), tokens, rows=2, ends=["20"])
    audit = ["when (UTC)", "by", "action", "target", "details"]
    rows = require_table(command("audit"), audit, rows=8)
    assert any("roll-back" in row and "serial 3" in row for row in rows)
    assert any(row.split()[3:5] == ["create", "token"] for row in rows)
    command("people", "add", f"alice.{LONG}", "--role", "operator")
    people = ["name", "role", "log-in", "last log-in (UTC)", "made (UTC)"]
    require_table(command("people", "list"), people, rows=1, ends=["20"])


def test_tables_of_root_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("alice", "bob"):
        assert ccatune.run(["keys", "new", str(tmp_path / f"{name}.pem")]) == 0
    made = ["root", "make", "--registry-name", "r" * 63, "--root", str(tmp_path / "alice.pem.pub")]
    capsys.readouterr()
    assert ccatune.run([*made, "--publisher", str(tmp_path / "bob.pem.pub"), "-o", str(tmp_path / "root.json")]) == 0
    require_table(capsys.readouterr().out, ["role", "key", "public key", "signed"], rows=2)


def test_tables_of_simulate_and_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / f"{LONG}-{CHANNEL}.down"
    trace.write_text("".join(f"{ms}\n" for ms in range(1, 40_000, 7)), encoding="ascii")
    scenario = tmp_path / "many.yaml"
    flows = "".join(f"  - {{cca: {cca}}}\n" for cca in ("rtcp_bbr3", "gr", "cubic"))
    scenario.write_text(
        f"name: {CHANNEL}\nduration_s: 20\nlink:\n  trace: {trace.name}\n  rtt_ms: 400\n  buffer_pkts: 3000\n"
        f"flows:\n{flows}", encoding="utf-8"
    )  # fmt: skip
    assert ccatune.run(["simulate", str(scenario)]) == 0
    flow = ["flow", "Mbit/s", "goodput", "p50", "p95", "p99", "retrans.", "RTOs", "epochs"]
    require_table(capsys.readouterr().out, flow, rows=3, ends=["%"])
    assert ccatune.run(["traces", "check", str(trace)]) == 0
    recording = ["recording", "files", "seconds", "epochs", "Mbit/s", "CoV", "gaps", "longest"]
    require_table(capsys.readouterr().out, recording, rows=1, ends=["…", " s"])


def test_tables_of_elements_bench_and_pantheon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from emulation.cli import bench_command, simulate_command
    from emulation.pantheon import report_command

    delay = SimpleNamespace(summary_ms=lambda: dict.fromkeys(("p50", "p95", "p99"), 12_345.6), total=1)
    element = SimpleNamespace(
        name=f"policer {LONG}", entered=123_456_789, dropped=12_345_678, inside=12_345, delay=delay
    )
    simulate_command.print_elements(SimpleNamespace(elements=[element] * 2, acks=element))
    headings = ["element", "entered", "dropped", "share", "inside", "p50", "p95", "p99"]
    require_table(capsys.readouterr().out, headings, rows=3, ends=["10.00%", "12345.6  12345.6  12345.6"])

    named = bench_command.Figure("million packets/s, one thread: GR at 1,000 flows over a veth", "speed", least=4.0)
    monkeypatch.setattr(bench_command, "describe_machine", lambda: {"load_average": 0, "usable_cpus": 2})
    missing = bench_command.Figure("missing", "bpf", requires="tcp_bbr in this kernel")
    medians = {"a": 123_456.78}
    bench_command.print_figures({"a": named, "b": missing}, medians, {"a": [1e5, 2e5]}, [])
    require_table(capsys.readouterr().out, ["figure", "median", "least", "most", "target"], rows=2)

    monkeypatch.setattr(report_command, "_cell", lambda *_arguments, **_options: "12345.67 ± 1234.56")
    scheme = SimpleNamespace(scheme=LONG, valid_runs=[1] * 100, runs=[1] * 100, summary=SimpleNamespace(
        throughput_mbps=None, delay_p95_ms=None, loss=None))  # fmt: skip
    report_command._print_schemes(SimpleNamespace(name=LONG * 3, capacity_mbps=12.0, schemes=[scheme]))
    require_table(capsys.readouterr().out, ["scheme", "runs", "Mbit/s", "delay ms", "loss %"], rows=1, ends=["100/100"])
    assert ccatune.run(["pantheon", "schemes"]) == 0
    listed = capsys.readouterr().out.split(":")[0]
    require_table(listed, ["scheme", "name", "listens", "missing packages"], rows=5)


def score(**changes: Any) -> dict[str, Any]:
    """The figures of a scheme."""
    return {"throughput_mbps": 123.456, "utilization": 1.0, "p95_queueing_delay_ms": 12_345.6, "meets": False,
            "p95_queueing_delay_ms_interval": [11_111.1, 13_333.3], "target_ms": 200.0, "delay_ms": 12_345.6,
            "fairness": 0.999, "median_queueing_delay_ms": 12_345.6, "loss": 0.5, "flows": 100, "flows_within": 1.0,
            "flows_utilization": 1.0, "flows_p95_ms": [12_345.6],
            **changes}  # fmt: skip


def test_tables_of_reports_on_levels_and_schemes() -> None:
    from training.reports.gain import gain_lines, level_lines
    from training.validation.against import against_lines

    schemes = {name: score() for name in ("ensemble", "single", "default")}
    by_single = {**schemes, "levels": 40, "single_meets": False, "target_ms": 200.0, "share_of_capacity": 1.0}
    level = {"target_ms": 200.0, "level": 40, "windows": 12_345, **schemes}
    figures = {"levels": [level], "by_single": [by_single], "targets": [score()], "single": [score()],
               "default": [score()], "levels_met": [{"levels": 40, "ensemble": 40, "single": 40, "default": 40}],
               "pieces": 1, "piece_s": 30, "runs": 3, "schemes": [{"scheme": "rtcp_bbr3", **score()}]}  # fmt: skip
    headings = ["target", "level", "windows", "p95", "interval", "used", "p95", "used", "p95", "used"]
    lines = "\n".join(level_lines(figures))
    require_table(lines, headings, rows=1, ends=["12345.6! 11111-13333 100.0"])
    require_table(
        "\n".join(gain_lines(figures)),
        ["target", "parameters", "flows met", "of link", "p95 delay", "of link", "Mbit/s"],
        rows=3,
    )
    require_table("\n".join(against_lines(figures)), ["scheme", "Mbit/s", "used", "median", "loss"], rows=1)


def test_tables_of_reports_on_states() -> None:
    from training.reports.arguments import requirement_lines
    from training.reports.states import policed_lines, state_lines
    from training.reports.surrogate import SCHEMES

    found = {"class": 2, "states": 1600, "holds": False, **{name: {"met": 1600, "cost": 12.3456} for name in SCHEMES}}
    lines = "\n".join(requirement_lines([found], SCHEMES))
    require_table(lines, ["class", "scheme", "met", "states", "cost"], rows=5, ends=["1600", "12.3456"])

    delay = {"delay_ms": 12_345.6, "utilization": 1.0, "meets": False}
    goodput = {"goodput_share": 1.0, "retransmitted_share": 0.1234, "meets": False}
    for goal, one in (("throughput", delay), ("retransmissions", goodput)):
        row = {"goal": goal, "target_ms": 200, "throughput_mbps": [0.125, 0.25], "min_rtt_ms": [100.0, 200.0],
               "cases": 12_345, "holds": False, **dict.fromkeys(("learned", "default", "single"), one)}  # fmt: skip
        lines = "\n".join(state_lines([row]))
        require_table(lines, ["Mbit/s, ms", "cases"], rows=1)
        assert "short" in lines

    shares = {"retransmitted": dict.fromkeys(("learned", "paper", "single"), 1.234), "fewer": 0.123,
              "fewer_interval": 0.012, "goodput": {"over_paper": 1.0001, "over_paper_interval": 0.0123},
              "holds": False}  # fmt: skip
    state = {"rtt_ms": [100, 200], "limit_mbps": [0.125, 0.25], **shares,
             "values": {"reduction_permille": 900, "probe_every_rounds": 1000, "probe_gain_permille": 1250},
             "lifted": {"learned": 1.0, "learned_interval": 0.05, "paper": 0.95}}  # fmt: skip
    clients = {"rtt_ms": [100, 200], "clients": 12_345, "false": dict.fromkeys(("learned", "paper", "single"), 123),
               "share": 0.1, "share_interval": 0.01, "holds": False}  # fmt: skip
    lines = "\n".join(policed_lines({"states": [state], "all": shares, "unlimited": [clients]}))
    require_table(lines, ["RTT ms", "limit Mbit/s", "theta", "eta", "gamma", "learned", "paper", "single"], rows=2)
    assert [line for line in lines.splitlines() if len(line) > 110] == []
    assert len(re.findall(r"short$", lines, re.MULTILINE)) == 3


def test_table_of_verified_points() -> None:
    from training.reports.verify import table

    side = {"throughput_mbps": 123.456, "delay_ms": 12_345.6}
    point = {"simulator": side, "kernel": side, "meets": False, "from": ["neighbour of the best"],
             "runs": [{"kernel": side, "late_share": 0.123}]}  # fmt: skip
    row = {"state": [12, 34], "class": 0, "chosen": 0, "finalists": [point] * 2, "outcome": "confirmed",
           "kernel_over_simulator": dict.fromkeys(("throughput_mbps", "delay_ms"), (1.01, 0.98, 1.04))}  # fmt: skip
    lines = table([row], ["at most 200 ms of p95"], {"kernel": "6.12.0", "runner": "mahimahi"}, cca="gr")
    text = "\n".join(lines)
    require_table(text, ["state", "target", "point from", "Mbit/s", "ms", "late"], rows=2, ends=["12345.6!  12.3 %"])
    require_table(text, ["outcome", "throughput", "delay"], rows=1, ends=["1.01 (0.98-1.04)  1.01 (0.98-1.04)"])
