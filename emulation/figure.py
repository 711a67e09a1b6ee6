# SPDX-License-Identifier: MIT
"""Figures of matplotlib whose texts are drawn as they are written.

Names of files, links and schemes may contain any character. matplotlib draws the part of a text between two dollar
signs as a formula and fails if it is none, and it fails at bytes that are not UTF-8.
The module does not use pyplot, which may access a window system and has global state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from kmod.terminal import visible

__all__ = ["columns_that_fit", "new_figure"]

# Of an entry of a legend of 9 points: its mark with the gaps, and the mean width of a character.
MARK_IN, CHARACTER_IN = 0.5, 0.07


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


def new_figure(width_in: float, height_in: float, *, facecolor: str = "white") -> Figure:
    """Return an empty figure. facecolor: a colour of matplotlib, or "none"."""
    figure = _PlainFigure((width_in, height_in), dpi=130, layout="constrained", facecolor=facecolor)
    FigureCanvasAgg(figure)
    return figure


def columns_that_fit(handles: Sequence[Artist], width_in: float) -> int:
    """Return the largest number of columns, at least one, in which a legend with these entries has this width."""
    widths_in = [MARK_IN + CHARACTER_IN * len(str(handle.get_label())) for handle in handles]
    return next(
        (
            count
            for count in range(len(handles), 1, -1)
            if sum(max(column) for column in np.array_split(widths_in, count)) <= width_in
        ),
        1,
    )
