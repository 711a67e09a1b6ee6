# SPDX-License-Identifier: MIT
"""Compares the statements of the ROCCET paper with the simulator."""

from experiments.roccet.campaign import PARTS, Campaign, plan
from experiments.roccet.settings import RoccetSettings, load_settings
from experiments.roccet.tables import markdown_of, tables_of

__all__ = ["PARTS", "Campaign", "RoccetSettings", "load_settings", "markdown_of", "plan", "tables_of"]
