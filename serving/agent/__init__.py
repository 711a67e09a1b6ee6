# SPDX-License-Identifier: MIT
"""The agent: it applies the tables that a channel offers to a server's kernel.

This package imports only kmod, click and the standard library. Most public names are imported on first use. When it
starts, the agent can then apply its last known good table before it imports modules that this does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# These names are imported here, not on first use. Otherwise an import of the submodule `decide` would set this
# package's attribute `decide` to the submodule instead of the function.
from serving.agent.decide import Decision, Situation, State, decide

if TYPE_CHECKING:
    from serving.agent.errors import (
        AgentError,
        DamagedFileError,
        KernelRefusedError,
        OfferRefusedError,
        RegistryUnavailableError,
        SettingsError,
        StateDirError,
    )
    from serving.agent.keeper import Keeper
    from serving.agent.kernel import KernelView, look
    from serving.agent.log import EventLog
    from serving.agent.offer import OfferCheck, parse_offer
    from serving.agent.registry import Offer, RegistryClient
    from serving.agent.report import CcaReport
    from serving.agent.runner import Agent, read_boot_id
    from serving.agent.settings import AgentSettings
    from serving.agent.store import Store
    from serving.agent.table import Table
    from serving.agent.tree import DEFAULT_PROC_ROOT, AutoTree, BpfTree, NotLoadedError, ProcTree, Tree, make_tree

_NAMES = {
    "errors": (
        "AgentError",
        "DamagedFileError",
        "KernelRefusedError",
        "OfferRefusedError",
        "RegistryUnavailableError",
        "SettingsError",
        "StateDirError",
    ),
    "keeper": ("Keeper",),
    "kernel": ("KernelView", "look"),
    "log": ("EventLog",),
    "offer": ("OfferCheck", "parse_offer"),
    "registry": ("Offer", "RegistryClient"),
    "report": ("CcaReport",),
    "runner": ("Agent", "read_boot_id"),
    "settings": ("AgentSettings",),
    "store": ("Store",),
    "table": ("Table",),
    "tree": ("DEFAULT_PROC_ROOT", "AutoTree", "BpfTree", "NotLoadedError", "ProcTree", "Tree", "make_tree"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "DEFAULT_PROC_ROOT",
    "Agent",
    "AgentError",
    "AgentSettings",
    "AutoTree",
    "BpfTree",
    "CcaReport",
    "DamagedFileError",
    "Decision",
    "EventLog",
    "Keeper",
    "KernelRefusedError",
    "KernelView",
    "NotLoadedError",
    "Offer",
    "OfferCheck",
    "OfferRefusedError",
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
    "make_tree",
    "parse_offer",
    "read_boot_id",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use. Raises AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
