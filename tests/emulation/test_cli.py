# SPDX-License-Identifier: MIT
"""`ccatune simulate` and `ccatune bench` as a person runs them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

import ccatune
from emulation.run.qos import QoS
from emulation.run.simulator import simulate
from emulation.scenario.files import load_scenario
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from tests.emulation.tables import ensemble_of

Capture = pytest.CaptureFixture[str]


def run_json(capsys: Capture, *arguments: str) -> dict[str, object]:
    """The JSON that a command line prints; it must succeed."""
    status = ccatune.run([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    result = json.loads(out)
    assert isinstance(result, dict)
    return result


def refused(capsys: Capture, *arguments: str) -> str:
    """The last line of what a refused command line says; it must be one line behind the usage."""
    status = ccatune.run(["simulate", *arguments])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    assert [line for line in err.splitlines() if not line.startswith("Usage: ")] == err.splitlines()[-1:]
    assert err.splitlines()[-1].startswith("ccatune: ")
    return err.splitlines()[-1]


@pytest.mark.parametrize("command", ["simulate", "emulate", "bench"])
def test_help_has_an_example(capsys: Capture, command: str) -> None:
    assert ccatune.run([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Example" in out
    assert f"  ccatune {command} " in out or f"  ccatune {command}\n" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--kernel 6.1", "--kernel: expected --runner vm beside it"),
        ("--plot it.jpg", "expected a picture ending in .png"),
        ("--duration 5 --warmup 6", "expected warmup_s below duration_s"),
        ("--duration 90000", "reno-20mbps: duration_s: expected less than or equal to 86400, got 90000.0"),
        ("--duration nan", "'--duration': expected a finite number, got nan"),
        ("--warmup inf", "'--warmup': expected a finite number, got inf"),
        ("--out nowhere/x.json", "nowhere/x.json: cannot be written (No such file or directory)"),
    ],
)
def test_a_real_run_that_cannot_be_is_refused_before_it_starts(
    capsys: Capture, repository: Path, options: str, words: str
) -> None:
    file = repository / "configs" / "scenarios" / "reno-20mbps.yaml"
    assert ccatune.run(["emulate", str(file), *options.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_options_make_the_scenario_that_they_name(capsys: Capture) -> None:
    of_link = "--rate-mbps 12 --rtt-ms 40 --buffer 90000bytes --loss 0.01"
    of_flows = "--cca gr --param delay_threshold_us=20000 --flows 2 --duration 7 --warmup 2 --seed 5"
    got = run_json(capsys, "simulate", *of_link.split(), *of_flows.split())
    link = LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=None, buffer_bytes=90_000, loss=0.01)
    flow = FlowSpec(params={"delay_threshold_us": 20_000})
    scenario = Scenario(name="12 Mbit/s", link=link, flows=(flow, flow), duration_s=7, warmup_s=2, seed=5)
    assert got == json.loads(json.dumps(simulate(scenario).summary()))


def test_options_lie_over_the_file(capsys: Capture, repository: Path) -> None:
    file = repository / "configs" / "scenarios" / "lossy.yaml"
    got = run_json(capsys, "simulate", str(file), "--loss", "0", "--duration", "9")
    scenario = load_scenario(file)
    link = scenario.link.model_copy(update={"loss": 0.0})
    assert got == simulate(scenario.model_copy(update={"link": link, "duration_s": 9.0})).summary()
    assert got["lost_at_random"] == 0


def test_trace_on_the_command_line_counts_from_where_one_stands(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    (tmp_path / "a.down").write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    monkeypatch.chdir(tmp_path)
    file = repository / "configs" / "scenarios" / "two-flows.yaml"
    got = run_json(capsys, "simulate", str(file), "--traces", "a.down", "--start-s", "0.5")
    assert got["capacity_mbps"] == pytest.approx(12, rel=1e-3)
    assert len(got["flows"]) == 2  # type: ignore[arg-type]


# A style of rich, a formula of matplotlib, a colour of the terminal, and a byte that is not UTF-8.
ODD_NAME = os.fsdecode(b"[bold]a:smile:$b_$\x1b[31m\xff.down")
SHOWN_NAME = r"[bold]a:smile:$b_$\x1b[31m\udcff.down"


@pytest.fixture
def even_trace(tmp_path: Path) -> Path:
    """A trace of 12 Mbit/s, in a file with an odd name."""
    path = tmp_path / ODD_NAME
    path.write_text("".join(f"{ms}\n" for ms in range(1, 61_001)))
    return path


def test_shipped_scenarios_are_run(capsys: Capture, repository: Path) -> None:
    for file in sorted((repository / "configs" / "scenarios").glob("*.yaml")):
        words = ["--duration", "0.5", "--warmup", "0"]
        if any(flow.stop_s or flow.after is not None for flow in load_scenario(file).flows):
            words = words[2:]
        assert run_json(capsys, "simulate", str(file), *words)["scenario"] == file.stem


@pytest.mark.parametrize(
    "link", ["steps: [{at_s: 0, rate_mbps: 3}]", "trace: a.down, recording: a, start_ms: 9", "rate_mbps: 3"]
)
def test_an_option_for_the_link_replaces_whichever_the_file_has(
    capsys: Capture, tmp_path: Path, even_trace: Path, link: str
) -> None:
    (tmp_path / "a.down").write_text("1\n2\n40\n")
    file = tmp_path / "s.yaml"
    file.write_text(f"link: {{{link}}}\nduration_s: 2\n")
    got = run_json(capsys, "simulate", str(file), "--rate-mbps", "12")
    assert got["capacity_mbps"] == pytest.approx(12)
    got = run_json(capsys, "simulate", str(file), "--traces", str(even_trace))
    assert got["capacity_mbps"] == pytest.approx(12, rel=1e-2)


def test_parameters_lie_over_those_of_the_file(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 4}\nflows: [{params: {delay_threshold_us: 9000}}, {params: }]\n")
    got = run_json(capsys, "simulate", str(file), "--duration", "2", "--param", "delay_threshold_us=20000")
    flow = FlowSpec(params={"delay_threshold_us": 20_000})
    scenario = Scenario(name="4 Mbit/s", link=LinkSpec(rate_mbps=4), flows=(flow, flow), duration_s=2)
    assert got == json.loads(json.dumps(simulate(scenario).summary()))


def test_parameters_that_are_no_mapping_are_refused_with_their_place(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 4}\nflows: [{params: [1]}]\n")
    assert refused(capsys, str(file)).endswith("s.yaml: flows.0.params: expected a mapping, got [1]")


def test_traces_name_their_suffixes_and_the_option_for_one_of_several(capsys: Capture, tmp_path: Path) -> None:
    for name in ("a.down", "b.down"):
        (tmp_path / name).write_text("1\n")
    assert "name one with --recording among" in refused(capsys, "--traces", str(tmp_path))
    assert ccatune.run(["simulate", "--help"]) == 0
    assert ".down, .up, .trace, .txt, .tar.xz" in " ".join(capsys.readouterr().out.split())


def test_names_are_printed_and_drawn_as_they_are_written(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, even_trace: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # nothing is cut
    picture, model = tmp_path / "$_$.svg", tmp_path / "model.json"
    for words in (
        ["simulate", "--traces", str(even_trace), "--duration", "2", "--plot", str(picture)],
        ["traces", "show", str(even_trace), "--plot", str(picture)],
        ["traces", "check", str(even_trace)],
        ["traces", "fit", str(even_trace), "-o", str(model)],
    ):
        assert ccatune.run(words) == 0
        printed = "".join(capsys.readouterr())
        assert SHOWN_NAME in printed.replace("\n", "")  # a title is wrapped at 80 columns
        assert "\x1b" not in printed
        if picture.exists():
            assert SHOWN_NAME in picture.read_text()
            picture.unlink()
    assert ccatune.run(["traces", "make", str(model), "--duration", "1", "-o", f"{even_trace}.down"]) == 0
    assert ccatune.run(["simulate", f"{even_trace}.yaml"]) == 2
    assert f"{SHOWN_NAME}.yaml: cannot be read" in capsys.readouterr().err
    file = tmp_path / "s.yaml"
    file.write_text('name: "drive [wifi] 3 [/nosuch]"\nlink: {rate_mbps: 4}\n')
    assert ccatune.run(["simulate", str(file), "--duration", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[0].strip() == "drive [wifi] 3 [/nosuch]"


@pytest.fixture
def on_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """`emulate` in a test that needs no real link."""

    def emulate_many(scenarios: Sequence[Scenario], **_options: object) -> list[QoS]:
        return [simulate(scenario) for scenario in scenarios]

    monkeypatch.setattr("emulation.mahimahi.runner.emulate_many", emulate_many)


@pytest.mark.usefixtures("on_the_simulator")
def test_names_of_real_runs_are_printed_as_they_are_written(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text('name: "[bold]x[/nosuch]"\nlink: {rate_mbps: 4}\nduration_s: 1\n')
    assert ccatune.run(["emulate", str(file), str(file)]) == 0
    assert "[bold]x[/nosuch]" in capsys.readouterr().out


@pytest.mark.usefixtures("on_the_simulator")
def test_figures_of_several_real_runs_fit_80_columns(capsys: Capture, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.yaml" for number in (1, 2)]
    for number, file in enumerate(files):
        file.write_text(f"name: policer-op1-access-{number}00\nlink: {{rate_mbps: 1000}}\nduration_s: 1\n")
    assert ccatune.run(["emulate", *map(str, files), "--runs", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    rows = [line.split() for line in lines if "%" in line]
    assert [row[:-5] for row in rows] == [
        [name] for number in (0, 1) for name in (f"policer-op1-access-{number}00", "least", "most")
    ]  # fmt: skip


@pytest.mark.usefixtures("on_the_simulator")
def test_figures_of_real_runs_are_printed_where_they_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 4}\nduration_s: 1\n")
    full = OSError(errno.ENOSPC, "No space left on device", "x.json")
    monkeypatch.setattr(Path, "write_text", Mock(side_effect=full))
    assert ccatune.run(["emulate", str(file), "--json", "--out", str(tmp_path / "x.json")]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["scenario"] == "4 Mbit/s"
    assert err == "ccatune: x.json: cannot be used (No space left on device)\n"


@pytest.fixture
def ensemble_file(tmp_path: Path) -> Path:
    """An ensemble with the same rows in each of its 40 levels."""
    ensemble_of(((10_000,), (150_000,)) * 40, classes_ms=(50, 200), epoch_ms=5000).save(tmp_path / "gr.json")
    return tmp_path / "gr.json"


def test_ensemble_is_followed_with_the_class_named(capsys: Capture, ensemble_file: Path) -> None:
    arguments = ["simulate", "--rate-mbps", "20", "--ensemble", str(ensemble_file), "--warmup", "8"]
    short, long = (run_json(capsys, *arguments, "--delay-class", wanted) for wanted in ("50ms", "200ms"))
    p50_ms = [result["queueing_delay_ms"]["p50"] for result in (short, long)]  # type: ignore[index]
    assert p50_ms[0] < 12
    assert p50_ms[1] > 60
    # 20 Mbit/s of wire bytes are 2.41 MB/s of data: level 19.
    assert short["flows"][0]["epochs"][-1]["state"] == 19  # type: ignore[index]
    said = refused(capsys, *arguments[1:], "--delay-class", "100ms")
    assert said.endswith("expected one of 95:50ms, 95:200ms, got 100ms")


def test_table_fits_and_ends_with_the_figures(capsys: Capture, ensemble_file: Path) -> None:
    link = ["--rate-mbps", "20", "--ensemble", str(ensemble_file)]
    assert ccatune.run(["simulate", *link, "--flows", "12", "--duration", "5"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    lines = out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [line.split()[:3] for line in lines if "gr, " in line] == [[str(n), "gr,", "ensemble"] for n in range(1, 13)]
    assert lines[-1].startswith("throughput: ")
    assert "utilization" in lines[-1]
    assert any(line.startswith("fairness: ") for line in lines)


def test_elements_and_transfers_are_shown_in_the_table_and_as_json(capsys: Capture, repository: Path) -> None:
    file = str(repository / "configs" / "scenarios" / "multi-transfer.yaml")
    got = run_json(capsys, "simulate", file)
    assert [row["name"] for row in got["elements"]] == ["link", "policer"]  # type: ignore[attr-defined]
    policer = got["elements"][1]  # type: ignore[index]
    assert policer["entered"] == policer["passed"] + policer["dropped"] + policer["inside"]
    assert len(got["flows"][0]["transfers"]) == 11  # type: ignore[index]
    assert ccatune.run(["simulate", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    row = next(line.split() for line in lines if line.split()[:1] == ["policer"])
    assert row[1:3] == [str(policer["entered"]), str(policer["dropped"])]
    assert any("11 of 11 transfers complete" in line for line in lines)


def test_picture_is_written_and_named(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "run.png"
    got = run_json(capsys, "simulate", "--rate-mbps", "20", "--duration", "2", "--plot", str(file))
    assert got["plot"] == str(file)
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "expected a link, got none; give SCENARIO.yaml, --traces or --rate-mbps"),
        ("--rate-mbps 2 --traces a.down", "expected one link, got both --traces and --rate-mbps"),
        ("--rate-mbps -3", "options: link.rate_mbps: expected greater than or equal to 0.001, got -3.0"),
        ("--rate-mbps inf", "options: link.rate_mbps: expected a finite number, got inf"),
        ("--rate-mbps 2 --buffer 12", "--buffer: expected such as 1000pkts or 1500000bytes, got 12"),
        ("--rate-mbps 2 --buffer 12bytes", "link.buffer_bytes: expected greater than or equal to 1500, got 12"),
        ("--rate-mbps 2 --param x", "--param: expected such as bandwidth_window_us=60000, got x"),
        ("--rate-mbps 2 --param x=1", "share_gain_pct), got x"),
        ("--rate-mbps 2 --cca tahoe", "'rtcp_cubic', 'rtcp_bbr', 'rtcp_bbr3', 'vegas', 'sira' or 'fixed', got 'tahoe'"),
        ("--rate-mbps 2 --delay-class 50ms", "flows.0.delay_class: expected an ensemble beside it, got none"),
        ("--rate-mbps 2 --ensemble none.json", "none.json: cannot be read (No such file or directory)"),
        ("--rate-mbps 2 --duration 0", "options: duration_s: expected greater than 0, got 0.0"),
        ("--rate-mbps 2 --warmup 30", "options: expected warmup_s below duration_s"),
        ("--rate-mbps 2 --recording x", "options: link.recording: expected a trace beside it, got none"),
        ("--rate-mbps 2 --start-s 3", "options: link.start_ms: expected a trace beside it, got none"),
        ("--traces a.down --start-s nan", "'--start-s': expected a finite number, got nan"),
        ("--traces a.down --start-s inf", "'--start-s': expected a finite number, got inf"),
        ("--rate-mbps 2 --seed -1", "options: seed: expected greater than or equal to 0, got -1"),
        ("--rate-mbps 2 --plot a.gif", "a.gif: expected a picture ending in .png, .svg, .pdf, got .gif"),
        ("--rate-mbps 2 --plot none/a.png", "none/a.png: expected a folder none to write to, got none; make it first"),
        ("none.yaml", "none.yaml: cannot be read (No such file or directory)"),
        (
            "--traces none.down",
            "none.down: expected a trace file, folder or archive, got nothing there; check the path",
        ),
    ],
)
def test_bad_request_is_refused_in_one_line(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, *arguments.split()).endswith(said)


def test_bench_prints_its_figures_as_json(capsys: Capture) -> None:
    got = run_json(capsys, "bench", "--repeats", "1", "--duration", "10")
    assert isinstance(got["pkts_per_s"], float)
    assert got["pkts_per_s"] > 0
    cores = {f"{cca}_ns_per_ack" for cca in ("gr", "sira", "reno", "cubic", "bbr", "bbr3")}
    assert set(got["runs"]) >= {"pkts_per_s", "cubic_pkts_per_s", *cores}  # type: ignore[call-overload]
    assert got["targets"] == {
        "pkts_per_s": 4e6,
        "cubic_pkts_per_s": 2e6,
        "bbr_pkts_per_s": 2e6,
        "two_threads_by_one": 1.8,
    }
    assert got["limits"] == {"flows_1000_by_10": 4.0}
    assert set(got["runs"]) >= {f"flows_{count}_ns_per_pkt" for count in (10, 100, 1000)}  # type: ignore[call-overload]
    assert set(got["machine"]) >= {"ccatune", "processor", "usable_cpus"}  # type: ignore[call-overload]


def test_bench_takes_no_time_that_is_no_number(capsys: Capture) -> None:
    assert ccatune.run(["bench", "--duration", "nan", "--only", "speed"]) == 2
    assert capsys.readouterr().err.endswith("'--duration': expected a finite number, got nan\n")


def test_bench_measures_the_part_that_it_is_asked_for(capsys: Capture) -> None:
    got = run_json(capsys, "bench", "--only", "core", "--repeats", "1")
    assert set(got["runs"]) == {
        f"{cca}_ns_per_ack" for cca in ("gr", "sira", "reno", "cubic", "bbr", "bbr3", "sent_log")
    }  # type: ignore[call-overload]
    assert (got["targets"], got["limits"], got["missed"]) == ({}, {}, [])


@pytest.mark.parametrize(("target_pkts_per_s", "word"), [(1.0, "holds"), (1e12, "short")])
def test_bench_falls_short_only_where_a_target_is_missed_and_enforced(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, target_pkts_per_s: float, word: str
) -> None:
    monkeypatch.setattr("emulation.cli.bench_command.TARGET_PKTS_PER_S", target_pkts_per_s)
    arguments = ["bench", "--repeats", "1", "--duration", "10", "--only", "speed"]
    assert ccatune.run(arguments) == 0
    out = capsys.readouterr().out
    assert word in next(line for line in out.splitlines() if "million packets/s," in line)
    assert "million packets/s" in out.splitlines()[-1]
    assert ccatune.run([*arguments, "--enforce"]) == (0 if word == "holds" else 1)
