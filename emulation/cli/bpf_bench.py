# SPDX-License-Identifier: MIT
"""Measures the algorithms in BPF on this machine's kernel, for `ccatune bench --only bpf`.

Bulk flows run over a veth without a rate limit, between two network namespaces that end with this process.

    ns per ACK    time of all operations of an algorithm / calls of the operation that runs once per ACK. The kernel
                  counts both (BPF_ENABLE_STATS), during these flows only. Its own CUBIC is measured through operations
                  in BPF that only call it (kmod/bpf/bench/kernels_cubic.bpf.c)
    share         throughput of a flow / throughput of a flow with the kernel's own CUBIC that ran just before. Short
                  flows of all algorithms take turns, and the figure is the median of the turns. The kernel's BBRv1, if
                  the kernel offers it, shows what pacing costs: GR paces its packets, too

A table has the default parameters in all rows. A flow with it therefore behaves as one without, and only looks rows up.

Limits: the processor limits these flows, so other programs on the machine affect the shares. ACKs on a veth cover many
segments each. The times contain what the kernel takes to read its clock, which is the same for all algorithms.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from emulation.errors import EmulationError
from emulation.mahimahi.in_bpf import InBpf, available_ccas
from emulation.mahimahi.namespace import shells, traffic
from emulation.mahimahi.process import BARE_PYTHON
from emulation.mahimahi.translate import Files
from kmod import bpf_host
from kmod.abi import ALGORITHMS
from kmod.bpf_host import BPF_CCAS
from kmod.ensemble import Axis, Deployment, Ensemble, table_text

TURNS = 4
TURN_S = 0.25
COST_S = 0.5
_PROGRAMS = ("bpftool", "ip", "nsenter", "setpriv", "unshare")
_NETWORK, _RECEIVER, _PORT = "10.9.0", "10.9.0.2", 5201
# The operations that the kernel calls once per ACK. An algorithm has one of them.
_ONCE_PER_ACK = ("_cong_control", "_pkts_acked")
# The name of the object that calls the kernel's CUBIC, and the name under which it is registered.
_KERNELS_CUBIC = "kernels_cubic"
# Registers the object, and takes it back when standard input is closed, also because this process was killed.
_REGISTER = """trap '' INT TERM HUP
bpftool struct_ops register "$1" >&2 || exit 1
echo ready
cat
bpftool struct_ops unregister name "$2" >&2
"""
_STEPS = {"us": 10_000, "bytes_per_s": 125_000}


@dataclass(frozen=True)
class Contender:
    """An algorithm in BPF, with or without a table. label: part of the figures' names."""

    label: str
    cca: str
    has_table: bool

    def files(self) -> Files:
        """Return the files that are written for its flows."""
        return (("ensemble", _table(self.cca)),) if self.has_table else ()


def _contenders() -> tuple[Contender, ...]:
    found: list[Contender] = []
    for cca in BPF_CCAS:
        found.append(Contender(cca, cca, has_table=False))
        if ALGORITHMS[cca].axes:
            found.append(Contender(f"{cca}_table", cca, has_table=True))
    return tuple(found)


CONTENDERS = _contenders()


def _table(cca: str) -> str:
    """Return a table with the default parameters in all rows. Epochs are short, so that a flow ends several."""
    algorithm = ALGORITHMS[cca]
    count = 40 if len(algorithm.axes) == 1 else 8
    steps = (next(step for unit, step in _STEPS.items() if axis.name.endswith(unit)) for axis in algorithm.axes)
    axes = tuple(Axis(axis.name, "linear", step, count) for axis, step in zip(algorithm.axes, steps, strict=True))
    row = tuple(spec.default for spec in algorithm.tuned)
    ensemble = Ensemble(
        cca=cca,
        epoch_ms=100,
        estimate_ms=50,
        epsilon_pct=None,
        classes=(),
        axes=axes,
        columns=tuple(spec.name for spec in algorithm.tuned),
        rows=(row,) * count ** len(axes),
    )
    return table_text(ensemble, Deployment("local", "bench", 1))


def lacking() -> str:
    """Return why the algorithms in BPF cannot be measured here; "" if they can."""
    if reason := bpf_host.lacking():
        return reason
    if bpf_host.find_program() is None:
        return f"{bpf_host.PROGRAM} is not installed; `make bpf` builds it"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def measure_bpf() -> dict[str, float]:
    """Return the figures of all algorithms in BPF by name. They are unloaded again at the end.

    Raises EmulationError if something is lacking, or another program uses the algorithms.
    """
    if reason := lacking():
        raise EmulationError(f"bench: expected a machine that can load algorithms in BPF, but {reason}")
    try:
        with _veth() as veth:
            others = set(_programs())
            with InBpf(BPF_CCAS) as host:
                return _costs(veth, host, others) | _shares(veth, host)
    except shells.ShellError as error:
        raise EmulationError(f"bench: {error}") from error


# --- flows ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Veth:
    """A veth between two network namespaces, with a receiver at the far end. near: the namespace of the senders."""

    near: shells.Space

    def send(self, cca: str, *, seconds: float) -> float:
        """Run a bulk flow and return its throughput in Mbit/s."""
        words = ["send", "--host", _RECEIVER, "--port", str(_PORT), "--cca", cca, "--seconds", str(seconds)]
        lines = shells.call(*_at(self.near, *words, "--sample", "60")).splitlines()
        return float(json.loads(lines[-1])["mbps"])


@contextmanager
def _veth() -> Iterator[_Veth]:
    """Make the namespaces and start the receiver. Both end with this process, too."""
    with (
        shells.network_namespace() as near,
        shells.veth(near.enter, "va", _NETWORK) as far,
        _process(_at(far, "receive", "--host", _RECEIVER, "--port", str(_PORT))),
    ):
        yield _Veth(near)


def _at(space: shells.Space, *words: str) -> list[str]:
    """The command line of the traffic program in a network namespace. It is killed if this process ends."""
    return ["setpriv", "--pdeathsig", "KILL", *space.enter, *BARE_PYTHON, traffic.__file__, *words]


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a process that prints a line when it is ready. It ends, or is killed, when its standard input is closed.

    Raises EmulationError if it is not ready.
    """
    started = subprocess.Popen(
        command,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # In its own session it does not receive Ctrl-C.
        start_new_session=True,
    )
    assert started.stdin is not None  # noqa: S101 (a pipe, for the type checker)
    assert started.stdout is not None  # noqa: S101 (as above)
    try:
        if not started.stdout.readline():
            raise EmulationError(f"bench: expected {' '.join(command[:3])} to start, it ended")
        yield started
    finally:
        started.stdin.close()
        started.terminate()
        started.wait()
        started.stdout.close()


# --- throughput -----------------------------------------------------------------------


def _shares(veth: _Veth, host: InBpf) -> dict[str, float]:
    """Return the throughput of the kernel's CUBIC in Mbit/s, and the share of it that each algorithm reaches."""
    kernels_mbps: list[float] = []
    shares: defaultdict[str, list[float]] = defaultdict(list)

    def compare(label: str, name: str, *, turn: int) -> None:
        pair = ("cubic", name)
        mbps = {each: veth.send(each, seconds=TURN_S) for each in (pair if turn % 2 else pair[::-1])}
        kernels_mbps.append(mbps["cubic"])
        shares[label].append(mbps[name] / mbps["cubic"])

    for turn in range(TURNS):
        for each in CONTENDERS:
            host.put_in_force({each.cca: each.files()})
            compare(each.label, BPF_CCAS[each.cca], turn=turn)
        if "bbr" in available_ccas():
            compare("kernels_bbr", "bbr", turn=turn)
    figures = {"bpf_kernels_cubic_mbps": statistics.median(kernels_mbps)}
    return figures | {f"bpf_{label}_share": statistics.median(values) for label, values in shares.items()}


# --- time of an ACK -------------------------------------------------------------------


def _costs(veth: _Veth, host: InBpf, others: set[int]) -> dict[str, float]:
    """Return the ns per ACK of each algorithm. others: numbers of the programs that are not measured."""
    figures: dict[str, float] = {}
    with counting_time():
        if (cubic := _ns_of_kernels_cubic(veth)) is not None:
            figures["bpf_kernels_cubic_ns_per_ack"] = cubic
        for each in CONTENDERS:
            host.put_in_force({each.cca: each.files()})
            figures[f"bpf_{each.label}_ns_per_ack"] = _ns_per_ack(veth, BPF_CCAS[each.cca], others)
    return figures


def _ns_of_kernels_cubic(veth: _Veth) -> float | None:
    """Return the ns per ACK of the kernel's CUBIC; None if this kernel or this installation cannot measure it."""
    program = bpf_host.find_program()
    file = program.with_name(f"{_KERNELS_CUBIC}.bpf.o") if program else None
    if file is None or not file.is_file():
        return None
    others = set(_programs())
    try:
        with _process(["sh", "-c", _REGISTER, "register", str(file), _KERNELS_CUBIC]):
            return _ns_per_ack(veth, _KERNELS_CUBIC, others)
    except (EmulationError, shells.ShellError):
        return None


def _ns_per_ack(veth: _Veth, name: str, others: set[int]) -> float:
    before = _programs()
    veth.send(name, seconds=COST_S)
    total_ns, acks = 0, 0
    for number, (program, ns, runs) in _programs().items():
        if number in others:
            continue
        _, ns_before, runs_before = before.get(number, ("", 0, 0))
        total_ns += ns - ns_before
        acks += runs - runs_before if program.endswith(_ONCE_PER_ACK) else 0
    if not acks:
        raise EmulationError(f"bench: expected ACKs of a flow with {name}, the kernel counted none")
    return total_ns / acks


def _programs() -> dict[int, tuple[str, int, int]]:
    """Return name, ns and number of calls of each congestion control's operations in BPF, by the program's number."""
    listed = json.loads(shells.call("bpftool", "--json", "prog", "list"))
    return {
        int(one["id"]): (one.get("name", ""), int(one.get("run_time_ns", 0)), int(one.get("run_cnt", 0)))
        for one in listed
        if one["type"] == "struct_ops"
    }


@contextmanager
def counting_time() -> Iterator[None]:
    """Let the kernel count the time of BPF programs. It stops when the descriptor is closed, or this process ends."""
    try:
        descriptor = ctypes.CDLL("libbpf.so.1", use_errno=True).bpf_enable_stats(0)
    except OSError as error:
        raise EmulationError("bench: expected the library libbpf.so.1, found none; install libbpf1") from error
    if descriptor < 0:
        raise EmulationError(
            f"bench: expected the kernel to count the time of BPF programs, got {os.strerror(-descriptor)}"
        )
    try:
        yield
    finally:
        os.close(descriptor)
