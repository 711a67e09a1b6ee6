# SPDX-License-Identifier: MIT
"""Consoles of rich that print names as they are written: as neither styles, emoji nor control characters."""

from __future__ import annotations

from typing import Any

from rich.console import Console  # noqa: TID251 (the only place)
from rich.text import Text

from kmod.terminal import visible


class _AsWritten(Console):
    """rich calls `render_str` for every text that it prints or measures, such as the cells of a table."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str("\n".join(map(visible, text.split("\n"))), **options)


def as_written(**options: Any) -> Console:
    """Return such a console. options: of rich.console.Console."""
    return _AsWritten(markup=False, emoji=False, **options)
