# SPDX-License-Identifier: MIT
"""What the ROCCET paper states, beside what the simulator shows."""

from training.papers.roccet.campaign import PARTS, Campaign, plan
from training.papers.roccet.settings import RoccetSettings, load_settings
from training.papers.roccet.tables import markdown_of, tables_of

__all__ = ["PARTS", "Campaign", "RoccetSettings", "load_settings", "markdown_of", "plan", "tables_of"]
