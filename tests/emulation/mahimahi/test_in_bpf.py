# SPDX-License-Identifier: MIT
"""GR and ROCCET in BPF under real flows of this machine's kernel, and nothing of them left afterwards."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation.errors import EmulationError
from emulation.mahimahi import in_bpf
from emulation.mahimahi.in_bpf import InBpf, available_ccas, can_share
from emulation.mahimahi.runner import emulate_each, emulate_many
from emulation.mahimahi.translate import Runner, files_in_bpf, to_job
from emulation.run.qos import QoS
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from kmod import bpf_host
from kmod.bpf_host import BPF_CCAS
from tests.bpf.sole import built_program, sole_user
from tests.emulation.real_links.test_real_links import below, command_of

LINK = LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=200)
RUNNER = Runner(
    name="mahimahi",
    algorithms={"reno": "reno", "gr": "gr"},
    tunable=frozenset({"gr"}),
    in_bpf=frozenset({"gr"}),
    remedies={"roccet": "`make bpf` adds it in BPF"},
)


def scenario(*flows: FlowSpec, duration_s: float = 2) -> Scenario:
    return Scenario(name="it", link=LINK, flows=flows, duration_s=duration_s, warmup_s=min(3, duration_s / 2))


def gr(delay_threshold_us: int, **fields: object) -> FlowSpec:
    return FlowSpec.model_validate({"cca": "gr", "params": {"delay_threshold_us": delay_threshold_us}, **fields})


def vegas(alpha_pkts: int, beta_pkts: int) -> FlowSpec:
    return FlowSpec(cca="vegas", params={"alpha_pkts": alpha_pkts, "beta_pkts": beta_pkts})


def state_of_the_machine() -> tuple[list[str], list[str], list[str]]:
    """Algorithms in BPF, BPF file systems, and their keepers."""
    everyone = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    keepers = [words for pid in everyone if "mahimahi/keeper.py" in (words := command_of(pid))]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - bpf " in line]
    return sorted({BPF_CCAS[cca] for cca in in_bpf.CCAS} & available_ccas().keys()), mounts, keepers


def state_once_free() -> tuple[list[str], list[str], list[str]]:
    """The state of the machine as soon as nobody uses GR or ROCCET, or after a minute."""
    end_s = time.monotonic() + 60
    while (state := state_of_the_machine())[0] and time.monotonic() < end_s:
        time.sleep(0.2)
    return state


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """ccatune-bpf, built. No other test has BPF's names meanwhile, and this one leaves nothing behind."""
    if reason := bpf_host.lacking() or ("" if shutil.which("clang-19") else "not installed: clang-19"):
        pytest.skip(reason)
    built = built_program()
    monkeypatch.setenv("CCATUNE_BPF", str(built))
    with sole_user():
        before = state_once_free()
        assert before[0] == [], "GR or ROCCET is in use on this machine, outside these tests"
        yield built
        assert state_of_the_machine() == before


def test_an_algorithm_that_only_bpf_could_add_is_refused_with_the_remedy() -> None:
    expected = r"it: flows\.0\.cca: the runner mahimahi has reno, gr, got roccet; `make bpf` adds it in BPF"
    with pytest.raises(EmulationError, match=expected):
        to_job(scenario(FlowSpec(cca="roccet")), RUNNER)


def test_what_is_lacking_for_bpf_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpf_host, "lacking", lambda: "")
    monkeypatch.setattr(bpf_host, "find_program", lambda: None)
    assert in_bpf.lacking() == "`make bpf` adds it in BPF"
    monkeypatch.setattr(bpf_host, "lacking", lambda: "the kernel has no BTF")
    assert in_bpf.lacking() == "BPF would add it, but the kernel has no BTF"


def test_parameters_of_an_algorithm_in_bpf_are_not_written_in_the_namespace() -> None:
    flow = gr(40_000, ensemble_text="the table\n", delay_class=1)
    asked = scenario(flow, FlowSpec(cca="reno"))
    assert to_job(asked, RUNNER)["writes"] == []
    assert to_job(asked, RUNNER)["flows"][0]["priority"] == 2
    files = (("parameters", "delay_threshold_us 40000\n"), ("ensemble", "the table\n"))
    assert files_in_bpf(asked, RUNNER) == {"gr": files}
    assert files_in_bpf(scenario(FlowSpec(cca="gr")), RUNNER) == {"gr": ()}
    assert files_in_bpf(scenario(FlowSpec(cca="reno")), RUNNER) == {}


def test_runs_share_an_algorithm_only_with_the_same_files() -> None:
    first, second = (("parameters", "a 1\n"),), (("parameters", "a 2\n"),)
    assert can_share({"gr": first}, {"gr": first})
    assert not can_share({"gr": first}, {"gr": second})
    assert not can_share({"gr": first, "roccet": ()}, {"gr": (), "roccet": ()})
    assert can_share({"gr": first}, {"roccet": second})
    assert can_share({}, {"gr": second})


@pytest.mark.bpf
@pytest.mark.mahimahi
def test_each_run_has_its_own_parameters_and_the_delay_of_its_thresholds(program: Path) -> None:
    """The runs with short queues share the machine, then those with long ones. A busy machine disturbs all of them."""
    del program
    asked = gr(10_000), vegas(4, 6), FlowSpec(cca="roccet"), gr(90_000), vegas(60, 70)
    *shorter, of_roccet, gr_long, vegas_long = emulate_many([scenario(flow, duration_s=6) for flow in asked])
    for short, long in zip(shorter, (gr_long, vegas_long), strict=True):
        short_ms, long_ms = (qos.queueing_delay.percentile_ms(50) for qos in (short, long))
        # A packet takes 1 ms, and a queue that is full 200 ms. A run on a busy machine may have some ms more of delay.
        assert short_ms + 20 < long_ms < 150
        # With so long a queue the link is full even if its timers, and with them the flow, are late.
        assert long.throughput_mbps >= 0.85 * 12
    assert vegas_long.dropped == 0
    assert of_roccet.throughput_mbps >= 0.5 * 12


@pytest.mark.bpf
@pytest.mark.mahimahi
def test_a_refused_ensemble_fails_its_own_run_only(program: Path) -> None:
    del program
    found: dict[int, QoS | EmulationError] = {}
    asked = [
        scenario(gr(40_000, ensemble_text="no table\n")),
        scenario(gr(40_000)),
    ]
    emulate_each(asked, found.__setitem__)
    assert isinstance(found[0], EmulationError)
    assert "expected gr to take its ensemble, got gr/ensemble: Invalid argument" in str(found[0])
    assert isinstance(found[1], QoS)


@pytest.mark.bpf
@pytest.mark.mahimahi
def test_what_another_program_registered_is_refused_and_kept(program: Path, tmp_path: Path) -> None:
    bpffs = tmp_path / "bpffs"
    bpffs.mkdir()
    subprocess.run(["mount", "-t", "bpf", "-o", "mode=0700", "bpf", str(bpffs)], check=True)
    other = bpf_host.BpfHost(program, pins=bpffs / "ccatune")
    try:
        other.load("gr")
        with pytest.raises(EmulationError, match=r"another program has registered it.*`ccatune-bpf unload gr`"):
            emulate_many([scenario(gr(40_000))])
        assert other.loaded() == ["gr"]
        assert "gr" in available_ccas()
    finally:
        for cca in other.loaded():
            other.unload(cca)
        subprocess.run(["umount", str(bpffs)], check=True)


@pytest.mark.bpf
@pytest.mark.mahimahi
def test_emulations_take_turns(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del program
    monkeypatch.setattr(in_bpf, "WAIT_S", 0.5)
    with InBpf(["gr"]):
        with pytest.raises(EmulationError, match=r"roccet in BPF free within 0.5 s, but another emulation"):
            InBpf(["roccet"]).__enter__()
        assert "gr" in available_ccas()
    with InBpf(["roccet"]):
        assert "roccet" in available_ccas()
        assert "gr" not in available_ccas()


@pytest.mark.bpf
@pytest.mark.mahimahi
# SIGTERM ends tests/bpf/test_demo.py.
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_an_emulation_that_is_ended_unloads_its_algorithms(program: Path, tmp_path: Path, sent: signal.Signals) -> None:
    del program
    before = state_of_the_machine()
    asked = tmp_path / "it.yaml"
    asked.write_text("link: {rate_mbps: 12, rtt_ms: 40, buffer_pkts: 200}\nflows: [{cca: gr}]\nduration_s: 300\n")
    words = [sys.executable, "-c", "import ccatune; ccatune.main()", "emulate", str(asked)]
    complaints = tmp_path / "complaints"
    with complaints.open("w") as file:
        owner = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True)
    end_s = time.monotonic() + 100
    try:
        while time.monotonic() < end_s and owner.poll() is None and not has_receiver(owner.pid):
            time.sleep(0.05)
        assert owner.poll() is None, complaints.read_text()
        assert "gr" in available_ccas()
        owner.send_signal(sent)
        owner.wait(timeout=60)
    finally:
        owner.kill()
        owner.wait()
    # After SIGKILL the keeper still has to unload them.
    while time.monotonic() < end_s and state_of_the_machine() != before:
        time.sleep(0.05)
    assert state_of_the_machine() == before


def has_receiver(owner: int) -> bool:
    """Whether the receiver of a process's flows runs. The flows are then about to be connected."""
    ours = [command_of(pid) for pid in below(owner)]
    return any("flows.py take" in words for words in ours)
