# SPDX-License-Identifier: MIT
"""The agent: keeps a server's kernel at what a channel says. Imports kmod, click and the standard library alone."""

from __future__ import annotations

from serving.agent.decide import Decision, Situation, State, decide
from serving.agent.errors import (
    AgentError,
    DamagedFileError,
    KernelRefusedError,
    OfferRefusedError,
    RegistryUnavailableError,
    SettingsError,
    StateDirError,
)
from serving.agent.keeper import CcaReport, Keeper
from serving.agent.kernel import KernelView, look
from serving.agent.log import EventLog
from serving.agent.offer import OfferCheck, parse_offer
from serving.agent.plan import Plan, plan
from serving.agent.registry import Offer, RegistryClient
from serving.agent.runner import Agent, read_boot_id
from serving.agent.settings import AgentSettings
from serving.agent.store import Store
from serving.agent.table import Table
from serving.agent.tree import DEFAULT_PROC_ROOT, ProcTree, Tree

__all__ = [
    "DEFAULT_PROC_ROOT",
    "Agent",
    "AgentError",
    "AgentSettings",
    "CcaReport",
    "DamagedFileError",
    "Decision",
    "EventLog",
    "Keeper",
    "KernelRefusedError",
    "KernelView",
    "Offer",
    "OfferCheck",
    "OfferRefusedError",
    "Plan",
    "ProcTree",
    "RegistryClient",
    "RegistryUnavailableError",
    "SettingsError",
    "Situation",
    "State",
    "StateDirError",
    "Store",
    "Table",
    "Tree",
    "decide",
    "look",
    "parse_offer",
    "plan",
    "read_boot_id",
]
