# SPDX-License-Identifier: MIT
"""The sentences of an advice: the answer, its reasons, what was seen, and what an operator does with it.

The text of the terminal (advice_report.py), the page (advice_page.py) and the JSON data use the same sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kmod.abi import ALGORITHMS
from kmod.terminal import counted
from training.observed.advice import LEAST_FLOWS, LEAST_SECONDS, WORTHWHILE, Advice, Figure, StateAdvice
from training.observed.candidates import KERNELS, Candidate
from training.observed.seen import SeenLink

LABELS = {"cubic": "CUBIC", "bbr": "BBRv1", "bbr3": "BBRv3", "gr": "GR", "roccet": "ROCCET", "sira": "SIRA-H",
          "reno": "Reno", "vegas": "Vegas", "rtcp_cubic": "R-TCP over CUBIC", "rtcp_bbr": "R-TCP over BBRv1",
          "rtcp_bbr3": "R-TCP over BBRv3"}  # fmt: skip
STARVED, STARVES = 1 / 3, 2 / 3
MUCH_RETRANSMITTED, FEW_RETRANSMITTED, SAME = 0.02, 0.0005, 0.005
SURE = 1.1  # between the ends of the rates of a policer
LIMITS = (
    "The simulator runs one bulk flow at a time on each link. It knows neither how your flows affect each other at a "
    "shared bottleneck nor what your application sends.",
    "A flow shows what its link carries only while it is backlogged: while packets wait at the bottleneck. The rest of "
    "the time is not simulated.",
    "The algorithm of a flow decides at which times the capacity of its link is seen. Another algorithm may use "
    "capacity that this flow never showed.",
    "The intervals hold for links similar to those that were seen. Other times of day or other networks may differ.",
)
TABLE_NOTES = (
    "Brackets hold 95 % intervals.",
    "R-TCP over an algorithm has that algorithm's figures where it detects no policer.",
)


@dataclass(frozen=True)
class Step:
    """Commands of an operator, and the sentence that says what they do."""

    why: str
    commands: tuple[str, ...]


def digits(value: float) -> str:
    """A number with at most three significant digits and two decimal places, or a whole one."""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{round(value, 2):.3g}"


def percent(share: float) -> str:
    """A share in %."""
    return f"{digits(100 * share)} %"


def signed(share: float) -> str:
    """A change in %, with its sign."""
    text = f"{100 * share:+.1f}"
    return "0.0 %" if text in ("+0.0", "-0.0") else f"{text} %"


def milliseconds(value: float) -> str:
    """A delay in ms."""
    return f"{value:.0f} ms" if value >= 9.95 else f"{value:.1f} ms"


def label_of(name: str) -> str:
    """The name of an algorithm for people."""
    return LABELS.get(name, name)


def names_of(state: StateAdvice) -> str:
    """Today's algorithms, e.g. `CUBIC`, or `CUBIC (80 %) and BBRv1 (20 %)`."""
    if len(state.algorithms) == 1:
        return label_of(next(iter(state.algorithms)))
    return " and ".join(f"{label_of(name)} ({percent(share)})" for name, share in list(state.algorithms.items())[:3])


def expected(state: StateAdvice) -> str:
    """The change that an advised algorithm brings, with intervals."""
    today, change, best = state.today, state.change, state.best
    if today is None or change is None or best is None:
        return ""
    new = state.candidates[best.name]
    delay, throughput = change.delay_ms, change.throughput
    name, after = "the 95th percentile of the queueing delay", milliseconds(new.delay_ms.value)
    before = milliseconds(today.delay_ms.value)
    if abs(delay.value) < 1:
        parts = [f"{name} stays at {after}" if before == after else f"{name} hardly changes ({before} to {after})"]
    else:
        parts = [f"{name} {'falls' if delay.value < 0 else 'rises'} from {before} to "
                 f"{after} (95 % interval: {milliseconds(new.delay_ms.low)} to "
                 f"{milliseconds(new.delay_ms.high)})"]  # fmt: skip
    if max(abs(throughput.low), abs(throughput.high)) < SAME:
        parts.append("the throughput stays the same")
    else:
        parts.append(f"the throughput changes by {signed(throughput.value)} ({signed(throughput.low)} to "
                     f"{signed(throughput.high)})")  # fmt: skip
    if max(new.retransmitted.value, today.retransmitted.value) < FEW_RETRANSMITTED:
        parts.append("hardly any packet is retransmitted")
    else:
        parts.append(f"{percent(new.retransmitted.value)} of the packets are retransmitted instead of "
                     f"{percent(today.retransmitted.value)}")  # fmt: skip
    return f"In the simulator {parts[0]}, {parts[1]}, and {parts[2]}."


def measured_sentence(state: StateAdvice) -> str:
    """What the flows had themselves, beside the simulation of their algorithms; "" if they were not measured."""
    measured, today = state.measured, state.today
    if measured is None or today is None:
        return ""
    pairs = [("a throughput of", f"{digits(measured.throughput_mbps)} Mbit/s", digits(today.throughput_mbps.value))]
    if measured.delay_ms is not None:
        pairs.append(("a 95th percentile of the queueing delay of", milliseconds(measured.delay_ms),
                      f"{today.delay_ms.value:.0f}"))  # fmt: skip
    if measured.lost is not None:
        pairs.append(("a share of lost packets of", percent(measured.lost), percent(today.retransmitted.value)))
    found = [f"{name} {own} ({simulated} in the simulator)" for name, own, simulated in pairs]
    return (
        f"While the network limited them, the flows had {', '.join(found[:-1])}{' and ' * (len(found) > 1)}{found[-1]}."
    )


def answer(state: StateAdvice, *, target_ms: float) -> list[str]:
    """The answer for a state, in one or two sentences."""
    if state.best is None or state.change is None:
        return [
            f"No advice: the flows showed their links for {digits(state.seconds)} s in all, and at least "
            f"{LEAST_SECONDS:g} s are required.",
            "A flow shows what its link carries only while packets wait at the bottleneck. Observe larger transfers "
            "that neither the application nor the receiver limits, or observe for a longer time.",
        ]
    today, gain, best = names_of(state), state.change.score, state.best
    if not state.reason:
        return [f"Use {best.with_settings} instead of {today}.", expected(state)]
    if state.reason == "equal":
        return [f"No advice to change: keep {today}.",
                f"On the links that were seen, no other algorithm has a score that is more than {percent(WORTHWHILE)} "
                f"higher. The target for the queueing delay is {target_ms:g} ms."]  # fmt: skip
    head = f"No advice: {best.label} has the best score, {signed(gain.value)} compared with {today}"
    if state.reason == "error":
        return [f"{head}, but the simulator's error may be as large as {percent(state.required)}.",
                "If a gain of this size matters to you, try it on some of the servers and measure."]  # fmt: skip
    if state.reason == "measured":
        return [f"{head}, but the simulation of {today} does not agree with the flows.", measured_sentence(state)]
    return [f"{head}, but the 95 % interval of this gain is {signed(gain.low)} to {signed(gain.high)}.",
            "The results of the runs differ too much to decide. Observe more flows."]  # fmt: skip


def reasons(state: StateAdvice, *, target_ms: float) -> list[str]:
    """Why the answer is what it is, and what else to consider."""
    if state.today is None or state.best is None:
        return []
    found, today, best = [], state.today, state.best
    if today.delay_ms.value > target_ms:
        found.append(
            f"With {names_of(state)}, the 95th percentile of the queueing delay in the simulator is "
            f"{milliseconds(today.delay_ms.value)}. Your target is {target_ms:g} ms."
        )
    if today.retransmitted.value >= MUCH_RETRANSMITTED:
        found.append(f"With {names_of(state)}, {percent(today.retransmitted.value)} of the packets sent in the "
                     "simulator are retransmissions.")  # fmt: skip
    if today.used.value < 0.9:
        found.append(f"With {names_of(state)}, the simulated flows use {percent(today.used.value)} of what the links "
                     "can carry.")  # fmt: skip
    score = f"The score of {best.label} is {state.candidates[best.name].score.value:.3f}"
    other = "" if best.name in state.algorithms else f", and that of {names_of(state)} is {today.score.value:.3f}"
    found.append(f"{score}{other}. A score of 1 means a full link, a delay within the target, and no "
                 "retransmissions.")  # fmt: skip
    if state.advised is not None:
        found += _caveats(state, best)
    others = [one for name, one in state.candidates.items() if name == "bbr3"]
    if others and state.candidates[best.name].score.value < others[0].score.value and best.name != "bbr3":
        found.append(f"BBRv3 has a higher score, {others[0].score.value:.3f}. It is not advised, because its "
                     "simulation was never compared with a kernel that has BBRv3.")  # fmt: skip
    return found


def _caveats(state: StateAdvice, best: Candidate) -> list[str]:
    found = []
    if not best.is_validated:
        found.append("The simulation of BBRv3 was never compared with a kernel that has it. Try it on a few servers "
                     "first.")  # fmt: skip
    if state.beside is not None and not STARVED <= state.beside <= STARVES:
        other = label_of(next(iter(state.algorithms)))
        own = label_of(best.name)
        strong, weak = (other, own) if state.beside < STARVED else (own, other)
        found.append(f"If one flow of {other} and one of {best.label} share a simulated link, {own} gets "
                     f"{100 * state.beside:.0f} % of their throughput: {strong} takes bandwidth from {weak} at "
                     "a shared bottleneck.")  # fmt: skip
    if state.flows < 5:
        found.append("Only one flow was seen. The advice holds for its path, and for other paths only if they are "
                     "similar."
                     if state.flows == 1 else
                     f"Only {state.flows} flows were seen. The advice holds for their paths, and for other paths only "
                     "if they are similar.")  # fmt: skip
    return found


def other_states(advice: Advice) -> list[str]:
    """That network states have another advice than all flows together, as a sentence; none if they have the same."""
    others = [one.name for one in advice.states if one.advised != advice.pooled.advised]
    if not others:
        return []
    return [f"The advice for {counted(len(others), 'network state')} differs from that for all flows together: "
            f"{'; '.join(others)}."]  # fmt: skip


def kernels_best(state: StateAdvice, candidates: Sequence[Candidate]) -> Candidate | None:
    """The best algorithm that every Linux has, if it is better than today's by more than WORTHWHILE."""
    if state.today is None:
        return None
    own = [one for one in candidates if one.host == KERNELS]
    best = max(own, key=lambda one: state.candidates[one.name].score.value)
    gain = state.candidates[best.name].score.value / max(state.today.score.value, 1e-9) - 1
    return best if gain > WORTHWHILE and best.name not in state.algorithms else None


def seen_sentences(advice: Advice, links: Sequence[SeenLink]) -> list[str]:
    """What was seen, with counts."""
    if not links:
        return ["No flow was backlogged for long enough to show its link."]
    rates, rtts = ([getattr(link, name) for link in links] for name in ("mean_mbps", "rtt_ms"))
    limited = [link for link in links if link.limit is not None]
    lossy = [link for link in links if link.loss >= FEW_RETRANSMITTED]
    bunched = [link for link in links if link.ack_interval_ms]
    total = counted(len(links), "link")
    found = [
        f"{total} {'was' if len(links) == 1 else 'were'} rebuilt from "
        f"{digits(sum(link.seconds for link in links))} s of {counted(advice.pooled.flows, 'flow')}.",
        f"The minimum RTT is {_range(rtts, 'ms')}, and the rate is {_range(rates, 'Mbit/s')}.",
    ]
    if advice.pooled.reason != "measured" and (sentence := measured_sentence(advice.pooled)):
        found.append(sentence)
    if len(links) > advice.pooled.flows:
        found.append("A flow shows several links if it is not backlogged for more than a second between them.")
    if limited:
        found.append(f"On {len(limited)} of {total}, a policer drops what exceeds "
                     f"{_range([x.limit.rate_mbps for x in limited if x.limit], 'Mbit/s')}.")  # fmt: skip
        ranges = [x.limit.rate_range_mbps for x in limited if x.limit and x.limit.rate_range_mbps]
        if wide := [its for its in ranges if its[1] > SURE * its[0]]:
            found.append(f"On {len(wide)} of {counted(len(limited), 'policed link')}, the losses leave the rate "
                         f"uncertain: it may be anywhere from {_range(wide[0], 'Mbit/s')}"
                         f"{' on the first of them' * (len(wide) > 1)}.")  # fmt: skip
    if lossy:
        found.append(f"On {len(lossy)} of {total}, packets are lost at random. The median loss is "
                     f"{percent(float(np.median([x.loss for x in lossy])))}.")  # fmt: skip
    if bounds := [link for link in links if link.is_lower_bound]:
        found.append(f"On {len(bounds)} of {total}, losses kept the flow from filling the link. Such a link may "
                     "carry more than was seen.")  # fmt: skip
    if bunched:
        found.append(f"On {len(bunched)} of {total}, ACKs arrive in bunches, about every "
                     f"{_range([x.ack_interval_ms or 0 for x in bunched], 'ms')}.")  # fmt: skip
    if advice.unknown < len(links):
        found.append(
            f"Today's algorithm{'' if len(advice.pooled.algorithms) == 1 else 's'}: {names_of(advice.pooled)}."
        )
    if advice.unknown:
        found.append(f"On {advice.unknown} of {total}, the algorithm is unknown. CUBIC is assumed there; "
                     "--current names another one.")  # fmt: skip
    if advice.left_out:
        found.append(f"These network states have fewer than {LEAST_FLOWS} flows or less than {LEAST_SECONDS:g} s, and "
                     f"so no advice of their own: {'; '.join(one.name for one in advice.left_out)}.")  # fmt: skip
    return found


def _range(values: Sequence[float], unit: str) -> str:
    low, high = digits(min(values)), digits(max(values))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def steps(state: StateAdvice, candidates: Sequence[Candidate], links: Sequence[SeenLink], *, serial: int) -> list[Step]:
    """The commands that apply an advice. serial: of a table."""
    best = state.advised
    found = [] if best is None else _own_steps(best, serial=serial)
    other = kernels_best(state, candidates)
    if best is not None and best.host != KERNELS and other is not None:
        score = state.candidates[other.name].score.value
        found.append(Step(f"An alternative that every Linux has is {other.label}. Its score is "
                          f"{score:.3f} instead of {state.candidates[best.name].score.value:.3f}.",
                          _sysctl(other.name)))  # fmt: skip
    limits = [link.limit.rate_mbps for link in links if link.limit is not None]
    is_costly = state.today is not None and state.today.retransmitted.value >= MUCH_RETRANSMITTED
    if limits and len(limits) == len(links) and is_costly:
        found.append(Step(
            "Pacing each connection a little below the rate of the policer avoids its losses with any algorithm. Use "
            "this only if all connections of the device pass this policer, and never two of them at a time: the rate "
            "is that of each connection, not of their sum.",
            (f"tc qdisc replace dev DEVICE root fq maxrate {round(min(limits) * 950)}kbit",),
        ))  # fmt: skip
    return found


def _sysctl(name: str) -> tuple[str, ...]:
    paced = ("sysctl -w net.core.default_qdisc=fq", "tc qdisc replace dev DEVICE root fq")
    load = () if name == "cubic" else (f"modprobe tcp_{name}",)
    return (*load, f"sysctl -w net.ipv4.tcp_congestion_control={name}", *(paced if name == "bbr" else ()))


def _own_steps(best: Candidate, *, serial: int) -> list[Step]:
    name = best.name
    kernel_name = name if best.host == KERNELS else ALGORITHMS[name].kernel_name
    route = f"ip route change PREFIX via GATEWAY dev DEVICE congctl {kernel_name}"
    if best.host == KERNELS:
        return [Step(f"Make {best.label} the default of new connections, until the next boot:", _sysctl(name)),
                Step("Or use it only for connections to one prefix:", (route,))]  # fmt: skip
    found = [
        Step(f"Load {label_of(name)} and make it the default of new connections:", (f"ccatune-agent enable {name}",))
    ]
    if best.table is not None:
        file = f"{name}-{best.target_ms:g}ms.table"
        text = best.table_text(serial).rstrip("\n").split("\n")
        found.append(Step(f"Give {label_of(name)} the parameter table for the target:",
                          (f"cat > {file} <<'END_OF_TABLE'", *text, "END_OF_TABLE",
                          f"cat {file} > /proc/net/ccatune/{name}/ensemble    # if it runs as a module",
                          f"ccatune-bpf write {name} ensemble < {file}    # if it runs in BPF")))  # fmt: skip
    found.append(
        Step("Or use it only for connections to one prefix:", (f"ccatune-agent enable {name} --allow-only", route))
    )
    found.append(Step("To restore the previous settings:", ("ccatune-agent disable",)))
    return found


def checks(state: StateAdvice) -> list[Step]:
    """How to see afterwards whether an advice was right."""
    if state.advised is None or state.change is None or state.today is None:
        return []
    new, name = state.candidates[state.advised.name], state.advised.name
    kernel_name = name if name in ("cubic", "bbr") or name not in ALGORITHMS else ALGORITHMS[name].kernel_name
    return [
        Step(
            "Observe some servers with the change and some without it, at the same times. Do not compare flows that "
            "share a bottleneck, because they affect each other.",
            ("ccatune observe --folder LOGS-WITH-THE-CHANGE", f"ccatune advise LOGS-WITH-THE-CHANGE --current {name}"),
        ),
        Step(
            "Compare the smoothed RTT, the delivery rate and the retransmitted share. In the simulator the 95th "
            f"percentile of the smoothed RTT is {milliseconds(new.rtt_ms.value)} instead of "
            f"{milliseconds(state.today.rtt_ms.value)}. The retransmitted share is {percent(new.retransmitted.value)} "
            f"instead of {percent(state.today.retransmitted.value)}.",
            (f"ss -tin | grep -A1 {kernel_name}",),
        ),
    ]


def figure_json(figure: Figure) -> dict[str, float]:
    """A figure as JSON data."""
    return {"value": round(figure.value, 6), "low": round(figure.low, 6), "high": round(figure.high, 6)}
