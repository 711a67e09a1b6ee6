# SPDX-License-Identifier: MIT
"""The modules in a running kernel of each line: what the guest's programs found, one boot for all of them.

With CCATUNE_VM_LONG=1 (the campaign `vm`) the programs run longer, and the sizes that the claims name are asked for.
"""

from __future__ import annotations

import os
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from emulation.standin import StandInTree
from emulation.vm import LINES, build_modules
from tests.contract.replaying import compile_replayer, replay
from tests.vm import boot, cases
from tests.vm.job import job

pytestmark = pytest.mark.vm

LONG = os.environ.get("CCATUNE_VM_LONG") == "1"
PROGRAMS = ["rules", "rights", "reload", "life", "follow", "storm", "record"]
TIMEOUT_S = 3600 if LONG else 900
LEVEL_BYTES_PER_S = 250_000
N_LEVELS = 12


@pytest.fixture(scope="session", params=LINES)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, boot.Outcome]:
    """What each program found on this line; the folder shared with the guest is kept for the replay."""
    folder = tmp_path_factory.mktemp(f"guest-{request.param}")
    outcomes = boot.run_programs(request.param, PROGRAMS, job(folder, long=LONG), folder=folder, timeout_s=TIMEOUT_S)
    print({name: outcome.seconds for name, outcome in outcomes.items()})  # noqa: T201 - shown where a test fails
    outcomes["folder"] = boot.Outcome("folder", folder, "", [], 0)
    return outcomes


def result_of(found: dict[str, boot.Outcome], name: str) -> Any:
    """A program's result; fails with its traceback where it had none."""
    outcome = found[name]
    if outcome.error:
        pytest.fail(outcome.error)
    return outcome.result


@pytest.mark.parametrize("line", LINES)
def test_the_modules_build_without_a_warning_under_all_warnings_and_sparse(line: str) -> None:
    assert build_modules(line, sparse=True, anew=True).warnings == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_in_the_kernel_log(found: dict[str, boot.Outcome], name: str) -> None:
    result_of(found, name)
    assert found[name].complaints == []


def test_every_write_is_answered_as_the_cases_say(found: dict[str, boot.Outcome]) -> None:
    given = {name: outcome["errnos"] for name, outcome in result_of(found, "rules").items()}
    assert given == {name: answers for name, (_, answers) in cases.cases().items()}


def test_kernel_and_stand_in_agree_on_every_case(found: dict[str, boot.Outcome], tmp_path: Path) -> None:
    stand_in = StandInTree(tmp_path)
    ours = {name: cases.outcome_of_stand_in(stand_in, steps) for name, (steps, _) in cases.cases().items()}
    assert result_of(found, "rules") == ours


def test_a_table_reads_back_as_it_was_written(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "rules")["a table is taken"]["ensemble"] == cases.text(1)


def test_only_who_has_the_capability_writes(found: dict[str, boot.Outcome]) -> None:
    writers = result_of(found, "rights")["writers"]
    for name in ("root", "root of a user namespace, its own network", "nobody, opened by root"):
        assert writers.pop(name) == "written", name
    # Not even the file's own mode lets it: no errno of ours.
    assert writers.pop("root, opened by nobody to read") == "write 9"
    for name, answer in writers.items():
        assert answer == ("open 1" if name.startswith("root without") else "open 13"), name


def test_a_namespace_follows_the_initial_table_or_keeps_its_own(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "rights")["container"] == {
        "at first": ["initial", "250"],
        "told not to follow": ["none", "150"],
        "with its own": ["own", "250"],
        "its own table": True,
        "the initial one's": True,
        "cleared, own parameters": ["initial", "300"],
        "initial parameters": "cwnd_gain_pct 250 100 150 1000 pct",
    }


def test_unloading_under_a_flow_is_refused_and_loading_anew_begins_anew(found: dict[str, boot.Outcome]) -> None:
    result = result_of(found, "reload")
    assert result["rmmod tcp_gr while a flow runs"] == "rmmod: ERROR: Module tcp_gr is in use"
    assert "Module ccatune is in use" in result["rmmod ccatune while a flow runs"]
    assert result["another instance"]
    assert result["generation, table, serial"] == ["0", "none", "0"]
    assert result["bytes after it"] >= 3_000_000


def test_a_socket_may_change_over_and_disconnect_at_any_time(found: dict[str, boot.Outcome]) -> None:
    changed = result_of(found, "life")["changed over"]
    assert changed == {"lost": 0, "lines": 2, "disconnected": {}, "epoch anew": "0"}


def test_flows_that_nobody_accepts_end_with_their_listener(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "life")["queued"] == [20, 0]


def test_a_socket_beyond_the_limit_is_plain_and_may_ask_again(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "life")["beyond the limit"] == {"name": "gr-plain", "again": True, "fallbacks": 1}


def test_a_connection_put_there_by_repair_begins_its_epoch_then(found: dict[str, boot.Outcome]) -> None:
    repaired = result_of(found, "life")["repaired"]
    assert repaired == {"received": "once", "epoch": "0", "machine is up for 30 s": "True"}


def test_a_path_mtu_that_shrinks_is_no_timeout_and_replays(found: dict[str, boot.Outcome], tmp_path: Path) -> None:
    seen = result_of(found, "life")["smaller mtu"]
    assert seen["mss"][0] > 1000 > seen["mss"][1], seen
    assert seen["timeouts"] == 0
    recording = found["folder"].result / "smaller-mtu.recording"
    assert replay(compile_replayer(tmp_path), recording, folder=tmp_path)["differing"] == 0


def test_namespaces_that_end_with_flows_and_tables_leave_nothing(found: dict[str, boot.Outcome]) -> None:
    seen = result_of(found, "life")["namespaces"]
    assert seen["flows"] == "0"
    # Ended by their own SIGKILL, not by an exception before it.
    assert set(seen["ended"]) == {9}


def test_flows_shows_no_line_of_another_socket(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "life")["strange lines"] == 0


def test_a_connection_that_its_peer_reset_has_no_line(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "life")["reset by its peer"] == {"before": True, "behind": False}


def test_each_flow_is_on_the_row_that_its_throughput_asks_for(found: dict[str, boot.Outcome]) -> None:
    looks = [look for look in result_of(found, "follow")["rows"] if look["state"] != "-"]
    assert len(looks) > 12
    for look in looks:
        assert look["state"] == min(look["measured_bytes_per_s"] // LEVEL_BYTES_PER_S, N_LEVELS - 1), look
        assert look["bandwidth_window_us"] == 20_000 + look["state"] * 2 + look["class"], look
        assert look["class"] == look["priority"] - 1, look


def test_rows_follow_the_links_rate(found: dict[str, boot.Outcome]) -> None:
    looks = [look for look in result_of(found, "follow")["rows"] if look["state"] != "-"]
    measured: dict[int, list[float]] = {16: [], 4: [], 10: []}
    for look in looks:
        measured[look["rate_mbit"]].append(look["measured_bytes_per_s"] * 8e-6)
    # How much of the link a flow fills depends on what else this machine does; that it cannot fill more does not.
    for rate_mbit, rates in measured.items():
        assert statistics.median(rates) < 1.05 * rate_mbit, measured
    assert max(measured[16]) > 1.1 * statistics.median(measured[4]), measured
    assert len({look["state"] for look in looks}) >= 3


def test_a_table_moved_under_fifty_flows_is_taken_at_their_next_epoch_and_none_stalls(
    found: dict[str, boot.Outcome],
) -> None:
    many = result_of(found, "follow")["many"]
    assert len(many["taken_s"]) == 50
    assert many["epochs_too_late"] == {}
    acked = {flow["local"]: flow["bytes_acked"] for flow in many["before"]}
    assert all(flow["bytes_acked"] > acked[flow["local"]] for flow in many["after"])
    assert {flow["bandwidth_window_us"] for flow in many["cleared"]} == {100_000}


def test_the_hold_back_share_stays_on_its_own(found: dict[str, boot.Outcome]) -> None:
    many = result_of(found, "follow")["many"]
    before = {flow["local"]: flow["group"] for flow in many["before"]}
    groups = Counter(before.values())
    # 300 of 1000: 15 of 50 on average, and outside of 4 to 28 once in 10,000 runs.
    assert 4 <= groups["held_back"] <= 28
    assert groups["held_back"] + groups["ensemble"] == 50
    for flow in many["after"]:
        assert flow["group"] == before[flow["local"]], flow
        held_back = flow["group"] == "held_back"
        assert (flow["bandwidth_window_us"] == 100_000) == held_back, flow
    assert {row["group"] for row in many["rows"]} == {"ensemble", "held_back"}


def test_a_storm_of_writes_damages_nothing_and_leaks_nothing(found: dict[str, boot.Outcome]) -> None:
    result = result_of(found, "storm")
    assert result["statuses"] == [0] * 6
    assert result["tables_nobody_wrote"] == 0
    assert result["good_table_afterwards"]
    for answers in result["answers"].values():
        assert set(answers["ensemble"]) <= {"0", "17", "22", "34", "116"}
        assert set(answers["parameters"]) | set(answers["settings"]) <= {"0", "22", "34"}
        assert answers["ensemble"].keys() >= {"0", "22"}
        assert sum(answers["ensemble"].values()) == (10_000 if LONG else 80)
    grown = result["after"]["SUnreclaim"] - result["before"]["SUnreclaim"]
    # A table has a kilobyte of text, and as much again of sums: a leak at each write would be many times this.
    assert grown < 256 * 1024 + (0 if LONG else 512 * 1024), (grown, result["before"], result["after"])


@pytest.mark.parametrize("cca", ["gr", "reno"])
def test_a_recording_of_the_kernels_events_replays_to_the_same_decisions(
    found: dict[str, boot.Outcome], cca: str, tmp_path: Path
) -> None:
    result_of(found, "record")
    recording = found["folder"].result / f"{cca}.recording"
    seen = replay(compile_replayer(tmp_path), recording, folder=tmp_path)
    assert seen["differing"] == 0
    assert seen["replayed"] >= (10_000 if LONG else 2_000)
    happened = ["slow_start", "recovery_entered", "timeout", "idle_restart"]
    happened += ["undo_event", "looked_up", "raised"] if cca == "gr" else ["undo", "ssthresh", "grow"]
    assert {name: seen[name] for name in happened if not seen[name]} == {}
    assert cca == "reno" or seen["tables"] == 2
