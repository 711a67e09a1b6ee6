# SPDX-License-Identifier: MIT
"""Statements of the ROCCET paper on synthetic links (sections III and IX), and this project's targets there.

The words are ours. Words of the paper such as "too high", "several" and "nearly equal" have a bound here, written
beside them. `target` marks a requirement of this project that the paper does not state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from experiments.campaign import Results, Values
from experiments.figures import Figure, Statement, above, below, quotients, within
from experiments.roccet.cases import RIVALS
from experiments.roccet.settings import RoccetSettings, bdp_pkts, named_scenarios

Get = Callable[[str, str], Values]  # a figure of a scheme, one for each seed

NAMES = {"roccet": "ROCCET", "cubic": "CUBIC", "cubic-hystart": "CUBIC with HyStart", "bbr": "BBRv1", "bbr3": "BBRv3*",
         "held": "held window"}  # fmt: skip


# --- section III -----------------------------------------------------------------------------------------------------


def frozen_cubic(get: Get) -> list[Figure]:
    return [
        figure
        for scheme in ("cubic", "cubic-hystart")
        for figure in (
            within(f"{NAMES[scheme]} changes by", get(scheme, "window_change"), most=0.01),
            within("at", get(scheme, "window_bdp"), least=3, unit="BDP"),
        )
    ]


def left_by_roccet(get: Get) -> list[Figure]:
    cubic = get("cubic", "goodput_mbps")
    return [
        within("window", get("roccet", "window_bdp"), most=2.5, unit="BDP"),
        below(f"RTT, CUBIC's {get('cubic', 'rtt_ms').mean():.0f}:", get("roccet", "rtt_ms"), get("cubic", "rtt_ms") / 2,
              unit="ms"),
        within("goodput over CUBIC's", quotients(get("roccet", "goodput_mbps"), cubic), least=0.95, unit="x"),
    ]  # fmt: skip


FROZEN = (
    Statement("III-1", "CUBIC's window is frozen at a value that is too high",
              "changes by < 1 % in the last 50 s, at > 3 BDP", frozen_cubic),
    Statement("III-2", "ROCCET leaves the locked window", "< 2.5 BDP, RTT < half of CUBIC's, goodput > 0.95 x",
              left_by_roccet),
)  # fmt: skip


# --- section IX ------------------------------------------------------------------------------------------------------


def cubic_does_not_react(get: Get) -> list[Figure]:
    rtts = quotients(get("cubic", "rtt_after_ms"), get("cubic", "rtt_before_ms"))
    goodputs = quotients(get("cubic", "goodput_after_mbps"), get("cubic", "goodput_before_mbps"))
    return [within("RTT", rtts, least=1.5, unit="x"), within("goodput", goodputs, least=0.4, most=0.6, unit="x")]


def events_at_once(get: Get) -> list[Figure]:
    return [within("in 2 s", get("roccet", "events_at_once"), least=2, unit="events")]


def events_later(get: Get) -> list[Figure]:
    return [within("from 5 s after it on", get("roccet", "events_later"), least=1, unit="events")]


def windows_alike(get: Get) -> list[Figure]:
    over = quotients(get("roccet", "window_before_pkts"), get("bbr3", "window_before_pkts"))
    return [within("ROCCET's over BBRv3's", over, least=0.8, most=1.25, unit="x")]


def longer_bbr3(get: Get) -> list[Figure]:
    rtts_ms = get("roccet", "rtt_after_ms")
    return [above(f"ROCCET {rtts_ms.mean():.1f}, BBRv3", get("bbr3", "rtt_after_ms"), rtts_ms, unit="ms")]


def bbr3_does_not_react(get: Get) -> list[Figure]:
    over = quotients(get("bbr3", "window_last_pkts"), get("bbr3", "window_before_pkts"))
    return [within("its window in the end over before", over, least=0.9, unit="x")]


def shorter_than_held(get: Get) -> list[Figure]:
    held_ms = get("held", "rtt_after_ms")
    return [below(f"held {held_ms.mean():.1f}, ROCCET", get("roccet", "rtt_after_ms"), held_ms, unit="ms")]


def lowest(get: Get) -> list[Figure]:
    mine = get("roccet", "rtt_after_ms")
    each = {scheme: get(scheme, "rtt_after_ms") for scheme in RIVALS}
    return [below(f"{NAMES[s]} {their.mean():.1f}, ROCCET", mine, their, unit="ms") for s, their in each.items()]


def near_the_best(get: Get) -> list[Figure]:
    best = np.maximum.reduce([get(scheme, "goodput_after_mbps") for scheme in ("roccet", *RIVALS)])
    return [within("of the best", quotients(get("roccet", "goodput_after_mbps"), best), least=0.9)]


HALVED = (
    Statement("IX-1", "CUBIC does not react: its goodput halves and its smoothed RTT increases",
              "RTT > 1.5 x, goodput 0.4 to 0.6 x", cubic_does_not_react),
    Statement("IX-2", "ROCCET has several events after the reduction", ">= 2", events_at_once),
    Statement("IX-3", "ROCCET has events later, while it probes", ">= 1", events_later),
    Statement("IX-4", "Before the reduction ROCCET's and BBRv3's windows are nearly equal", "0.8 to 1.25 x",
              windows_alike),
    Statement("IX-5", "After the reduction BBRv3 has higher smoothed RTTs than ROCCET", "median above ROCCET's",
              longer_bbr3),
    Statement("IX-6", "BBRv3 does not detect the reduction until the end", "> 0.9 x", bbr3_does_not_react),
    Statement("IX-7", "ROCCET's RTT is below that of a window that does not react to the reduction",
              "median below that of two BDP held", shorter_than_held),
    Statement("target-2a", "After the reduction ROCCET's median RTT is the lowest", "below each", lowest),
    Statement("target-2b", "ROCCET's goodput is within 10 % of the best", ">= 90 %", near_the_best),
)  # fmt: skip


def frozen_views(results: Results[RoccetSettings]) -> dict[str, Get]:
    """The figures of section III."""
    (scenario,) = named_scenarios((results.settings.frozen.scenario,)).values()
    at = f"{scenario.link.rtt_ms:g} ms, {(scenario.link.buffer_pkts or 0) / bdp_pkts(scenario):g} BDP"
    return {at: partial(of_scheme, results, "frozen")}


def halved_views(results: Results[RoccetSettings]) -> dict[str, Get]:
    """The figures of section IX, by RTT and buffer."""
    halved = results.settings.halved
    return {
        f"{scenario.link.rtt_ms:g} ms, {products:g} BDP": partial(of_scheme, results, "halved", name, f"{products:g}")
        for name, scenario in named_scenarios(halved.scenarios).items() for products in halved.buffers_bdp
    }  # fmt: skip


def of_scheme(results: Results[RoccetSettings], *at: str) -> Values:
    """A figure of a scheme. at: the key of a case, which ends with the scheme, and the name of the figure."""
    *key, figure = at
    return results.get(tuple(key), figure)
