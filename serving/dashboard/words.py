# SPDX-License-Identifier: MIT
"""Figures, times and digests as people read them. Each function here is a filter of the templates, by its name."""

from __future__ import annotations

from datetime import datetime

from markupsafe import Markup

_DIGEST_CHARS = 12
_UNITS_S = ((86_400, "day"), (3600, "hour"), (60, "minute"))


def duration(seconds: float) -> str:
    """Return a time such as `90 seconds` or `3.5 hours`."""
    for unit_s, unit in _UNITS_S:
        if seconds >= 2 * unit_s:
            number = seconds / unit_s
            return f"{round(number, 1 if number < 10 else None):g} {unit}s"
    return f"{max(0.0, seconds):.0f} seconds"


def when(moment: datetime, now: datetime) -> Markup:
    """Return how long ago it was, with the time itself for machines and on the pointer."""
    stamp = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), stamp, _ago(moment, now))


def _ago(moment: datetime, now: datetime) -> str:
    past_s = (now - moment).total_seconds()
    if past_s < 0:
        return f"in {duration(-past_s)}"
    return "just now" if past_s < 2 else f"{duration(past_s)} ago"


def short(digest: str) -> str:
    """Return the first digits of a digest `sha256:...`."""
    return digest.removeprefix("sha256:")[:_DIGEST_CHARS]


def percent(share: float | None) -> str:
    """Return a share in percent, or a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def count(number: int) -> str:
    """Return a number with thousands apart."""
    return f"{number:,}"


def plural(number: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun, such as `1 server` or `3 servers`."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"
