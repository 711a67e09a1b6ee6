# SPDX-License-Identifier: MIT
"""The log of answers: faults and slow ones, or with the setting `access_log` all of them.

A client cannot fill the log with faults and slow answers: at most `_MOST_LINES` of them are written in `_PERIOD_S`, and
the next line says how many were left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from starlette.types import Scope

from kmod.terminal import visible
from serving.http.layers import request_id_of

_FAULT = 500
_MOST_LINES = 20
_PERIOD_S = 10.0
_CALLER_KEY = "ccatune_caller"

_log = logging.getLogger("ccatune.access")


class AccessLog:
    """Writes a line for an answer. All methods belong to the event loop.

    slow_s: an answer that took as long is logged. logs_all: so is any other.
    """

    def __init__(
        self, *, slow_s: float, logs_all: bool = False, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._slow_s = slow_s
        self._logs_all = logs_all
        self._monotonic = monotonic
        self._period_ends_s = 0.0
        self._n_lines = 0
        self._n_left_out = 0

    def wants(self, status: int, duration_s: float) -> bool:
        """Whether an answer is to be logged."""
        return status >= _FAULT or duration_s >= self._slow_s or self._logs_all

    def write(self, scope: Scope, status: int, duration_s: float, *, is_poll: bool = False) -> None:
        """Write the line of an answer, unless too many lines were written shortly before. A poll is never slow."""
        left_out = 0
        if not self._logs_all:
            now_s = self._monotonic()
            if now_s >= self._period_ends_s:
                self._period_ends_s, self._n_lines = now_s + _PERIOD_S, 0
                left_out, self._n_left_out = self._n_left_out, 0
            self._n_lines += 1
            if self._n_lines > _MOST_LINES:
                self._n_left_out += 1
                return
        is_fault = status >= _FAULT or (duration_s >= self._slow_s and not is_poll)
        level = logging.WARNING if is_fault else logging.INFO
        self._write(level, scope, status, duration_s, left_out=left_out)

    def _write(self, level: int, scope: Scope, status: int, duration_s: float, *, left_out: int) -> None:
        caller = scope["state"].get(_CALLER_KEY)
        fields: dict[str, Any] = {
            "request_id": request_id_of(scope),
            "caller": None if caller is None else caller.name,
            "address": scope["client"][0] if scope.get("client") else None,
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "duration_s": round(duration_s, 6),
        }
        if left_out:
            fields["left_out"] = left_out
        _log.log(
            level,
            "%s %s %d in %.3f s, by %s, request %s%s",
            scope["method"],
            visible(scope["path"]),
            status,
            duration_s,
            fields["caller"] or "nobody",
            fields["request_id"],
            f"; {left_out} lines were left out before it" if left_out else "",
            extra={"fields": fields},
        )
