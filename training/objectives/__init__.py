# SPDX-License-Identifier: MIT
"""Objectives, by the name that a study file gives as `kind`.

    delay             most throughput subject to a delay target, or least delay subject to a share of goodput
    retransmissions   fewest retransmissions subject to goodput, for algorithms that detect rate limiters
    goodput           most goodput subject to a bound on retransmissions

A new objective is a class with the methods of `Objective`, and a settings class with `kind`, `objectives`, `ranges`,
`delay_classes` and `has_boundary`, which joins the union `ObjectiveSettings`, or which another package registers
(training/registered.py).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SerializeAsAny

from training.objectives.delay import ClassSettings, DelayObjective, DelaySettings
from training.objectives.goodput import GoodputSettings, MostGoodput
from training.objectives.retransmissions import LeastRetransmissions, RetransmissionSettings
from training.objectives.tally import ClasslessSettings, Objective, Pool, Rest, Tally, percentile_us, ratio_error
from training.registered import OBJECTIVES, or_registered

__all__ = [
    "ClassSettings", "ClasslessSettings", "DelayObjective", "DelaySettings", "GoodputSettings",
    "LeastRetransmissions", "MostGoodput", "Objective", "ObjectiveSettings", "Pool", "Rest",
    "RetransmissionSettings", "Tally", "percentile_us", "ratio_error",
]  # fmt: skip

ObjectiveSettings = Annotated[
    SerializeAsAny[Annotated[DelaySettings | RetransmissionSettings | GoodputSettings, Field(discriminator="kind")]],
    or_registered(OBJECTIVES),
]
