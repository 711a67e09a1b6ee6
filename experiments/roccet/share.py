# SPDX-License-Identifier: MIT
"""Statements of the ROCCET paper on a shared link (section VIII), and harm after Ware et al.

    ratio     the one flow's share of all throughput over its equal share: share x (n + 1)
    unequal   the ratio, or its inverse where the ratio is below 1. 1 is equal, and a larger value is less equal
    harm      of throughput (alone - beside) / alone; of delay, where less is better, (beside - alone) / beside (Ware et
              al. 2019, section 4). 0 is none, and 1 is all
    cell      a buffer and a number of ROCCET flows. A figure shows the cell that is farthest from agreement

A new algorithm may do as much harm to a flow as that flow's own algorithm does. A figure is therefore the harm by
ROCCET less the harm by the flow's own algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from experiments.campaign import Results, Values
from experiments.figures import Figure, Statement, within
from experiments.roccet.made import NAMES
from experiments.roccet.settings import RoccetSettings, ShareSettings, named_scenarios

LARGER_BDP = 8  # the larger one where the paper compares two buffers; the smaller one has one BDP
DEEP_BDP = 16  # from section VIII-B; "if the buffer size increases further"
MANY = 8


@dataclass(frozen=True)
class Link:
    """The figures of one link.

    first: the link that is the settings' first one; None if this is it.
    """

    name: str
    settings: ShareSettings
    results: Results[RoccetSettings]
    first: Link | None = None

    @property
    def largest(self) -> float:
        """The largest buffer, in BDP."""
        return self.settings.buffers_bdp[-1]

    @property
    def deeper(self) -> tuple[float, ...]:
        """The buffers above the smallest one, which is one BDP."""
        return self.settings.buffers_bdp[1:]

    def nearest(self, buffer_bdp: float) -> float:
        """The largest buffer up to that one, or else the smallest.

        The settings need not include the paper's buffers.
        """
        return max((b for b in self.settings.buffers_bdp if b <= buffer_bdp), default=self.settings.buffers_bdp[0])

    def get(self, cca: str, buffer_bdp: float, crowd: str, figure: str) -> Values:
        """The values of a figure, one for each seed."""
        return self.results.get(("share", self.name, f"{buffer_bdp:g}", cca, crowd), figure)

    def ratio(self, cca: str, buffer_bdp: float, flows: int) -> Values:
        """The one flow's share beside `flows` flows of ROCCET, over its equal share."""
        return self.get(cca, buffer_bdp, f"beside-{flows}", "share") * (flows + 1)

    def unequal(self, cca: str, buffer_bdp: float, flows: int) -> Values:
        """The ratio or its inverse, whichever is larger."""
        ratio = np.maximum(self.ratio(cca, buffer_bdp, flows), 1e-3)
        return np.maximum(ratio, 1 / ratio)

    def cells(
        self,
        values: Callable[[float, int], Values],
        *,
        buffers: Iterable[float] | None = None,
        flows: Iterable[int] | None = None,
    ) -> dict[str, Values]:
        """Values by cell. The default is all buffers and all numbers of ROCCET flows."""
        return {
            f"{buffer:g} BDP x {n}": values(buffer, n)
            for buffer in (self.settings.buffers_bdp if buffers is None else buffers)
            for n in (self.settings.roccet_flows if flows is None else flows)
        }


def all_within(label: str, cells: Mapping[str, Values], *, least: float = -math.inf, most: float = math.inf,
               unit: str = "%") -> Figure:  # fmt: skip
    """Check every cell with `within`. The figure is that of the cell farthest outside, or nearest to a bound.

    cells: the values of each cell, one for each seed. Between two bounds the interval of each cell must also fit.
    """
    each = {name: within(name, values, least=least, most=most, unit=unit) for name, values in cells.items()}
    name, worst = max(each.items(), key=lambda item: max(least - item[1].mean, item[1].mean - most))
    agreeing = sum(figure.agrees for figure in each.values())
    text = f"{label} in {agreeing} of {len(each)}, farthest at {name}:"
    return replace(worst, label=text, agrees=agreeing == len(each))


def equal_among_roccet(link: Link) -> list[Figure]:
    return [all_within("equal share", link.cells(partial(link.ratio, "roccet")), least=0.8, most=1.25, unit="x")]


def takes_more(link: Link, cca: str) -> list[Figure]:
    cells = link.cells(partial(link.ratio, cca), buffers=link.deeper)
    return [all_within(f"{NAMES[cca]}'s share", cells, least=1, unit="x")]


def worse_with_buffers(link: Link, cca: str) -> list[Figure]:
    shallow, deep = link.nearest(1), link.nearest(LARGER_BDP)
    cells = link.cells(lambda b, n: link.ratio(cca, b, n) - link.ratio(cca, shallow, n), buffers=(deep,))
    return [all_within(f"{NAMES[cca]} more than at {shallow:g} BDP", cells, least=0, unit="x")]


def cubic_above_bbr3(link: Link) -> list[Figure]:
    cells = link.cells(lambda b, n: link.ratio("cubic", b, n) - link.ratio("bbr3", b, n), buffers=link.deeper)
    return [all_within("CUBIC's less BBRv3's", cells, least=0, unit="x")]


def fairer_at_last(link: Link) -> list[Figure]:
    many = [n for n in link.settings.roccet_flows if n >= MANY] or link.settings.roccet_flows[-1:]
    deep = min(link.nearest(DEEP_BDP), link.settings.buffers_bdp[-2])
    cells = link.cells(lambda b, n: link.unequal("cubic", b, n) - link.unequal("cubic", deep, n),
                       buffers=(link.largest,), flows=many)  # fmt: skip
    return [all_within(f"less unequal than at {deep:g} BDP", cells, most=0, unit="x")]


def as_itself_at_one(link: Link) -> list[Figure]:
    apart = link.get("cubic", 1, "beside-1", "share") - link.get("cubic", 1, "beside-itself", "share")
    return [all_within("CUBIC's beside ROCCET less beside CUBIC", {"1 BDP": apart}, least=-0.1, most=0.1)]


def below_30(link: Link) -> list[Figure]:
    if link.first is not None:
        return []  # the paper states it of this link alone
    cells = link.cells(lambda b, n: 1 - link.get("bbr3", b, f"beside-{n}", "share"), flows=(1,))
    return [all_within("ROCCET's share", cells, most=0.3)]


def better_beside_bbr3(link: Link) -> list[Figure]:
    cells = link.cells(lambda b, n: link.ratio("cubic", b, n) - link.ratio("bbr3", b, n), buffers=link.deeper,
                       flows=(1,))  # fmt: skip
    return [all_within("CUBIC's less BBRv3's", cells, least=0, unit="x")]


def fairer_than_first(link: Link) -> list[Figure]:
    if link.first is None:
        return []
    return [
        all_within(f"{NAMES[cca]}'s less unequal",
                   link.cells(partial(_less, link, link.first, cca), buffers=link.deeper), most=0, unit="x")
        for cca in ("cubic", "bbr3")
    ]  # fmt: skip


def _less(link: Link, first: Link, cca: str, buffer_bdp: float, flows: int) -> Values:
    return link.unequal(cca, buffer_bdp, flows) - first.unequal(cca, buffer_bdp, flows)


def _harm(link: Link, cca: str) -> list[Figure]:
    def harm(buffer_bdp: float, crowd: str) -> Values:
        alone, beside = (link.get(cca, buffer_bdp, c, "goodput_mbps") for c in ("alone", crowd))
        return np.maximum((alone - beside) / alone, 0)

    def delay(buffer_bdp: float, crowd: str) -> Values:
        alone, beside = (link.get(cca, buffer_bdp, c, "rtt_p95_ms") for c in ("alone", crowd))
        return np.maximum((beside - alone) / beside, 0)

    more = {
        what: {f"{buffer:g} BDP": of(buffer, "beside-1") - of(buffer, "beside-itself")
               for buffer in link.settings.buffers_bdp}
        for what, of in (("throughput", harm), ("delay", delay))
    }  # fmt: skip
    return [all_within(f"{what} harm", cells, most=0) for what, cells in more.items()]


SHARED = (
    Statement("VIII-1", "ROCCET has a nearly equal share with other ROCCET flows", "0.8 to 1.25 x", equal_among_roccet),
    Statement("VIII-2", "CUBIC gets more than the equal share beyond one BDP", ">= 1 x",
              partial(takes_more, cca="cubic")),
    Statement("VIII-3", "BBRv3 gets more than the equal share beyond one BDP", ">= 1 x",
              partial(takes_more, cca="bbr3")),
    Statement("VIII-4", "The larger the buffer, the more CUBIC takes", "more at 8 BDP than at 1",
              partial(worse_with_buffers, cca="cubic")),
    Statement("VIII-5", "The larger the buffer, the more BBRv3 takes", "more at 8 BDP than at 1",
              partial(worse_with_buffers, cca="bbr3")),
    Statement("VIII-6", "CUBIC gets more than BBRv3", "beyond one BDP", cubic_above_bbr3),
    Statement("VIII-7", "Beside 8 ROCCET flows or more CUBIC's share is more equal again in the largest buffers",
              "less than at 16 BDP", fairer_at_last),
    Statement("VIII-8", "At one BDP CUBIC shares with ROCCET as with itself", "within 10 points", as_itself_at_one),
    Statement("VIII-9", "Beside one BBRv3 flow ROCCET has less than 30 %", "at each buffer (of 50 Mbit/s)", below_30),
    Statement("VIII-10", "Beyond one BDP ROCCET has more beside BBRv3 than beside CUBIC", "one flow each",
              better_beside_bbr3),
    Statement("VIII-11", "The slower link shares more equally with CUBIC and BBRv3", "less than on the other link",
              fairer_than_first),
    Statement("target-4a", "ROCCET does CUBIC no more harm than CUBIC does", "<= 0", partial(_harm, cca="cubic")),
    Statement("target-4b", "ROCCET does BBRv1 no more harm than BBRv1 does", "<= 0", partial(_harm, cca="bbr")),
    Statement("target-4c", "ROCCET does BBRv3 no more harm than BBRv3 does", "<= 0", partial(_harm, cca="bbr3")),
)  # fmt: skip


def share_views(results: Results[RoccetSettings]) -> dict[str, Link]:
    """The links. The statements compare the others with the settings' first one."""
    found: dict[str, Link] = {}
    share = results.settings.share
    for name, scenario in named_scenarios(share.scenarios).items():
        at = f"{scenario.link.rate_mbps or 0:g} Mbit/s x {scenario.link.rtt_ms:g} ms"
        found[at] = Link(name, share, results, next(iter(found.values()), None))
    return found
