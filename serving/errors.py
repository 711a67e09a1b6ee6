# SPDX-License-Identifier: MIT
"""What can go wrong in the registry, each with the HTTP status and the problem type that tell a client of it.

The text says what was expected, what came and what to do; it becomes the
`detail` of the problem document (RFC 9457) or the one line of a command.
"""

from __future__ import annotations

from typing import ClassVar

from kmod.errors import CcatuneError

__all__ = [
    "ChannelNotFoundError",
    "DatabaseError",
    "EnsembleInvalidError",
    "EnsembleNotFoundError",
    "NothingToRollBackError",
    "RegistryClientError",
    "SerialMismatchError",
    "ServingError",
    "SettingsError",
    "WrongAlgorithmError",
]


class ServingError(CcatuneError):
    """Base of everything that serving raises itself."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"


class SettingsError(ServingError):
    """A setting is unknown, outside its range, or would open the registry to anyone."""


class DatabaseError(ServingError):
    """The database cannot be opened, or its schema is not the one of this version."""

    status = 503
    slug = "database-unavailable"
    title = "Database unavailable"


class EnsembleInvalidError(ServingError):
    """A document is no ensemble: structure, a range, or its digest is wrong."""

    status = 422
    slug = "ensemble-invalid"
    title = "Not a valid ensemble"


class EnsembleNotFoundError(ServingError):
    """The registry holds no ensemble of that digest."""

    status = 404
    slug = "ensemble-not-found"
    title = "No such ensemble"


class ChannelNotFoundError(ServingError):
    """No deployment was ever made on that channel."""

    status = 404
    slug = "channel-not-found"
    title = "No such channel"


class WrongAlgorithmError(ServingError):
    """The ensemble is of another algorithm than the channel."""

    status = 409
    slug = "wrong-algorithm"
    title = "Ensemble of another algorithm"


class NothingToRollBackError(ServingError):
    """Nothing else was deployed before what the channel points to."""

    status = 409
    slug = "nothing-to-roll-back"
    title = "Nothing to roll back to"


class SerialMismatchError(ServingError):
    """The channel was moved since the caller looked at it."""

    status = 412
    slug = "serial-mismatch"
    title = "The channel was moved meanwhile"


class RegistryClientError(ServingError):
    """A registry could not be reached, or said no."""
