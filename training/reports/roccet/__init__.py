# SPDX-License-Identifier: MIT
"""What the ROCCET paper states, beside what the simulator shows."""

from training.reports.roccet.campaign import PARTS, Campaign, plan
from training.reports.roccet.settings import RoccetSettings, load_settings

__all__ = ["PARTS", "Campaign", "RoccetSettings", "load_settings", "plan"]
