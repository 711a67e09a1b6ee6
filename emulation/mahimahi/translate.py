# SPDX-License-Identifier: MIT
"""Translates a Scenario into a job for emulation/mahimahi/namespace/link.py. Fields without a translation are refused.

    trace or rate     a trace in mm-link's format. The n-th opportunity of a rate is at ceil(n x 1500 bytes / rate) ms.
                      Rates that change in steps carry n x 1500 bytes by then. A rate of 0 has no opportunities
    RTT               mm-delay with half of the RTT in each direction, in whole ms
    delays            delay-shell (emulation/mahimahi/shell) in place of mm-delay
    buffer            mm-link's droptail queue, in packets, bytes or both. It counts 1504 bytes per packet
    loss              mm-loss after the link. It has its own random numbers, so the seed has no effect
    flows             the kernel's congestion control of the same algorithm. flows.py makes the transfers and gaps
    policers          nftables before or after the link, with buckets of whole packets (policer.py)
    proxy             HAProxy between two paths, with buffers of a fixed size (proxy.py). Its link has a constant rate,
                      and the trace of a few seconds repeats
    acks              the trace of mm-link's uplink. With interval_ms it has opportunities only at the multiples, enough
                      for all ACKs that wait. An uplink has opportunities of 1500 bytes, as the link has

Any other field must have its default value, otherwise the scenario is refused by the name of the field. The fields that
are translated are listed in _TAKEN_OF_*. A field that is added to Scenario is thus refused until it is translated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from emulation.errors import EmulationError
from emulation.scenario.model import LinkSpec, Scenario, of_servers
from emulation.scenario.path import LinkRate, Policer, RateStep
from emulation.traces import OPPORTUNITY_BYTES

# (name of a file of an algorithm, its text), in the order in which they are written.
Files = tuple[tuple[str, str], ...]

DELAY_SHELL = Path(__file__).with_name("delay-shell")
# Size of a full packet in mm-link, which includes the header of the tun device.
LOGGED_BYTES = 1504
# The same of an ACK with time stamps only, and of one with all options that TCP has room for.
ACK_LOGGED_BYTES = 56
_MOST_ACK_LOGGED_BYTES = 84
# Mahimahi serves whole packets once a ms. Published comparisons found it accurate up to about 500 Mbit/s.
MOST_RATE_MBPS = 500.0
MOST_SAMPLES = 6000
_TAKEN_OF_SCENARIO = frozenset({"name", "link", "flows", "duration_s", "warmup_s", "window_s", "seed", "proxy"})
_TAKEN_OF_RATE = frozenset({"trace", "rate_mbps", "steps", "start_ms"})
_TAKEN_OF_PATH = frozenset({"rtt_ms", "delays", "buffer_pkts", "buffer_bytes", "loss", "before", "behind", "acks"})
_TAKEN_OF_LINK = _TAKEN_OF_RATE | _TAKEN_OF_PATH
_TAKEN_OF_FLOW = frozenset(
    {"cca", "params", "ensemble_text", "delay_class", "start_s", "stop_s", "size_bytes", "transfers", "client"}
)
_TAKEN_OF_PROXYS_LINK = frozenset({"rate_mbps", "rtt_ms", "buffer_pkts", "buffer_bytes", "loss"})
# A proxy still sends what it holds after a flow's stop.
_TAKEN_OF_SPLIT_FLOW = _TAKEN_OF_FLOW - {"stop_s"}
# 12 s at a rate of whole kbit/s are a whole number of packets.
_REPEATED_MS = 12_000


@dataclass(frozen=True)
class Runner:
    """The capabilities of a runner.

    name: as on the command line.
    algorithms: the kernel's name of each algorithm of a Scenario that the kernel has.
    tunable: the algorithms whose parameters and ensembles can be set, in /proc/net/ccatune unless they are in BPF.
    in_bpf: those of them that run in BPF. Their parameters and ensembles apply to all network namespaces.
    remedies: how to get an algorithm, or `proxy`, that this runner could have, as the end of a sentence.
    lead_ms: time from the start of the link to the beginning of the scenario. to_job adds some round trips to it.
    sample_s: the shortest interval between samples of tcp_info.
    mahimahi: the folder of the unpacked Mahimahi; "" if it is installed.
    haproxy: the program that splits connections; "" if there is none.
    """

    name: str
    algorithms: dict[str, str]
    tunable: frozenset[str] = frozenset()
    in_bpf: frozenset[str] = frozenset()
    remedies: Mapping[str, str] = field(default_factory=dict)
    lead_ms: int = 1000
    sample_s: float = 0.01
    mahimahi: str = ""
    haproxy: str = ""

    def refuse(self, scenario: Scenario, where: str, reason: str) -> EmulationError:
        """Return the error for a field (`where`) that this runner cannot do, with the reason."""
        return EmulationError(f"{scenario.name}: {where}: the runner {self.name} {reason}")


def _unknown_fields(model: BaseModel, taken: frozenset[str]) -> Iterator[tuple[str, object]]:
    """Yield the fields that are not in `taken` and do not have their default value."""
    for name, known in type(model).model_fields.items():
        value = getattr(model, name)
        if name not in taken and value != known.get_default(call_default_factory=True):
            yield name, value


def check_fields(scenario: Scenario, runner: Runner) -> None:
    """Refuse a scenario with fields that are not translated.

    Raises EmulationError if there is such a field. The message names the field and the runner.
    """
    parts: list[tuple[str, BaseModel, frozenset[str]]] = [("", scenario, _TAKEN_OF_SCENARIO)]
    parts.append(("link.", scenario.link, _TAKEN_OF_LINK))
    parts.append(("link.acks.", scenario.link.acks, frozenset({"interval_ms", "uplink"})))
    if scenario.link.acks.uplink is not None:
        parts.append(("link.acks.uplink.", scenario.link.acks.uplink, _TAKEN_OF_RATE))
    of_flow = _TAKEN_OF_FLOW
    if (proxy := scenario.proxy) is not None:
        if not runner.haproxy:
            remedy = runner.remedies.get("proxy", "use the runner mahimahi or the simulator")
            raise runner.refuse(scenario, "proxy", f"has no HAProxy; {remedy}")
        parts += [("proxy.link.", proxy.link, _TAKEN_OF_PROXYS_LINK)]
        of_flow = _TAKEN_OF_SPLIT_FLOW
    parts += [(f"flows.{number}.", flow, of_flow) for number, flow in enumerate(scenario.flows)]
    for prefix, model, taken in parts:
        for name, value in _unknown_fields(model, taken):
            raise runner.refuse(scenario, prefix + name, f"cannot do that yet, got {value!r}; use the simulator")


def _steps_of(link: LinkRate) -> tuple[RateStep, ...]:
    assert link.rate_mbps is not None or link.steps  # noqa: S101 (a LinkRate without a trace has one of them)
    return link.steps or (RateStep(at_s=0, rate_mbps=link.rate_mbps or 0.0),)


def rate_mbps_of(link: LinkRate) -> float:
    """Return the rate of a link: the mean rate of a trace, the highest rate of steps."""
    return link.trace.mean_rate_mbps if link.trace is not None else max(s.rate_mbps for s in _steps_of(link))


def _steps_ms(steps: tuple[RateStep, ...], end_ms: int) -> NDArray[np.int64]:
    """Return the times at which a rate that changes in steps has carried 1, 2, 3... packets, rounded up."""
    at_ms = np.minimum([*(step.at_s * 1000 for step in steps), end_ms], end_ms)
    pkts_per_ms = np.asarray([step.rate_mbps * 125 / OPPORTUNITY_BYTES for step in steps])
    carried_pkts = np.append(0.0, np.cumsum(pkts_per_ms * np.diff(at_ms)))
    # Rounding may make a time slightly larger than a whole number. Subtracting a billionth corrects this.
    pkts = np.arange(1, math.floor(carried_pkts[-1] * (1 + 1e-9)) + 1) * (1 - 1e-9)
    # A packet is complete in a step in which more is carried, so the step's rate is above 0.
    step = np.searchsorted(carried_pkts, pkts, side="left") - 1
    times_ms: NDArray[np.float64] = at_ms[step] + (pkts - carried_pkts[step]) / pkts_per_ms[step]
    return np.ceil(times_ms).astype(np.int64)


def repeated_ms(times_ms: NDArray[Any], *, period_ms: int, start_ms: int, end_ms: int) -> NDArray[np.int64]:
    """Return the times in (0, end_ms] after start_ms, in ms, of opportunities that repeat with a period."""
    periods = np.arange(start_ms // period_ms, (start_ms + end_ms) // period_ms + 1, dtype=np.int64)
    times = (periods[:, None] * period_ms + times_ms.astype(np.int64)[None, :]).ravel() - start_ms
    return times[(times > 0) & (times <= end_ms)]


def link_opportunities_ms(link: LinkRate, end_ms: int) -> NDArray[np.int64]:
    """Return the times of the link's opportunities in (0, end_ms] of the run, in ms: int64 [n], non-decreasing."""
    if (trace := link.trace) is not None:
        times_ms, period_ms = trace.opportunities_ms, trace.period_ms
        return repeated_ms(times_ms, period_ms=period_ms, start_ms=link.start_ms, end_ms=end_ms)
    return _steps_ms(_steps_of(link), end_ms)


def ack_opportunities_ms(link: LinkSpec, end_ms: int) -> NDArray[np.int64] | None:
    """Return the same of mm-link's uplink, which carries the ACKs. None: nothing limits the ACKs.

    A packet of data causes at most one ACK. An ACK that comes too late for one burst belongs to the next one. Thus a
    burst is large enough if it can carry an ACK for each packet that the link delivers in two intervals.
    """
    acks = link.acks
    if acks.uplink is not None:
        return link_opportunities_ms(acks.uplink, end_ms)
    if acks.interval_ms is None:
        return None
    multiples = np.arange(1, math.floor(end_ms / acks.interval_ms * (1 + 1e-9)) + 1) * acks.interval_ms
    bursts_ms = np.ceil(multiples * (1 - 1e-9)).astype(np.int64)
    delivered = np.diff(np.searchsorted(link_opportunities_ms(link, end_ms), bursts_ms, side="right"), prepend=0)
    of_two = delivered + np.append(0, delivered)[:-1]
    return np.repeat(bursts_ms, 1 + of_two // (LOGGED_BYTES // _MOST_ACK_LOGGED_BYTES))


def check_link(scenario: Scenario, runner: Runner) -> int:
    """Return the one-way delay in ms, rounded up; the longest one if it changes over time.

    Raises EmulationError if Mahimahi cannot emulate the link's RTT, its rate or its acks, or delay-shell is not built.
    """
    link = scenario.link
    delay_ms = link.rtt_ms / 2
    if link.delays is not None:
        delay_ms = math.ceil(link.delays.most_rtt_ms / 2)
        if not DELAY_SHELL.exists():
            raise runner.refuse(scenario, "link.delays", f"needs {DELAY_SHELL}, found none; run `make build`")
    elif delay_ms != int(delay_ms) or delay_ms < 1:
        raise runner.refuse(scenario, "link.rtt_ms", f"expected an even whole number of ms, got {link.rtt_ms:g}")
    for where, carrier in (("link", link), ("link.acks.uplink", link.acks.uplink)):
        if carrier is not None and (rate_mbps := rate_mbps_of(carrier)) > MOST_RATE_MBPS:
            raise runner.refuse(scenario, where, f"emulates at most {MOST_RATE_MBPS:g} Mbit/s, got {rate_mbps:g}")
    if link.acks.interval_ms is not None and link.acks.uplink is not None:
        raise runner.refuse(scenario, "link.acks", "takes interval_ms or uplink, got both; use the simulator")
    return int(delay_ms)


def _flow_job(scenario: Scenario, number: int, runner: Runner) -> dict[str, Any]:
    flow = scenario.flows[number]
    where = f"flows.{number}."
    if flow.cca not in runner.algorithms:
        has = ", ".join(runner.algorithms)
        remedy = f"; {runner.remedies[flow.cca]}" if flow.cca in runner.remedies else ""
        raise runner.refuse(scenario, where + "cca", f"has {has}, got {flow.cca}{remedy}")
    for name, given in (("params", flow.params), ("ensemble", flow.ensemble_text)):
        if given and flow.cca not in runner.tunable:
            raise runner.refuse(scenario, where + name, f"sets none for {flow.cca}; leave it out, or use the runner vm")
    return {
        "cca": runner.algorithms[flow.cca],
        # Priority 1 selects the first class. Priority 0 is the default of sockets and selects the default class.
        "priority": flow.delay_class + 1 if flow.ensemble_text is not None else 0,
        "start_s": flow.start_s,
        "stop_s": flow.stop_s,
        "transfers": [[plan.size_bytes, plan.gap_s, plan.count] for plan in flow.plan],
    }


def _buckets(scenario: Scenario, policer: Policer) -> list[list[int]]:
    """Return the numbers of the flows that share each bucket."""
    if policer.per == "flow":
        return [[number] for number in range(len(scenario.flows))]
    of_client: dict[str, list[int]] = {}
    for number, flow in enumerate(scenario.flows):
        of_client.setdefault(flow.client, []).append(number)
    return list(of_client.values())


def _policers(scenario: Scenario, runner: Runner) -> dict[str, list[dict[str, Any]]]:
    """Return the policers before and behind the link, each with its index among the elements of that side."""
    link = scenario.link
    jobs: dict[str, list[dict[str, Any]]] = {}
    for side, elements in (("before", link.before), ("behind", link.behind)):
        jobs[side] = []
        for at, element in enumerate(elements):
            if not isinstance(element, Policer):
                reason = f"takes policers alone, got {element.kind}; use the simulator"
                raise runner.refuse(scenario, f"link.{side}.{at}", reason)
            policer = {
                "at": at,
                "rate_pkts_per_day": round(element.rate_mbps * 125_000 / OPPORTUNITY_BYTES * 86400),
                "bucket_pkts": element.bucket_bytes // OPPORTUNITY_BYTES,
                "buckets": _buckets(scenario, element),
            }
            jobs[side].append(policer)
    return jobs


def files_of(params: Mapping[str, int], ensemble_text: str | None) -> Files:
    """Return the files that set these parameters, and the ensemble if there is one. Other parameters have defaults."""
    text = "".join(f"{name} {value}\n" for name, value in params.items())
    return (*([("parameters", text)] if text else []), *([("ensemble", ensemble_text)] if ensemble_text else []))


def _files(scenario: Scenario, runner: Runner) -> dict[str, Files]:
    """Return the files that set the parameters and the ensemble of each tunable algorithm of the scenario."""
    files: dict[str, Files] = {}
    for cca in sorted({flow.cca for flow in scenario.flows} & runner.tunable):
        flows = [flow for flow in scenario.flows if flow.cca == cca]
        # The sockets of a proxy choose no class.
        is_split = scenario.proxy is not None and flows[0].ensemble_text is not None
        for name in ("params", "ensemble_text", *(["delay_class"] if is_split else [])):
            if any(getattr(flow, name) != getattr(flows[0], name) for flow in flows):
                what = name.removesuffix("_text")
                raise runner.refuse(scenario, "flows", f"has one {what} for all flows of {cca}, got several")
        files[cca] = files_of(flows[0].params, flows[0].ensemble_text)
        if is_split:
            files[cca] += (("settings", f"default_class {flows[0].delay_class}\n"),)
    return files


def files_in_bpf(scenario: Scenario, runner: Runner) -> dict[str, Files]:
    """Return the files of each algorithm of the scenario that runs in BPF; no file means its default values.

    Raises EmulationError if flows of one algorithm require different files.
    """
    files = _files(scenario, runner)
    of_both = {} if (servers := of_servers(scenario)) is None else _files(servers, runner)
    for cca in of_both.keys() & files.keys() & runner.in_bpf:
        if of_both[cca] != files[cca]:
            raise runner.refuse(scenario, "proxy.params", f"has one set for {cca} of the servers and of the proxy")
    return {cca: its for cca, its in {**of_both, **files}.items() if cca in runner.in_bpf}


def _proxy(scenario: Scenario, servers: Scenario, runner: Runner) -> dict[str, Any]:
    """Return the job of a scenario's proxy."""
    assert scenario.proxy is not None  # noqa: S101 (the caller has its servers)
    return {
        "program": runner.haproxy,
        "path": {
            **_path(servers, check_link(servers, runner)),
            "opportunities_ms": link_opportunities_ms(servers.link, _REPEATED_MS).tolist(),
        },
        "algorithms": [_flow_job(scenario, number, runner)["cca"] for number in range(len(scenario.flows))],
        "buffer_bytes": scenario.proxy.buffer_bytes,
        "writes": _writes(scenario, runner),
    }


def _writes(scenario: Scenario, runner: Runner) -> list[tuple[str, str]]:
    """Return (file, text) for the files in /proc/net/ccatune that set the namespace's parameters and ensembles."""
    writes: list[tuple[str, str]] = []
    for cca, files in _files(scenario, runner).items():
        if cca in runner.in_bpf:
            continue
        folder = f"/proc/self/net/ccatune/{cca}/"
        # Otherwise the run would use the table and the parameters of the machine's initial namespace.
        writes.append((folder + "settings", "follow_initial 0\n"))
        writes += [(folder + name, text) for name, text in files]
    return writes


def _path(scenario: Scenario, delay_ms: int) -> dict[str, Any]:
    """Return the shells' part of a job."""
    link = scenario.link
    end_ms = math.ceil(scenario.duration_s * 1000)
    acks_ms = ack_opportunities_ms(link, end_ms)
    queue_bytes = None if link.buffer_bytes is None else link.buffer_bytes * LOGGED_BYTES // OPPORTUNITY_BYTES
    return {
        "opportunities_ms": link_opportunities_ms(link, end_ms).tolist(),
        "ack_opportunities_ms": None if acks_ms is None else acks_ms.tolist(),
        "delay_ms": delay_ms,
        "delays": None if link.delays is None else {"shell": str(DELAY_SHELL), "trace": link.delays.as_file()},
        "queue": {"packets": link.buffer_pkts, "bytes": queue_bytes},
        "loss": link.loss,
    }


def to_job(scenario: Scenario, runner: Runner) -> dict[str, Any]:
    """Return the job of a scenario. The flows of one with a proxy are those of the servers.

    Raises EmulationError if the runner cannot do what a field requires. The message names both.
    """
    check_fields(scenario, runner)
    delay_ms = check_link(scenario, runner)
    servers = of_servers(scenario)
    proxy = None if servers is None else _proxy(scenario, servers, runner)
    sending = servers or scenario
    rtts_ms = 2 * (delay_ms + (0 if proxy is None else proxy["path"]["delay_ms"]))
    return {
        "mahimahi": runner.mahimahi,
        **_path(scenario, delay_ms),
        "policers": _policers(scenario, runner),
        "duration_s": scenario.duration_s,
        "sample_s": max(runner.sample_s, scenario.duration_s / MOST_SAMPLES),
        "lead_ms": runner.lead_ms + 6 * rtts_ms,
        "flows": [_flow_job(sending, number, runner) for number in range(len(sending.flows))],
        "writes": _writes(sending, runner),
        "proxy": proxy,
    }
