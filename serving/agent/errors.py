# SPDX-License-Identifier: MIT
"""What can go wrong for the agent. One base class; every message says what was expected, what came and what to do."""

from __future__ import annotations

from kmod.errors import CcatuneError


class AgentError(CcatuneError):
    """Base of everything that the agent raises itself."""


class SettingsError(AgentError):
    """A setting is missing, unknown or outside its range."""


class RegistryUnavailableError(AgentError):
    """No usable answer came from the registry: it is gone, too slow, or answers something else than the API."""


class OfferRefusedError(AgentError):
    """An offer came from the registry and failed one of the agent's own checks."""


class KernelRefusedError(AgentError):
    """The kernel refused a table, or holds another text than the one that was written."""


class StateDirError(AgentError):
    """The state folder cannot be used: not writable, or held by another agent."""


class DamagedFileError(StateDirError):
    """A file of the state folder fails its checksum or its structure; it is never applied."""
