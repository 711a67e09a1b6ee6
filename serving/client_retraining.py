# SPDX-License-Identifier: MIT
"""Calls of a registry about the retraining of one channel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from serving.client import RegistryClient, require_channel, require_note
from serving.client_requests import Json
from serving.errors import RegistryClientError

Step = Literal["training", "roll-out"]


class ChannelRetraining:
    """Policy and retrainings of one channel. A method raises RegistryClientError as those of RegistryClient do."""

    def __init__(self, client: RegistryClient, cca: str, channel: str) -> None:
        """Raises RegistryClientError for an invalid name."""
        self._client = client
        self._name = f"{cca}/{channel}"
        self._path = require_channel(cca, channel)

    def set_policy(self, policy: Json) -> Json:
        """Set the policy, and return it."""
        found: Json = self._client.ask("PUT", f"{self._path}/retraining", body=policy)
        return found

    def policy(self) -> Json:
        """Return the policy."""
        found: Json = self._client.ask("GET", f"{self._path}/retraining")
        return found

    def remove_policy(self) -> None:
        """Remove the policy."""
        self._client.remove(f"{self._path}/retraining")

    def start(self, *, note: str) -> Json:
        """Begin a retraining without a drift."""
        found: Json = self._client.ask("POST", f"{self._path}/retrainings", body={"note": require_note(note)})
        return found

    def all(self) -> Iterator[Json]:
        """Yield the retrainings, newest first."""
        return self._client.pages(f"{self._path}/retrainings")

    def newest(self) -> Json | None:
        """Return the newest retraining, or None."""
        return next(iter(self.all()), None)

    def find(self, number: int | None) -> Json:
        """Return the retraining with this number, or the newest one."""
        if number is not None:
            found: Json = self._client.ask("GET", f"{self._path}/retrainings/{number}")
            return found
        newest = self.newest()
        if newest is None:
            raise RegistryClientError(f"{self._name}: expected a retraining, the channel never had one")
        return newest

    def approve(self, number: int, step: Step, *, note: str, force: str = "") -> Json:
        """Approve a step of a retraining. force: why the roll-out begins although there are objections."""
        body = {"note": require_note(note), **({"force": require_note(force)} if force else {})}
        found: Json = self._client.ask("POST", f"{self._path}/retrainings/{number}/{step}", body=body)
        return found

    def dismiss(self, number: int, *, note: str) -> Json:
        """End a retraining before its roll-out."""
        path = f"{self._path}/retrainings/{number}/dismiss"
        found: Json = self._client.ask("POST", path, body={"note": require_note(note)})
        return found
