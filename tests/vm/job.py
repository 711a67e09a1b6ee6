# SPDX-License-Identifier: MIT
"""What the guest's programs are told: texts of tables, cases, figures. Everything that takes a library is done here."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.vm import boot, cases

SETTINGS = "class_source 1\nclass_mask 4294967295\ndefault_class 0\nfollow_initial 1\nmax_flows 1048576\n"


def job(folder: Path, *, long: bool) -> dict[str, Any]:
    """The contents of job.json; ensembles to publish are put into the shared folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in (1, 2):
        cases.ensemble(first_value=20_000 + 10_000 * number).save(folder / f"ensemble-{number}.json")
    return {
        "ccatune": str(Path(sys.executable).with_name("ccatune")),
        "default_parameters": cases.default_parameters(),
        "cases": {name: steps for name, (steps, _) in cases.cases().items()},
        "tables": {
            "first": cases.text(1),
            "second": cases.text(2, first_value=30_000),
            # levels of 2 Mbit/s, epochs of half a second
            "levels": cases.text(11, levels=12, step=250_000),
            "moved_levels": cases.text(13, levels=24, step=125_000, epoch_ms=300, epsilon_pct=25),
            "by_hand": cases.text(1, channel="by-hand", first_value=90_000),
            "held_back": cases.text(12, hold_back_permille=300, levels=8, step=50_000),
            "moved": cases.text(14, hold_back_permille=300, levels=8, step=50_000, first_value=50_000),
        },
        "repository": str(boot.REPOSITORY),
        "site_packages": sysconfig.get_path("purelib"),
        "phase_s": 5 if long else 2.5,
        "spurious": 3 if long else 2,
        "pauses_s": [0.1, 1.5, 0.05, 1.2] if long else [0.05, 1.2],
        "record_acks": 11_000 if long else 2_200,
        "default_settings": SETTINGS,
        "storm_tables": [cases.text(100 + n, levels=2 + 3 * n, first_value=20_000 + 1000 * n) for n in range(4)],
        "storm_writes": 10_000 if long else 80,
        "seed": 1,
        "changes": 500 if long else 50,
        "namespaces": 40 if long else 4,
        "churn_s": 10 if long else 2,
        "bulk_rounds": 3,
        "bulk_s": 1,
    }
