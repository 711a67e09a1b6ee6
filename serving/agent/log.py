# SPDX-License-Identifier: MIT
"""The agent's log on stderr: one line per event, as `key=value` or as JSON. Without a change nothing is logged."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

_MAX_VALUE_CHARACTERS = 500


class EventLog:
    """Writes events. Several threads may use it at once."""

    def __init__(
        self,
        *,
        stream: TextIO | None = None,
        as_json: bool = False,
        has_times: bool = False,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Create the log. has_times: begin each line with the time (UTC), which systemd's journal adds itself."""
        self._stream = stream if stream is not None else sys.stderr
        self._as_json = as_json
        self._has_times = has_times
        self._now_s = now_s
        self._lock = threading.Lock()

    def event(self, name: str, **fields: object) -> None:
        """Write one line, without the fields that are None."""
        times = {"time": _utc(self._now_s())} if self._has_times else {}
        present = {**times, "event": name, **{key: value for key, value in fields.items() if value is not None}}
        if self._as_json:
            line = json.dumps(present, default=str)
        else:
            line = " ".join(f"{key}={_plain(value)}" for key, value in present.items())
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


def is_journal(stream: TextIO) -> bool:
    """Whether the stream leads to systemd's journal, which JOURNAL_STREAM names by its device and inode."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _utc(now_s: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_s))}.{int(now_s % 1 * 1000):03d}Z"


def _plain(value: object) -> str:
    """Quote a value that would break the `key=value` format. Texts of a registry or kernel may contain any character.

    A value of more than 500 characters is truncated.
    """
    text = str(value)
    if len(text) > _MAX_VALUE_CHARACTERS:
        text = text[:_MAX_VALUE_CHARACTERS] + "..."
    if text and text.isprintable() and not any(character in text for character in ' "=\\'):
        return text
    return json.dumps(text)
