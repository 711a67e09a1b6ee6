# SPDX-License-Identifier: MIT
"""What holds of every figure, whatever it shows."""

from __future__ import annotations

from matplotlib.figure import Figure

ROUNDING_IN = 0.02


def is_inside(figure: Figure) -> bool:
    """Whether all that is drawn lies inside of the figure, so that nothing is cut off."""
    figure.draw_without_rendering()
    drawn, (width_in, height_in) = figure.get_tightbbox(), figure.get_size_inches()
    return (
        min(drawn.x0, drawn.y0) >= -ROUNDING_IN
        and drawn.x1 <= width_in + ROUNDING_IN
        and drawn.y1 <= height_in + ROUNDING_IN
    )
