# SPDX-License-Identifier: MIT
"""Checks the address of a registry, and shows addresses without passwords. Imports no HTTP and TLS modules."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from serving.agent.errors import SettingsError

# Only texts that cannot name another machine. The module ipaddress would take longer to import than the agent's start.
_LOOPBACK = re.compile(r"localhost|::1|127(?:\.[0-9]{1,3}){3}")


def is_loopback(url: SplitResult) -> bool:
    """Return whether requests to this address do not leave the machine."""
    return _LOOPBACK.fullmatch(url.hostname or "") is not None


def check_url(url: str) -> SplitResult:
    """Return the parts of a registry's address. Raises SettingsError unless it is http(s)://HOST[:PORT][/PATH]."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None or parts.query or parts.fragment:
        raise SettingsError(f"url: expected http(s)://HOST[:PORT][/PATH], got {without_user_info(url)!r}; set --url")
    return parts


def without_user_info(url: str) -> str:
    """Return the text after the last `@`: an error, a log line or a report must not show a user's password."""
    return url if "@" not in url else "...@" + url.rpartition("@")[2]
