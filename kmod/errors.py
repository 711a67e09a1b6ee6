# SPDX-License-Identifier: MIT
"""The errors that the command line reports to the user without a traceback."""

from __future__ import annotations


class CcatuneError(Exception):
    """Parent of the base error class of each package. Its text says what was expected and received."""


class AbiError(CcatuneError):
    """Data violates the contract between the core and its users."""


class DocumentError(CcatuneError):
    """A YAML file cannot be read. The message names the line and the column."""
