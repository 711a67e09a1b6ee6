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
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from kmod.terminal import visible

# Colours of Okabe and Ito 2008, which colour-blind readers can distinguish.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")

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


def dress(axes: Axes, *, ink: str, grid: str, spine: str, ticks: int) -> None:
    """Give axes a quiet look, in these colours. ticks: the largest number of ticks of the y-axis."""
    axes.grid(color=grid, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=ink, length=3, labelsize=9)
    for side, is_shown in (("top", False), ("right", False), ("left", True), ("bottom", True)):
        axes.spines[side].set_visible(is_shown)
        axes.spines[side].set_color(spine)
    if not axes.yaxis_inverted() and len(axes.get_yticks()):
        axes.yaxis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 2.5, 5, 10]))


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
