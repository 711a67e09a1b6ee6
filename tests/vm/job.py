# SPDX-License-Identifier: MIT
"""What the guest's programs are told: texts of tables, cases, figures. Everything that takes a library is done here."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.vm import boot, cases
from tests.vm.lines import DEBUG
from tests.vm.subjects import SUBJECTS, Subject

LIMIT_BYTES_PER_S, LIMIT_BURST_BYTES = 500_000, 400_000
# R-TCP counts what segments carry, the police action IP packets: a frame that comes in has lost its Ethernet header.
SEGMENT_BYTES, PACKET_BYTES = 1448, 1500
# At once: so many as R-TCP's paper names (section 4.2), and in the tier.
MANY_CONNECTIONS, FEW_CONNECTIONS, MANY_CLIENTS = 8_000, 100, 1_000
# That a brief recording has to hold.
BRIEF_ACKS = 400
# Between transfers of a flow: two shorter than a retransmission timeout, two longer.
TRANSFER_PAUSES_S = [0.03, 0.03, 1.5, 1.5]
SETTINGS = "class_source 1\nclass_mask 4294967295\ndefault_class 0\nfollow_initial 1\nmax_flows 1048576\n"


def limits(line: dict[str, str]) -> tuple[float, float]:
    """B and R of a line of `clients` or `flows`, as parts of the policer's."""
    payload = SEGMENT_BYTES / PACKET_BYTES
    bucket, rate = int(line["bucket_bytes"]), int(line["limit_bytes_per_s"])
    return bucket / (LIMIT_BURST_BYTES * payload), rate / (LIMIT_BYTES_PER_S * payload)


def recorded_beside(subject: Subject, *, long: bool) -> tuple[str, ...]:
    """The modules that are recorded briefly after this one. In the campaigns each module has its own program."""
    return () if long or DEBUG else subject.recorded_beside


def of_subject(subject: Subject, folder: Path, *, long: bool) -> dict[str, Any]:
    """What programs are told of the module that they run for; ensembles to publish are put into the shared folder."""
    for number in (1, 2):
        published = cases.ensemble(subject, base=20 + 10 * number)
        published.save(folder / f"{subject.cca}-ensemble-{number}.json")
    knob, default, first, second = subject.knob
    return {
        "cca": subject.cca,
        "name": subject.name,
        "module": subject.module,
        "marker": subject.marker,
        "moved_from": 50 * subject.unit,
        "modes": subject.modes,
        "steady_modes": subject.steady_modes,
        "recorded_beside": recorded_beside(subject, long=long),
        "knob": {"name": knob, "default": default, "first": first, "second": second},
        "default_parameters": cases.default_parameters(subject),
        "cases": {name: steps for name, (steps, _) in cases.cases(subject).items()},
        "tables": {
            "first": cases.text(subject, 1),
            "second": cases.text(subject, 2, base=30),
            # levels of 2 Mbit/s, epochs of half a second
            "levels": cases.text(subject, 11, levels=12, step=250_000),
            "moved_levels": cases.text(subject, 13, levels=24, step=125_000, epoch_ms=300, epsilon_pct=25),
            # an epoch of an hour, which no test waits for
            "slow": cases.text(subject, 31, base=20, epoch_ms=3_600_000),
            "slow_moved": cases.text(subject, 32, base=50, epoch_ms=3_600_000),
            "slow_moved_urgent": cases.urgent(cases.text(subject, 32, base=50, epoch_ms=3_600_000)),
            "slow_back_urgent": cases.urgent(cases.text(subject, 33, base=20, epoch_ms=3_600_000)),
            "by_hand": cases.text(subject, 1, channel="by-hand", base=90),
            "held_back": cases.text(subject, 12, hold_back_permille=300, levels=8, step=50_000),
            "moved": cases.text(subject, 14, hold_back_permille=300, levels=8, step=50_000, base=50),
        },
        # R-TCP's: levels of 10 ms, and octaves of the limit, of which 500 kB/s has the last
        "limited_table": cases.text(subject, 21, levels=8, step=10_000, base=2),
        "storm_tables": [cases.text(subject, 100 + n, levels=2 + 3 * n, base=20 + n) for n in range(4)],
    }


def bpf_tables(subject: Subject) -> list[dict[str, Any]]:
    """A table, and a newer one with other values: the column that tells rows apart, and its first and last value."""
    shapes: list[dict[str, Any]] = [
        {"serial": 11, "base": 20, "levels": 12, "step": 250_000},
        {"serial": 13, "base": 50, "levels": 24, "step": 125_000, "epoch_ms": 300, "epsilon_pct": 25},
    ]
    return [
        {
            "text": cases.text(subject, **shape),
            "serial": shape["serial"],
            "column": subject.marker,
            "first": shape["base"] * subject.unit,
            "last": shape["base"] * subject.unit + 2 * shape["levels"] * subject.second_levels - 1,
        }
        for shape in shapes
    ]


def job(folder: Path, *, long: bool) -> dict[str, Any]:
    """The contents of job.json: what holds for every program, and what for those of a subject."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "subjects": {cca: of_subject(subject, folder, long=long) for cca, subject in SUBJECTS.items()},
        "ccatune": str(Path(sys.executable).with_name("ccatune")),
        "agent": str(Path(sys.executable).with_name("ccatune-agent")),
        "repository": str(boot.REPOSITORY),
        "site_packages": sysconfig.get_path("purelib"),
        "phase_s": 5 if long else 2.5,
        # The link's rates under a flow of each delay class.
        "rates_mbit": {1: [16, 4, 10], 2: [16, 4, 10] if long or DEBUG else [10]},
        "spurious": 3 if long else 2,
        "pauses_s": [0.1, 1.5, 0.05, 1.2] if long else [0.05, 1.2],
        "transfer_pauses_s": TRANSFER_PAUSES_S,
        "record_acks": 11_000 if long else 1_000,
        "brief_acks": BRIEF_ACKS,
        "brief": False,
        # The debug kernel has a tenth of the speed. A sender slower than its link has no estimate, and so no row.
        "patience": 6 if DEBUG else 1,
        "slow_rate": "2mbit" if DEBUG else "",
        "default_settings": SETTINGS,
        "storm_writes": 10_000 if long else 80,
        "seed": 1,
        "changes": 500 if long else 50,
        "namespaces": 40 if long else 4,
        "churn_s": 10 if long else 2,
        # R = 500 kB/s, of which 4 MB take 7 s; an empty bucket is full again after 0.8 s
        "limited": {
            "rate": "4mbit",
            "burst_bytes": LIMIT_BURST_BYTES,
            "refill_s": 1.25 * LIMIT_BURST_BYTES / LIMIT_BYTES_PER_S,
            "bytes": 8_000_000 if long else 4_000_000,
        },
        # R-TCP's table has 512 places in a namespace that is not the initial one
        "many": {"connections": MANY_CONNECTIONS if long else FEW_CONNECTIONS, "clients": MANY_CLIENTS},
        "bpf": {subject.cca: bpf_tables(subject) for subject in SUBJECTS.values()},
        "bulk_rounds": 3,
        "bulk_s": 1,
    }
