# SPDX-License-Identifier: MIT
"""The part of `ccatune demo` that uses this machine's kernel.

GR is loaded in BPF for the agent to write to. Then a flow runs under the ensemble, over a recorded link that Mahimahi
emulates in a network namespace of its own. The flow chooses GR by a socket option. GR is unloaded at the end, also if
the demo is ended by a signal (emulation/mahimahi/in_bpf.py).

Where this is impossible, or another program has loaded GR, the agent writes to a stand-in instead.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulation import mahimahi
from emulation.errors import EmulationError
from emulation.mahimahi.in_bpf import InBpf, NameTakenError
from emulation.traces import Recording, read_split, require_part
from kmod import bpf_host
from kmod.bpf_host import BpfHost

CCA = "gr"
# The second target of the demo's study: 100 ms.
DELAY_CLASS = 1
FLOW_S = 15.0
WARMUP_S = 3.0
# As the study emulates its links.
RTT_MS = 100
BUFFER_PKTS = 1000
# For another emulation on this machine that uses BPF.
WAIT_S = 20.0


@dataclass(frozen=True)
class Target:
    """What the agent writes to.

    what: a sentence that says so. options, environment: of the command `ccatune-agent`. bpf: GR in BPF; None: the
    stand-in.
    """

    what: str
    options: Sequence[object]
    environment: Mapping[str, str] = field(default_factory=dict)
    bpf: InBpf | None = None


@contextlib.contextmanager
def opened(out: Path) -> Iterator[Target]:
    """Load GR in BPF during the context. Where that is impossible, yield the stand-in, which is kept in `out`.

    Raises EmulationError at its end if GR cannot be unloaded.
    """
    with contextlib.ExitStack() as stack:
        try:
            _require_kernel()
            bpf = stack.enter_context(InBpf([CCA], wait_s=WAIT_S))
        except NameTakenError:
            target = _stand_in(out, "GR is loaded in it already, and the demo must not disturb it")
        except EmulationError as error:
            target = _stand_in(out, str(error))
        else:
            target = _in_kernel(out, bpf)
        yield target


def _require_kernel() -> None:
    """Raise EmulationError if this machine cannot run GR in BPF over emulated links."""
    reason = mahimahi.lacking() or bpf_host.lacking()
    if not reason and bpf_host.find_program() is None:
        reason = f"{bpf_host.PROGRAM} is not built; install clang-19 and libbpf-dev, then run `make bpf`"
    if reason:
        raise EmulationError(reason)


def _in_kernel(out: Path, bpf: InBpf) -> Target:
    return Target(
        what=f"GR runs in BPF on this machine's kernel, Linux {platform.release()}, until the end of the next step.",
        # Not the stand-in's state folder: to the agent, a table of one would be an operator's change of the other.
        options=["--via", "bpf", "--state-dir", out / "agent-bpf"],
        environment={"CCATUNE_BPF_PINS": str(bpf.pins)},
        bpf=bpf,
    )


def _stand_in(out: Path, reason: str) -> Target:
    return Target(
        what=f"The agent writes to a stand-in, not to this machine's kernel: {reason}.",
        options=["--stand-in", out / "proc", "--state-dir", out / "agent"],
    )


def send_flow(bpf: InBpf, *, traces: Path, picture: Path) -> dict[str, Any]:
    """Send a flow under the table in force, draw it, and return its figures as JSON data.

    The link is a recording that did not train. `level` and `parameters` are those of the flow's row. They are null if
    the flow took no row, because it did not end its slow start.

    Raises EmulationError: the run failed, or there is no recording.
    """
    from emulation.cli.simulate_command import series_every_s
    from emulation.mahimahi.processors import kept_awake
    from emulation.mahimahi.runner import emulate_in
    from emulation.run.plot import draw_run
    from emulation.scenario.model import FlowSpec, LinkSpec, Scenario

    host = BpfHost(pins=bpf.pins)
    text = host.read(CCA, "ensemble")
    recording = _typical(require_part(read_split(traces, part="validation"), part="validation"))
    scenario = Scenario(
        name=recording.name,
        link=LinkSpec(trace=recording.trace, rtt_ms=RTT_MS, buffer_pkts=BUFFER_PKTS),
        flows=(FlowSpec(cca=CCA, ensemble_text=text, delay_class=DELAY_CLASS),),
        duration_s=FLOW_S,
        warmup_s=WARMUP_S,
    )
    with kept_awake():
        qos = emulate_in(bpf, scenario, series_every_s=series_every_s(scenario))
    draw_run(scenario, qos, path=picture)
    percentile, target_ms = _target(text)
    return {
        "kernel": platform.release(),
        "link": recording.name,
        "capacity_mbps": qos.capacity_mbps,
        "throughput_mbps": qos.throughput_mbps,
        "percentile": percentile,
        "queueing_delay_ms": qos.queueing_delay.percentile_ms(percentile),
        "target_ms": target_ms,
        **_row(text, host.read(CCA, "status")),
        "picture": str(picture),
    }


def _typical(recordings: Sequence[Recording]) -> Recording:
    """Return the recording whose capacity during the flow's time is the median."""
    end_ms = round(FLOW_S * 1000)
    ordered = sorted(recordings, key=lambda each: (each.trace.capacity_bytes(0, end_ms), each.name))
    return ordered[len(ordered) // 2]


def _header(text: str, key: str) -> list[str]:
    """Return the words after the key in the header of a table's text."""
    return next(line.split()[1:] for line in text.splitlines() if line.startswith(f"{key} "))


def _target(text: str) -> tuple[int, float]:
    """Return the percentile and the queueing delay in ms of the flow's class."""
    percentile, delay_us = _header(text, "classes")[DELAY_CLASS].split(":")
    return int(percentile), int(delay_us) / 1000


def _row(text: str, status: str) -> dict[str, Any]:
    """Return the level, its bounds in Mbit/s and the parameters of the row on which most epochs began.

    The bounds are None if there is only one level.

    text: the table with a linear axis of throughput. status: the file of this name.
    """
    lines = [line.split()[1:] for line in status.splitlines() if line.startswith("row ")]
    rows = [dict(word.split("=") for word in words) for words in lines]
    if not rows:
        return {"level": None, "level_mbps": None, "parameters": None}
    level = int(max(rows, key=lambda row: int(row["visits"]))["state"])
    _, _, step_bytes_per_s, count, *_ = _header(text, "axis")
    step_mbps = int(step_bytes_per_s) * 8e-6
    values = _header(text, f"{level} {DELAY_CLASS}")[1:]
    return {
        "level": level,
        "level_mbps": [level * step_mbps, (level + 1) * step_mbps] if int(count) > 1 else None,
        "parameters": dict(zip(_header(text, "columns"), map(int, values), strict=True)),
    }


def flow_lines(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures of `send_flow` in words."""
    delay_ms, target_ms = figures["queueing_delay_ms"], figures["target_ms"]
    row = "none, because the flow did not end its slow start"
    if figures["level"] is not None:
        values = ", ".join(f"{name} {value}" for name, value in figures["parameters"].items())
        row = f"the flow took {values}"
        if figures["level_mbps"] is not None:
            low, high = figures["level_mbps"]
            row = f"the flow measured {low:g} to {high:g} Mbit/s (level {figures['level']}) and took {values}"
    return [
        f"link:   {figures['link']}, {FLOW_S:g} s of it, round trip {RTT_MS} ms",
        f"row:    {row}",
        f"delay:  {figures['percentile']} % of the packets waited at most {delay_ms:.1f} ms in the queue; "
        f"the target of {target_ms:g} ms is {'met' if delay_ms <= target_ms else 'missed'}",
        f"rate:   {figures['throughput_mbps']:.2f} of the link's {figures['capacity_mbps']:.2f} Mbit/s",
    ]
