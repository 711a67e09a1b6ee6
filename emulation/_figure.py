# SPDX-License-Identifier: MIT
"""Figures of matplotlib whose texts are drawn as they are written.

Names of files, links and schemes may contain any character. matplotlib draws the part of a text between two dollar
signs as a formula and fails if it is none, and it fails at bytes that are not UTF-8.
The module does not use pyplot, which may access a window system and has global state.
"""

from __future__ import annotations

from typing import Any

from matplotlib import rc_context
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from kmod.terminal import visible

__all__ = ["new_figure"]


class _PlainFigure(Figure):
    """No text is a formula, also no label of a tick. So logarithmic axes need formatters of their own."""

    def draw(self, renderer: RendererBase) -> None:
        for text in self.findobj(Text):
            if isinstance(text, Text):  # for the type checker
                text.set_parse_math(False)
                text.set_text("\n".join(map(visible, text.get_text().split("\n"))))
        # Labels of ticks that do not exist yet are made during the drawing.
        with rc_context({"text.parse_math": False}):
            super().draw(renderer)


def new_figure(width_in: float, height_in: float, **options: Any) -> Figure:
    """Return an empty figure. options: of matplotlib.figure.Figure."""
    look = {"dpi": 130, "layout": "constrained", "facecolor": "white"} | options
    figure = _PlainFigure((width_in, height_in), **look)
    FigureCanvasAgg(figure)
    return figure
