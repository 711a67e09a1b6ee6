# SPDX-License-Identifier: MIT
"""ROCCET beside CUBIC and BBRv3 over the size of the bottleneck's buffer: figures without statements of the paper.

    link        constant rates, and pieces of the stationary recordings, one for each seed. The BDP of these is that of
                their mean rate
    condition   a buffer in BDP with the settings' jitter; and one BDP with ACKs that leave only every so many ms, or
                with more jitter, because bunched ACKs and jitter change what an algorithm measures
    flows       one flow alone, or two of which the second starts later. Which one is first matters: the second one
                measures its minimum RTT in the queue of the first. Times are drawn for each seed, so that flows meet
                bunched ACKs in different phases

Figures count from `settled_s` on. Algorithms have their defaults, CUBIC with HyStart. The RTTs are those of all samples
of all flows. `share` is the part of the goodput that the flow has which started first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import Cca, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import AckPath, Jitter
from experiments.campaign import Case, Links, Results, Row, Values, pieces_of
from experiments.figures import heads_of, markdown_table
from experiments.roccet.made import NAMES
from experiments.roccet.settings import WIRE_BITS, BuffersSettings, RoccetSettings
from training.intervals import interval_of

ALONE: tuple[tuple[Cca, ...], ...] = (("roccet",), ("cubic",), ("bbr3",))
SHARING: tuple[tuple[Cca, ...], ...] = (
    ("roccet", "roccet"), ("roccet", "cubic"), ("cubic", "roccet"), ("roccet", "bbr3"), ("bbr3", "roccet"),
    ("cubic", "cubic"), ("cubic", "bbr3"), ("bbr3", "cubic"),
)  # fmt: skip
Condition = tuple[float, float, float | None]  # the buffer in BDP, the jitter in ms, the interval of ACKs in ms


def conditions_of(buffers: BuffersSettings) -> dict[str, Condition]:
    """The conditions by the heads of their columns."""
    heads = heads_of(buffers.buffers_bdp, "BDP")
    return {
        **{head: (bdp, buffers.jitter_ms, None) for head, bdp in zip(heads, buffers.buffers_bdp, strict=True)},
        f"1, ACKs {buffers.ack_interval_ms:g} ms": (1, buffers.jitter_ms, buffers.ack_interval_ms),
        f"1, jitter {buffers.more_jitter_ms:g} ms": (1, buffers.more_jitter_ms, None),
    }


def _bottlenecks(settings: RoccetSettings, links: Links) -> Iterator[tuple[str, list[LinkSpec], float]]:
    """Each link by its name, with one path for each seed, and its BDP in packets."""
    buffers = settings.buffers
    for link in buffers.links:
        name = f"{link.rate_mbps:g} Mbit/s x {link.rtt_ms:g} ms"
        spec = LinkSpec(rate_mbps=link.rate_mbps, rtt_ms=link.rtt_ms)
        yield name, [spec] * settings.seeds, link.rate_mbps * 1000 * link.rtt_ms / WIRE_BITS
    pieces = pieces_of(links.recordings["stationary"], length_s=buffers.duration_s, most=settings.seeds)
    rtt_ms = settings.recorded.stationary.rtt_ms
    mean_mbps = float(np.mean([piece.trace.mean_rate_mbps for piece in pieces]))
    specs = [LinkSpec(trace=piece.trace, rtt_ms=rtt_ms) for piece in pieces]
    name = f"{'made' if links.made else 'recorded'} 4G x {rtt_ms:g} ms"
    yield name, specs, mean_mbps * 1000 * rtt_ms / WIRE_BITS


def buffers_cases(settings: RoccetSettings, links: Links) -> Iterator[Case]:
    for name, specs, bdp_pkts in _bottlenecks(settings, links):
        for head, condition in conditions_of(settings.buffers).items():
            for ccas in (*ALONE, *SHARING):
                runs = partial(_runs, settings.buffers, specs, bdp_pkts, condition, ccas)
                yield Case(("buffers", name, head, "+".join(ccas)), runs, _figures)


def _runs(buffers: BuffersSettings, specs: Sequence[LinkSpec], bdp_pkts: float, condition: Condition,
          ccas: Sequence[Cca]) -> list[Scenario]:  # fmt: skip
    products, jitter_ms, ack_interval_ms = condition
    around = {
        "buffer_pkts": max(round(products * bdp_pkts), 1),
        "behind": (Jitter(max_ms=jitter_ms),),
        "acks": AckPath(interval_ms=ack_interval_ms),
    }
    runs = []
    for seed, spec in enumerate(specs):
        rng = np.random.default_rng(seed)
        first_s, later_s = rng.uniform(0, buffers.start_within_s), rng.uniform(*buffers.later_s)
        flows = tuple(FlowSpec(cca=cca, start_s=first_s + number * later_s) for number, cca in enumerate(ccas))
        runs.append(Scenario(name="buffers", link=spec.model_copy(update=around), flows=flows,
                             duration_s=buffers.duration_s, warmup_s=buffers.settled_s, seed=seed))  # fmt: skip
    return runs


def _figures(_scenario: Scenario, qos: QoS) -> Row:
    rtt = qos.flows[0].rtt
    for flow in qos.flows[1:]:
        rtt += flow.rtt
    goodputs = [flow.goodput_mbps for flow in qos.flows]
    return {
        "goodput_mbps": sum(goodputs),
        "share": goodputs[0] / max(sum(goodputs), 1e-9) if len(goodputs) > 1 else None,
        "rtt_median_ms": rtt.percentile_ms(50),
        "rtt_p95_ms": rtt.percentile_ms(95),
        "retransmission_rate": qos.retransmission_rate,
    }


def _cells(figures: Mapping[str, Values], *, sharing: bool) -> tuple[str, str]:
    """The two cells of a case, whose labels are those of buffers_table."""
    mean = {name: float(values.mean()) for name, values in figures.items()}
    first = f"{mean['goodput_mbps']:.1f}"
    if sharing:
        first = f"{100 * mean['share']:.0f} ± {100 * interval_of(figures['share']):.0f}"
    return (f"{first}; {100 * mean['retransmission_rate']:.2f}",
            f"{mean['rtt_median_ms']:.0f} / {mean['rtt_p95_ms']:.0f}")  # fmt: skip


def buffers_table(results: Results[RoccetSettings]) -> list[str]:
    """A table for each link that was run, with two rows for each set of flows and a column for each condition.

    The upper row has the goodput of a single flow, or the first one's share in % with its 95 % interval, and the
    retransmissions in %. The lower row has the median and the 95th percentile of the RTT.
    """
    heads = list(conditions_of(results.settings.buffers))
    lines: list[str] = []
    for name in dict.fromkeys(key[1] for key in results.cases if key[0] == "buffers"):
        rows = []
        for ccas in (*ALONE, *SHARING):
            sharing = len(ccas) > 1
            labels = ("share; retr., %" if sharing else "Mbit/s; retr., %", "RTT, ms")
            cells = [_cells(results.cases["buffers", name, head, "+".join(ccas)], sharing=sharing) for head in heads]
            flows = ", ".join(NAMES[cca] for cca in ccas)
            rows += [(flows, label, *row) for label, row in zip(labels, zip(*cells, strict=True), strict=True)]
        lines += ["", *markdown_table((name, "figure", *heads), rows)]
    return lines[1:]
