# SPDX-License-Identifier: MIT
"""Traces of links: read and check them, cut them into epochs and parts, and make new ones."""

from emulation.errors import TraceError
from emulation.traces.epochs import EPOCH_S, Epoch, epochs
from emulation.traces.reader import Reading, read, read_recordings
from emulation.traces.recording import Gap, Recording, place_of
from emulation.traces.split import Part, default_traces, read_split, require_part
from emulation.traces.trace import OPPORTUNITY_BYTES, Trace

__all__ = [
    "EPOCH_S",
    "OPPORTUNITY_BYTES",
    "Epoch",
    "Gap",
    "Part",
    "Reading",
    "Recording",
    "Trace",
    "TraceError",
    "default_traces",
    "epochs",
    "place_of",
    "read",
    "read_recordings",
    "read_split",
    "require_part",
]
