# SPDX-License-Identifier: MIT
"""Deletes what is older than its retention time, in the background.

A sweep runs a minute after the start and then every hour. It deletes a few hundred rows at a time, each time by a short
write and with a pause after it, so that it delays no report. Without old rows it writes nothing.
"""

from __future__ import annotations

from serving.background import Background

PAUSE_S = 0.2


class Retention(Background):
    """The sweeps of one registry over one kind of rows."""

    first_s = 60.0
    every_s = 3600.0
