# SPDX-License-Identifier: MIT
"""Compares the statements of the ROCCET paper with the simulator."""

from training.papers.roccet.campaign import PARTS, Campaign, plan
from training.papers.roccet.settings import RoccetSettings, load_settings
from training.papers.roccet.tables import markdown_of, tables_of

__all__ = ["PARTS", "Campaign", "RoccetSettings", "load_settings", "markdown_of", "plan", "tables_of"]
