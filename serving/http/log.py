# SPDX-License-Identifier: MIT
"""The log of the registry's process on stderr, as text or as JSON.

    text   2026-03-01T12:00:00.000Z WARNING serving.access.check: refused 1 requests ...
    json   {"time": "2026-03-01T12:00:00.000Z", "level": "warning", "logger": "serving.access.check", "message": ...}

An object has one line. Lines of answers have request_id, caller, address, method, path, status and duration_s, too. An
error with a traceback has it as `exception`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]


class _Text(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")


class _Json(_Text):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_log(form: LogFormat, *, stream: TextIO | None = None) -> None:
    """Write the log of the whole process to stderr, from now on in this form."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # Its lines at this level are written only with the setting `access_log`.
    logging.getLogger("ccatune.access").setLevel(logging.INFO)
