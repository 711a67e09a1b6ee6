# SPDX-License-Identifier: MIT
"""The algorithms in BPF (kmod/bpf) in a running kernel of each line: what guest/bpf.py found, in the modules' boot.

Only with CCATUNE_VM_LONG=1 (the campaign `vm`): the tier bpf has this machine's own kernel. On each line the algorithms
load, and a flow of each runs under a table that is replaced, and replays; R-TCP's find a policer. On the lines that
have all programs of the modules (tests/vm/lines.py) BPF is beside the modules, and flows of GR and ROCCET live through
all that a kernel tells of.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from kmod.bpf_host import BPF_CCAS
from tests.contract.replaying import replay
from tests.vm.boot import Found, result_of
from tests.vm.job import TRANSFER_PAUSES_S, bpf_tables
from tests.vm.lines import FULL_LINES, LINES, LONG
from tests.vm.programs import BPF, WITHOUT_RTCP, bpf_flows, bpf_lacks
from tests.vm.subjects import GR, ROCCET, RTCP, Subject

pytestmark = pytest.mark.vm
if not LONG:
    __test__ = False

LEAST_EVENTS = 10_000
# What happens to each flow and has to be in its recording; what does where it lives through all (guest/record.py).
HAPPENED = {
    "gr": ["slow_start", "recovery_entered", "looked_up"],
    "roccet": ["slow_start", "recovery_entered", "looked_up", "ssthresh", "grow", "told_lost"],
    "rtcp_cubic": ["slow_start", "recovery_entered", "looked_up", "ssthresh", "grow"],
    "rtcp_bbr": ["recovery_entered", "looked_up"],
    "rtcp_bbr3": ["recovery_entered", "looked_up", "loss"],
    "sira": ["slow_start", "recovery_entered", "looked_up"],
    "cubic": ["slow_start", "recovery_entered", "looked_up", "ssthresh", "grow"],
    "bbr": ["recovery_entered", "looked_up"],
    "bbr3": ["recovery_entered", "looked_up", "loss"],
}
ALSO_HAPPENED = {
    "gr": ["timeout", "undo_event", "raised"],
    "roccet": ["timeout", "undo_event", "raised", "undo", "lowered"],
}
# The kernel logs whom it refuses.
REFUSED = "TCP: gr already registered or non-unique key"


on_each_line = pytest.mark.parametrize("found", LINES, indirect=True)
beside_modules = pytest.mark.parametrize("found", FULL_LINES, indirect=True)
of_each_on_each_line = pytest.mark.parametrize(
    ("found", "subject"),
    [(line, subject) for line in LINES for subject in bpf_flows(line)],
    indirect=["found"],
    ids=lambda value: getattr(value, "cca", value),
)


@pytest.fixture(autouse=True)
def built(bpf_problem: str) -> None:
    """Before a line is booted for nothing."""
    if lacks := bpf_lacks():
        pytest.skip(lacks)
    if bpf_problem:
        pytest.fail(bpf_problem)


@pytest.fixture
def seen(found: Found) -> Any:
    """What the program found on this line."""
    return result_of(found, BPF)


def flows_of(subject: Subject) -> int:
    """The one that is looked at, the one with pauses, and R-TCP's behind a policer."""
    return 3 if subject in RTCP else 2


@on_each_line
def test_all_are_offered_to_sockets(found: Found, seen: Any) -> None:
    refused = {subject.cca for subject in RTCP} if found["line"].result in WITHOUT_RTCP else set()
    assert {cca: why[0] for cca, why in seen["refused"].items()} == dict.fromkeys(refused, errno.EFAULT)
    assert all("the verifier of this kernel cannot follow" in why[1] for why in seen["refused"].values())
    assert set(seen["loaded"]) == BPF_CCAS.keys() - refused
    offered = {name for cca, name in BPF_CCAS.items() if cca not in refused}
    assert set(seen["in kernel"]["algorithms"]) - set(seen["before"]["algorithms"]) == offered
    assert {cca: flow["algorithm"] for cca, flow in seen["flows"].items()} == {
        subject.cca: subject.name for subject in bpf_flows(found["line"].result)
    }


@of_each_on_each_line
def test_a_flow_is_on_a_row_of_its_table_and_then_of_the_newer_one(seen: Any, subject: Subject) -> None:
    for name, table in zip(("first", "second"), bpf_tables(subject), strict=True):
        flow = seen["flows"][subject.cca][name]["flow"]
        assert int(flow[table["column"]]) == table["first"] + 2 * int(flow["state"]) + int(flow["class"]), flow
        assert (flow["class"], flow["group"]) == ("0", "ensemble"), flow
        assert flow["mode"] in subject.modes, flow


@of_each_on_each_line
def test_status_counts_the_row_that_the_flow_is_on(seen: Any, subject: Subject) -> None:
    for name, table in zip(("first", "second"), bpf_tables(subject), strict=True):
        look = seen["flows"][subject.cca][name]
        totals = {key: look["totals"][key] for key in ("serial", "table", "flows", "flows_started")}
        assert totals == {"serial": str(table["serial"]), "table": "own", "flows": "1", "flows_started": "1"}
        same = [row for row in look["rows"] if (row["state"], row["class"]) == (look["flow"]["state"], "0")]
        assert [(row["group"], int(row["visits"]) > 0) for row in same] == [("ensemble", True)], look
    last = seen["flows"][subject.cca]["totals"]
    counts = tuple(last[key] for key in ("flows", "flows_started", "allocation_fallbacks"))
    assert counts == ("0", str(flows_of(subject)), "0")


@of_each_on_each_line
def test_the_newer_table_reads_back_as_it_was_written(seen: Any, subject: Subject) -> None:
    assert seen["flows"][subject.cca]["ensemble"] == bpf_tables(subject)[1]["text"]


@of_each_on_each_line
def test_a_recording_replays_to_the_same_decisions(
    found: Found, seen: Any, subject: Subject, replayer: Path, tmp_path: Path
) -> None:
    recording = found["folder"].result / f"bpf-{subject.cca}.recording"
    held = replay(replayer, recording, folder=tmp_path)
    assert held["differing"] == 0
    assert held["replayed"] >= LEAST_EVENTS
    assert (held["flows"], held["tables"], held["told_twice"]) == (flows_of(subject), 2, 0)
    lives_through_all = subject is GR or (subject is ROCCET and "beside" in seen)
    happened = HAPPENED[subject.cca] + (ALSO_HAPPENED[subject.cca] if lives_through_all else [])
    assert {name: held[name] for name in happened if not held[name]} == {}
    # Each transfer of the flow with pauses.
    assert held["idle_restart"] > 0
    assert subject not in RTCP or held["limited"] > 0
    assert held["transfer_started"] + held["idle_restart"] >= len(TRANSFER_PAUSES_S)


@on_each_line
@pytest.mark.parametrize("subject", RTCP, ids=lambda subject: subject.cca)
def test_rtcp_finds_a_policer_and_caps_its_flow(seen: Any, subject: Subject) -> None:
    flow = seen["flows"][subject.cca]["capped"]
    assert (flow["limiter"], flow["mode"], flow["shared"]) == ("limited", "capped", "0")
    assert 0.9 * 625_000 <= int(flow["limit_bytes_per_s"]) <= 1.1 * 625_000
    assert int(flow["cap_pkts"]) >= 2


@on_each_line
def test_a_flow_goes_on_under_an_algorithm_that_was_unloaded_and_none_begins(seen: Any) -> None:
    assert seen["unloaded under a flow"] == {
        "in kernel": sorted(({*seen["before"]["algorithms"], *BPF_CCAS.values()}) - {BPF_CCAS["cubic"]}),
        "algorithm": BPF_CCAS["cubic"],
        "another one": errno.ENOENT,
    }


@on_each_line
def test_unloaded_they_leave_nothing_in_the_kernel(seen: Any) -> None:
    assert seen["in kernel"]["prog"] > seen["before"]["prog"]
    assert seen["in kernel"]["map"] > seen["before"]["map"]
    assert seen["after"] == seen["before"]
    assert seen["loaded after"] == []


@on_each_line
def test_samples_of_acks_have_the_figures_of_sock_diag(seen: Any) -> None:
    acks = seen["acks"]
    assert acks["last"] == acks["sock_diag"]
    assert acks["ends"]
    assert 80 <= acks["samples"] <= 120
    assert seen["after acks"] == seen["before"]


@on_each_line
def test_nothing_is_in_the_kernel_log_but_who_was_refused(found: Found, seen: Any) -> None:
    # First BPF, then the module.
    assert found[BPF].complaints == ([REFUSED, REFUSED] if "beside" in seen else [])


@beside_modules
def test_a_name_of_a_module_is_refused_and_nothing_is_left(seen: Any) -> None:
    beside = seen["beside"]
    assert set(beside["before"]["algorithms"]) >= {"gr", "roccet"}
    refusal = "gr: cannot be registered: File exists; a module has the name, or BPF below other pins"
    assert beside["refused"] == [errno.EEXIST, refusal]
    assert beside["loaded after refusals"] == []
    assert beside["after refusals"] == beside["before"]


@beside_modules
def test_a_module_whose_name_bpf_has_is_refused_and_leaves_no_folder(seen: Any) -> None:
    status, message = seen["beside"]["insmod tcp_gr"]
    assert status == 1
    assert message.endswith("File exists"), message
    assert "gr" not in seen["beside"]["folders of modules"]
    assert "roccet" in seen["beside"]["folders of modules"]


@beside_modules
def test_flows_of_modules_and_of_bpf_run_at_once_each_with_its_own_host(seen: Any) -> None:
    flows = seen["beside"]["flows"]
    assert (flows["gr in BPF"], flows["roccet's module"], flows["cubic in BPF"]) == (1, 1, 1)
    assert all(acked_bytes > 100_000 for acked_bytes in flows["acked_bytes"].values()), flows
    assert seen["beside"]["after"] == seen["beside"]["before"]
