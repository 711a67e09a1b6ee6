# SPDX-License-Identifier: MIT
"""The agent's exceptions. A message says what was expected, what was found, and, where possible, what to do."""

from __future__ import annotations

from kmod.errors import CcatuneError


class AgentError(CcatuneError):
    """Base class of all errors that the agent itself raises."""


class SettingsError(AgentError):
    """A setting is missing, unknown or outside its range."""


class SecretError(SettingsError):
    """A file with a secret cannot be read, or others may read it."""


class RegistryUnavailableError(AgentError):
    """The registry gave no usable answer: it is unreachable, too slow, or does not answer as the API defines."""


class NotPermittedError(RegistryUnavailableError):
    """The registry does not accept the agent's token, or the token does not permit the request."""


class ChannelAbsentError(RegistryUnavailableError):
    """The registry answers, but the channel has no deployment yet."""


class OfferRefusedError(AgentError):
    """An offer of the registry failed one of the agent's own checks."""


class OfferExpiredError(OfferRefusedError):
    """The signature of an offer, or the root document that would verify it, has expired."""


class KernelRefusedError(AgentError):
    """The kernel refused a table, or reads back a different text from the one written."""


class StateDirError(AgentError):
    """The state folder or one of its files cannot be used: e.g. it is not writable, or another agent holds the lock."""


class DamagedFileError(StateDirError):
    """A file of the state folder has a wrong checksum or structure. Such a file is never used."""


class SwitchError(AgentError):
    """A setting or a module cannot be changed."""


class NotLoadableError(SwitchError):
    """An algorithm cannot be loaded as a module. It may still be loaded in BPF."""


class ContentRefusedError(AgentError):
    """The registry refuses what was sent to it, and will refuse it again."""


class ObserveError(AgentError):
    """Connections of this server cannot be observed, or what was observed cannot be kept."""
