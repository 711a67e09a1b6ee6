# SPDX-License-Identifier: MIT
"""The pictures of an advice's page: SVG in the page's own colours, each in a wide and in a narrow form.

A narrow form is not a wide one made smaller, in which nobody could read the text. The page shows one of the two.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from html import escape as escape_html

import numpy as np
from numpy.typing import NDArray

from kmod.terminal import visible
from training.observed.advice import Advice, Figure, Figures
from training.observed.advice_report import by_score
from training.observed.advice_text import digits
from training.observed.flow import Flow

UNIT = re.compile(r"(\d) (%|k?bit/s|Mbit/s|ms|s|MB)(?![\w/])")
WIDTHS = {"wide": 880, "narrow": 340}
LINE, GAP, CLOSE = 17, 16, 13
BINS = 160
Floats = NDArray[np.float64]


def escape(text: str) -> str:
    """A text for the page, without characters that control a terminal or are not Unicode.

    A number and its unit stay on one line.
    """
    return UNIT.sub("\\1&nbsp;\\2", escape_html(visible(text)))


def both(title: str, draw: object, *arguments: object) -> str:
    """The two forms of a picture. draw: called with a width, a boolean that is true for the narrow form, and these."""
    found = ""
    for kind, width in WIDTHS.items():
        height, body = draw(width, kind == "narrow", *arguments)  # type: ignore[operator]
        found += (f'<svg class="{kind}" viewBox="0 0 {width} {height:.0f}" role="img" '
                  f'aria-label="{escape(title)}">{body}</svg>')  # fmt: skip
    return found


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    """Words at a place."""
    look = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def nice_ticks(low: float, high: float, *, most: int) -> list[float]:
    """Round numbers within [low, high], at most about so many."""
    span = max(high - low, 1e-9)
    step = 10 ** math.floor(math.log10(span / most))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= most)
    return [step * at for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within [low, high]."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [factor * 10.0**power for power in powers for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]


@dataclass
class _Label:
    x: float
    y: float
    at_y: float
    words: str
    kind: str

    @property
    def width(self) -> float:
        """About, in px."""
        return 7.0 * len(self.words)


def _spread(labels: list[_Label], low: float, high: float) -> None:
    """Move labels apart, so that they are LINE from each other and within [low, high]."""
    labels.sort(key=lambda label: (round(label.y / LINE), -label.x))
    for before, label in zip([None, *labels], labels, strict=False):
        label.at_y = max(label.y, low if before is None else before.at_y + LINE)
    limit = high
    for label in reversed(labels):
        label.at_y = min(label.at_y, limit)
        limit = label.at_y - LINE


@dataclass(frozen=True)
class _Scales:
    """Of a picture with delays, or retransmissions, from left to right, and throughputs from bottom to top."""

    x: tuple[float, float]
    y: tuple[float, float]
    box: tuple[float, float, float, float]  # left, top, right, bottom
    by_loss: bool

    def at(self, its: Figures) -> tuple[float, float]:
        """The place of an algorithm."""
        return self.x_of(self.figure(its).value), self.y_of(its.throughput_mbps.value)

    def figure(self, its: Figures) -> Figure:
        """That which goes from left to right."""
        return its.retransmitted if self.by_loss else its.delay_ms

    def x_of(self, value: float) -> float:
        """A logarithmic scale for delays, and a linear one for retransmissions."""
        (low, high), (left, _, right, _) = self.x, self.box
        inside = min(max(value, low), high)
        share = inside / high if self.by_loss else math.log(inside / low) / math.log(high / low)
        return left + (right - left) * share

    def y_of(self, mbps: float) -> float:
        """A linear scale."""
        (low, high), (_, top, _, bottom) = self.y, self.box
        return bottom - (bottom - top) * (min(max(mbps, low), high) - low) / max(high - low, 1e-9)


def is_by_loss(advice: Advice) -> bool:
    """Whether candidates differ in retransmissions, as behind a policer, and hardly in delays."""
    its = list(advice.pooled.candidates.values())
    retransmitted = [one.retransmitted.value for one in its]
    return (max(one.delay_ms.value for one in its) < 0.5 * advice.target_ms
            and max(retransmitted) - min(retransmitted) > 0.01)  # fmt: skip


def _scales(advice: Advice, box: tuple[float, float, float, float]) -> _Scales:
    its, by_loss = list(advice.pooled.candidates.values()), is_by_loss(advice)
    most = max(one.throughput_mbps.value for one in its)
    if by_loss:
        x = (0.0, min(1.15 * max(one.retransmitted.high for one in its), 1.0))
    else:
        delays = [*(max(one.delay_ms.value, 0.5) for one in its), advice.target_ms]
        x = (min(delays) / 1.6, max(delays) * 1.7)
    return _Scales(x, (0.0, 1.15 * most), box, by_loss)


def trade_off(width: float, narrow: bool, advice: Advice) -> tuple[float, str]:  # noqa: FBT001 (called by `both`)
    """Throughput over the 95th percentile of the queueing delay of all candidates, with the target.

    Where they differ in retransmissions alone, these take the place of the delay.
    """
    height = 390.0
    left, top, right, bottom = box = 46.0, 34.0, width - 10, height - 44
    scales = _scales(advice, box)
    parts = []
    if not scales.by_loss:
        at = scales.x_of(advice.target_ms)
        parts += [f'<rect x="{at:.1f}" y="{top}" width="{right - at:.1f}" height="{bottom - top:.1f}" class="beyond"/>',
                  line(at, top, at, bottom, "target"),
                  _target_text(at, bottom - 8, f"target {advice.target_ms:g} ms", left)]  # fmt: skip
    for tick in nice_ticks(*scales.y, most=5):
        y = scales.y_of(tick)
        parts += [line(left, y, right, y, "grid"), text(left - 7, y + 4, digits(tick), anchor="end", kind="faint")]
    for tick in _x_ticks(scales, 5 if narrow else 9):
        words = f"{100 * tick:.3g}" if scales.by_loss else f"{tick:g}"
        parts += [line(scales.x_of(tick), bottom, scales.x_of(tick), bottom + 4, "axis"),
                  text(scales.x_of(tick), bottom + 19, words, anchor="middle", kind="faint")]  # fmt: skip
    name = "Retransmitted packets, %" if scales.by_loss else "95th percentile of the queueing delay, ms"
    parts += [
        line(left, bottom, right, bottom, "axis"),
        text(0, 14, "Throughput, Mbit/s", kind="strong"),
        text(right, height - 4, name, anchor="end", kind="strong"),
        text(right, 14, "better: up and left", anchor="end", kind="faint"),
    ]
    return height, "".join([*parts, *_points(advice, scales, narrow=narrow)])


def _target_text(at: float, y: float, words: str, left: float) -> str:
    """The label on the left of the target's line, or on its right where the left has no space for it."""
    if at - 6 - 7.0 * len(words) > left:
        return text(at - 6, y, words, anchor="end", kind="target-text")
    return text(at + 6, y, words, kind="target-text")


def _x_ticks(scales: _Scales, most: int) -> list[float]:
    if scales.by_loss:
        return nice_ticks(*scales.x, most=most)
    ticks = log_ticks(*scales.x)
    return ticks if len(ticks) <= most else [one for one in ticks if f"{one:g}".lstrip("0.")[0] == "1"]


def _points(advice: Advice, scales: _Scales, *, narrow: bool) -> list[str]:
    """The marks of the candidates and their labels, and the intervals of today's and of the advised one.

    In the narrow form the other labels are the numbers of the table's rows, and close marks share a label.
    """
    state, bars, labels = advice.pooled, [], list[_Label]()
    marks: dict[str, str] = {"other": "", "today": "", "advised": ""}
    left, top, right, bottom = scales.box
    for number, one in enumerate(by_score(state, advice), 1):
        its = state.candidates[one.name]
        x, y = scales.at(its)
        is_today, is_advised = one.name in state.algorithms, one is state.advised
        kind = "advised" if is_advised else "today" if is_today else "other"
        across = scales.figure(its)
        if kind != "other":
            bars.append(line(scales.x_of(across.low), y, scales.x_of(across.high), y, f"bar {kind}"))
        marks[kind] += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{8 if is_advised else 6}" class="mark {kind}"/>'
        words = str(number) if narrow else one.label + (" (today)" if is_today else "")
        known = next((label for label in labels if narrow and math.hypot(label.x - x, label.y - y) < CLOSE), None)
        if known is None:
            labels.append(_Label(x, y, y, words, kind))
        else:
            known.words, known.kind = f"{known.words}, {words}", kind if kind != "other" else known.kind
    for side in (True, False):
        its_labels = [label for label in labels if (label.x + GAP + label.width <= right) is side]
        _spread(its_labels, top + 8, bottom - 26)
        for label in its_labels:
            at_x = label.x + GAP if side else max(label.x - GAP, left + 4 + label.width)
            if abs(label.at_y - label.y) > 3:
                bars.append(line(label.x, label.y, at_x + (-2 if side else 2), label.at_y, "leader"))
            bars.append(text(at_x, label.at_y + 4, label.words, anchor="start" if side else "end",
                             kind=f"halo {label.kind}-text"))  # fmt: skip
    # Marks are on top of labels, and the advised one is on top of the others.
    return [*bars, *marks.values()]


def over_time(width: float, narrow: bool, flow: Flow) -> tuple[float, str]:  # noqa: FBT001 (called by `both`)
    """Rate, retransmissions and RTT of a flow over time."""
    seconds, rate, lost, rtt = binned(flow, 70 if narrow else BINS)
    left, right, panel, between = 46.0, 6.0, 84.0, 34.0
    top_rate, top_rtt = 22.0, 22.0 + panel + between
    span_s = max(float(seconds[-1]), 1e-9)

    def x_of(at_s: Floats) -> Floats:
        return left + (width - left - right) * at_s / span_s

    bounds_x = x_of(seconds)
    middles_x = (bounds_x[1:] + bounds_x[:-1]) / 2

    parts = []
    for top, values, name in ((top_rate, rate, "Delivered, Mbit/s"), (top_rtt, rtt, "RTT, ms")):
        high = max(float(np.nanmax(values)) if not np.isnan(values).all() else 0.0, 1e-3) * 1.08
        parts.append(text(0, top - 9, name, kind="strong"))
        for tick in nice_ticks(0, high, most=3):
            y = top + panel * (1 - tick / high)
            parts += [line(left, y, width - right, y, "grid"),
                      text(left - 7, y + 4, digits(tick), anchor="end", kind="faint")]  # fmt: skip
        y_values = top + panel * (1 - np.nan_to_num(values) / high)
        if name.startswith("RTT"):
            parts.append(_broken(middles_x, y_values, ~np.isnan(values)))
        else:
            parts.append(_area(bounds_x, y_values, top + panel))
            parts += [f'<circle cx="{middles_x[at]:.1f}" cy="{top + panel - 4:.1f}" '
                      'r="2.6" class="lost"/>' for at in np.flatnonzero(lost)]  # fmt: skip
        parts.append(line(left, top + panel, width - right, top + panel, "axis"))
    bottom = top_rtt + panel
    for tick in nice_ticks(0, span_s, most=4 if narrow else 8):
        parts.append(text(float(x_of(np.array(tick))), bottom + 18, f"{tick:g} s", anchor="middle", kind="faint"))
    return bottom + 26, "".join(parts)


def binned(flow: Flow, most: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Bounds of bins in s [n + 1], and of each bin Mbit/s, transmissions lost, and the RTT in ms (NaN without one)."""
    steps = flow.steps
    times_s = (steps["time_us"] - steps["time_us"][0]).astype(np.float64) / 1e6
    # A bin holds at least a round trip, so that each has an ACK while data flows.
    round_trips = int(times_s[-1] * 1e6 / max(flow.min_rtt_us, 1))
    bins = min(max(len(steps) - 1, 1), max(round_trips, 1), most)
    bounds_s = np.linspace(0, max(float(times_s[-1]), 1e-6), bins + 1)
    delivered = np.diff(np.interp(bounds_s, times_s, steps["delivered_bytes"].astype(np.float64)))
    place = np.clip(np.searchsorted(bounds_s, times_s, side="left") - 1, 0, bins - 1)
    lost = np.bincount(place, np.diff(steps["lost_pkts"].astype(np.float64), prepend=0), bins).astype(np.float64)
    shown = steps["rtt_us"] > 0
    sums, counts = (np.bincount(place[shown], weights, bins) for weights in (steps["rtt_us"][shown] / 1000, None))
    rtt = np.divide(sums, counts, out=np.full(bins, np.nan), where=counts > 0)
    return bounds_s, delivered * 8e-6 / np.diff(bounds_s), lost, rtt


def _area(bounds_x: Floats, y: Floats, base: float) -> str:
    corners = " ".join(
        f"{a:.1f},{v:.1f} {b:.1f},{v:.1f}" for a, b, v in zip(bounds_x[:-1], bounds_x[1:], y, strict=True)
    )
    return f'<polygon points="{bounds_x[0]:.1f},{base:.1f} {corners} {bounds_x[-1]:.1f},{base:.1f}" class="area"/>'


def _broken(x: Floats, y: Floats, known: NDArray[np.bool_]) -> str:
    """A line through the known points, broken where one is unknown."""
    path, is_open = "", False
    for at_x, at_y, is_known in zip(x, y, known, strict=True):
        if is_known:
            path += f"L{at_x:.1f} {at_y:.1f}" if is_open else f"M{at_x:.1f} {at_y:.1f}h.01"
        is_open = bool(is_known)
    return f'<path d="{path}" class="rtt"/>' if path else ""
