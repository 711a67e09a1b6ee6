# SPDX-License-Identifier: MIT
"""What the guest's programs are told: texts of tables, cases, figures. Everything that takes a library is done here."""

from __future__ import annotations

from typing import Any

import cases


def job() -> dict[str, Any]:
    """The contents of job.json."""
    return {
        "default_parameters": cases.default_parameters(),
        "cases": {name: steps for name, (steps, _) in cases.cases().items()},
        "tables": {
            "first": cases.text(1),
            "second": cases.text(2, first_value=30_000),
            # levels of 2 Mbit/s, epochs of half a second
            "levels": cases.text(11, levels=12, step=250_000),
            "held_back": cases.text(12, hold_back_permille=300, levels=8, step=50_000),
            "moved": cases.text(13, hold_back_permille=300, levels=8, step=50_000, first_value=50_000),
        },
        "phase_s": 4,
    }
