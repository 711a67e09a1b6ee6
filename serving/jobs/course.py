# SPDX-License-Identifier: MIT
"""The course of an attempt: its progress over time, for the figures of its page.

    [[seconds since the attempt began, done share, best points found, those that meet their requirement], ...]

A point is added where a figure has changed. If there are `_MOST_POINTS`, every second one is dropped first, so that the
course always covers the whole attempt. The values of best points are not in it: each search has its own network states,
so the values of one search say nothing about those of the next.
"""

from __future__ import annotations

import json

from serving.jobs.schemas import JobProgress

_MOST_POINTS = 200
_SHARE_DIGITS = 3

Point = tuple[float, float, int, int]


def extended(course: str, progress: JobProgress, *, at_s: float) -> str:
    """Return the course with this progress. course: as JSON."""
    points: list[list[float]] = json.loads(course)
    figures = [round(progress.share, _SHARE_DIGITS), progress.points, progress.points_meeting]
    if points and points[-1][1:] == figures:
        return course
    if len(points) >= _MOST_POINTS:
        points = points[::2]
    return json.dumps([*points, [round(at_s, 1), *figures]])


def points_of(course: str) -> list[Point]:
    """Return the points of a course, in the order of their times."""
    return [(at_s, share, int(found), int(meeting)) for at_s, share, found, meeting in json.loads(course)]
