# SPDX-License-Identifier: MIT
"""Workloads, by the name that a study file gives as `kind`.

    epochs    epochs of recorded links, by the state that a flow measured
    policed   files and downloads through rate limiters, and over links without one

A new workload is a class with the methods of `Workload`, and a settings class with `kind`, `check`, `needs_recordings`
and `open`, which joins the union `WorkloadSettings`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from training.workloads.case import Case, ClockSettings, Purpose, Sample, Setting, State, Workload
from training.workloads.epochs import Epochs, EpochsSettings
from training.workloads.policed import Policed, PolicedSettings

__all__ = [
    "Case", "ClockSettings", "Epochs", "EpochsSettings", "Policed", "PolicedSettings", "Purpose", "Sample",
    "Setting", "State", "Workload", "WorkloadSettings",
]  # fmt: skip

WorkloadSettings = Annotated[EpochsSettings | PolicedSettings, Field(discriminator="kind")]
