# SPDX-License-Identifier: MIT
"""Processors that do not sleep, so that what waits for a timer wakes up in time.

A processor with nothing to do sleeps, and takes time to wake up: on a virtual machine its host may have given it away.
Timers of 1 ms on two idle virtual processors were late by up to 1.4 to 2 ms in one of a hundred cases, by 0.08 ms with
this. Emulated links wake up once a ms.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

__all__ = ["kept_awake"]

# Held open with a number of us: no processor sleeps so deeply that it takes longer to wake up (Linux's
# Documentation/power/pm_qos_interface). The system's own setting is in force again when the file is closed.
LATENCY = Path("/dev/cpu_dma_latency")


@contextlib.contextmanager
def kept_awake() -> Iterator[bool]:
    """No processor sleeps while this lasts; gives whether that is so: it takes root, and a kernel with that device."""
    try:
        held = os.open(LATENCY, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        os.write(held, struct.pack("=i", 0))
        yield True
    finally:
        os.close(held)
