# SPDX-License-Identifier: MIT
"""Random scenarios, each made from its number alone: documents as scenario files hold them, and their traces.

    links        a trace, a constant rate or steps with outages; drop-tail by packets or bytes, CoDel
    path         up to three elements in front of the bottleneck and behind it, of every kind
    way back     plain, held ACKs, an uplink of its own
    flows        1 to 6, every algorithm, half of them with parameters drawn from their whole ranges
    application  bulk (it stops), a file, transfers with idle gaps

What a document asks for ends: bulk flows stop, files are small against the rates, and no loss is so dense that
back-off takes hours. Whatever has been sent is to be acknowledged before duration_s, so every file is to complete.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from emulation.scenario.files import build_scenario
from emulation.scenario.model import Scenario
from kmod.abi import ALGORITHMS

Document = dict[str, Any]

PKT_BITS = 12_000
MOST_PKTS = 10_000  # about what the bottleneck carries while bulk flows send
WHOLE_S = 86_400.0  # a run ends when nothing is left to happen, so this costs nothing
CCAS = ("gr", "reno", "cubic", "roccet", "bbr", "bbr3", "rtcp_cubic", "rtcp_bbr", "rtcp_bbr3", "vegas", "sira", "fixed")


@dataclass
class Drawn:
    """A scenario's document, and the traces that it names: ms of each opportunity."""

    document: Document
    traces: dict[str, list[int]] = field(default_factory=dict)


def between(rng: random.Random, low: float, high: float) -> float:
    """Evenly over the orders of magnitude, in three digits."""
    return float(f"{low * (high / low) ** rng.random():.3g}")


def draw_trace(rng: random.Random, rate_mbps: float) -> list[int]:
    """Opportunities of about that rate: even, in bursts, or at random times; the last is the period."""
    period_ms = rng.choice((100, 777, 3000))
    count = max(1, round(rate_mbps * 1e3 * period_ms / PKT_BITS))
    kind = rng.randrange(3)
    if kind == 0:
        return [(i + 1) * period_ms // count for i in range(count)]
    grid_ms = 1 if kind == 1 else rng.choice((5, 20, 60))
    times_ms = sorted(rng.randrange(period_ms + 1) // grid_ms * grid_ms for _ in range(count - 1))
    return [*times_ms, period_ms]


def draw_rate(rng: random.Random, rate_mbps: float, drawn: Drawn) -> Document:
    """A link's rate: a trace, a constant, or steps around it."""
    kind = rng.randrange(4)
    if kind == 0:
        name = f"{len(drawn.traces)}.down"
        drawn.traces[name] = draw_trace(rng, rate_mbps)
        some: Document = {"trace": name}
        if rng.random() < 0.3:
            some["start_ms"] = rng.randrange(10_000)
        if rng.random() < 0.3:
            some["opportunity_bytes"] = rng.choice((500, 1400, 1504, 3000, 9000))
        return some
    if kind == 1:
        times = sorted({0.0, *(between(rng, 0.01, 5) for _ in range(rng.randrange(4)))})
        steps = [{"at_s": t, "rate_mbps": rng.choice((0.0, rate_mbps, rate_mbps / 3, rate_mbps * 2))} for t in times]
        steps[-1]["rate_mbps"] = rate_mbps
        return {"steps": steps}
    return {"rate_mbps": rate_mbps}


def draw_queue(rng: random.Random, rate_mbps: float) -> Document:
    """A queue from a packet to seconds long."""
    some: Document = {"buffer_pkts": rng.choice((1, 2, 5, 20, 100, 1000, None))}
    if rng.random() < 0.3:
        some["buffer_bytes"] = max(1500, round(rate_mbps * 125_000 * between(rng, 0.005, 2)))
    if rng.random() < 0.25:
        some["codel"] = {"target_ms": between(rng, 1, 50), "interval_ms": between(rng, 10, 300)}
    return some


def draw_element(rng: random.Random, rate_mbps: float, drawn: Drawn) -> Document:
    """One element of the path."""
    own_mbps = max(0.2, rate_mbps * between(rng, 0.3, 5))
    match rng.randrange(8):
        case 0:
            return {"kind": "access", **draw_rate(rng, own_mbps, drawn), **draw_queue(rng, own_mbps)}
        case 1:
            bucket_bytes, per = round(between(rng, 1500, 300_000)), rng.choice(("client", "flow"))
            return {"kind": "policer", "rate_mbps": own_mbps, "bucket_bytes": bucket_bytes, "per": per}
        case 2:
            return {
                "kind": "shaper",
                "rate_mbps": own_mbps,
                "bucket_bytes": round(between(rng, 1500, 300_000)),
                "queue_bytes": round(between(rng, 1500, 500_000)),
                "per": rng.choice(("client", "flow")),
            }
        case 3:
            return {"kind": "loss", "share": between(rng, 1e-4, 0.1)}
        case 4:
            bad = {"loss_good": rng.choice((0.0, 0.01)), "loss_bad": rng.choice((0.3, 0.9, 1.0))}
            return {
                "kind": "gilbert_elliott",
                "to_bad": between(rng, 1e-4, 0.05),
                "to_good": between(rng, 0.1, 1),
                **bad,
            }
        case 5:
            return {"kind": "jitter", "max_ms": between(rng, 0.01, 100), "reorder": rng.random() < 0.5}
        case 6:
            least_ms = between(rng, 0.01, 20)
            return {"kind": "clock", "least_ms": least_ms, "most_ms": least_ms * between(rng, 1, 4)}
        case _:
            return {"kind": "reorder", "share": between(rng, 1e-3, 1), "delay_ms": between(rng, 0.1, 200)}


def draw_acks(rng: random.Random, rate_mbps: float, drawn: Drawn) -> Document:
    """The ACKs' way back."""
    some: Document = {}
    if rng.random() < 0.6:
        some["interval_ms"] = between(rng, 0.1, 50)
    if rng.random() < 0.6:
        some["uplink"] = draw_rate(rng, max(0.05, rate_mbps * between(rng, 0.02, 1)), drawn)
    return some


def draw_params(rng: random.Random, cca: str, rate_mbps: float) -> dict[str, int]:
    """Parameters over their whole ranges; some of them, or none."""
    if cca == "fixed":
        pacing = rng.choice((0, 0, round(rate_mbps * 125_000 * between(rng, 0.1, 2))))
        return {"cwnd_pkts": round(between(rng, 1, 150)), "pacing_bytes_per_s": pacing}
    if rng.random() < 0.5:
        return {}
    params = {}
    for spec in ALGORITHMS[cca].params:
        if rng.random() < 0.4:
            low, high = spec.minimum, spec.maximum
            wide = high - low > 100 and rng.random() < 0.8
            value = round(between(rng, max(low, 1), high)) if wide else rng.choice((low, high, rng.randint(low, high)))
            params[spec.name] = min(max(value, low), high)
    return params


def draw_flow(rng: random.Random, rate_mbps: float, active_s: float) -> Document:
    """An algorithm and what it sends."""
    cca = rng.choice(CCAS)
    flow: Document = {"cca": cca, "params": draw_params(rng, cca, rate_mbps), "client": rng.choice("ab")}
    start_s = flow["start_s"] = rng.choice((0.0, round(rng.random() * active_s / 2, 6)))
    most_bytes = max(1, round(rate_mbps * 125_000 * active_s / 4))
    kind = rng.randrange(4)
    if kind == 0:
        flow["stop_s"] = round(start_s + active_s * rng.uniform(0.2, 1), 6)
    elif kind == 1:
        flow["transfers"] = [
            {
                "size_bytes": round(between(rng, 1, most_bytes / 4 + 1)),
                "gap_s": rng.choice((0.0, between(rng, 1e-4, 3))),
                "count": rng.randint(1, 4),
            }
            for _ in range(rng.randint(1, 3))
        ]
    else:
        flow["size_bytes"] = round(between(rng, 1, most_bytes + 1))
    return flow


def draw(number: int) -> Drawn:
    """The scenario of that number."""
    rng = random.Random(number)
    rate_mbps = between(rng, 0.3, 200)
    active_s = min(max(MOST_PKTS * PKT_BITS / (rate_mbps * 1e6), 0.2), 10.0)
    drawn = Drawn({"name": f"drawn-{number}"})
    link: Document = {**draw_rate(rng, rate_mbps, drawn), **draw_queue(rng, rate_mbps)}
    link["rtt_ms"] = rng.choice((between(rng, 0.3, 600), between(rng, 5, 200), between(rng, 5, 200)))
    if rng.random() < 0.3:
        link["loss"] = between(rng, 1e-5, 0.1)
    if rng.random() < 0.7:
        for side in ("before", "behind"):
            count = rng.choice((0, 0, 1, 1, 2, 3))
            if count:
                link[side] = [draw_element(rng, rate_mbps, drawn) for _ in range(count)]
    if rng.random() < 0.3:
        link["acks"] = draw_acks(rng, rate_mbps, drawn)
    drawn.document |= {
        "link": link,
        "flows": [draw_flow(rng, rate_mbps, active_s) for _ in range(rng.choice((1, 1, 2, 2, 3, 6)))],
        "duration_s": WHOLE_S,
        "warmup_s": rng.choice((0.0, 0.0, round(active_s / 3, 6))),
        "seed": rng.randrange(2**32),
    }
    return drawn


def save(drawn: Drawn, folder: Path) -> Path:
    """Write the scenario file and its traces, and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, times_ms in drawn.traces.items():
        (folder / name).write_text("".join(f"{t}\n" for t in times_ms), encoding="utf-8")
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(drawn.document, sort_keys=False), encoding="utf-8")
    return path


def load(drawn: Drawn) -> Scenario:
    """The checked scenario, its traces from memory."""
    import numpy as np

    from emulation.traces import Trace

    def with_traces(value: Any) -> Any:
        if isinstance(value, list):
            return [with_traces(item) for item in value]
        if not isinstance(value, dict):
            return value
        fields = {key: with_traces(item) for key, item in value.items()}
        if "trace" in fields:
            times_ms = drawn.traces[fields["trace"]]
            fields["trace"] = Trace(fields["trace"], np.asarray(times_ms, dtype=np.uint32), max(times_ms[-1], 1))
        return fields

    return build_scenario(with_traces(drawn.document), source=drawn.document["name"], folder=Path())
