# SPDX-License-Identifier: MIT
"""Calls of a registry about the roll-outs of one channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from serving.client import RegistryClient, require_channel, require_note
from serving.client_requests import Json
from serving.errors import RegistryClientError


class ChannelRollouts:
    """The roll-outs of one channel. A method raises RegistryClientError as those of RegistryClient do."""

    def __init__(self, client: RegistryClient, cca: str, channel: str) -> None:
        """Raises RegistryClientError for an invalid name."""
        self._client = client
        self._name = f"{cca}/{channel}"
        self._path = f"{require_channel(cca, channel)}/rollouts"

    def start(
        self, digest: str, *, plan: Mapping[str, Any], hold_back_permille: int, urgent: bool, note: str,
        if_serial: int | None = None, shadow: Json | None = None, force: str = "",
    ) -> Json:  # fmt: skip
        """Begin a roll-out. The request is repeated once if the connection is lost, and begins one."""
        body = {"digest": digest, "plan": plan, "hold_back_permille": hold_back_permille, "urgent": urgent,
                "note": require_note(note)}  # fmt: skip
        # A registry of an earlier version knows neither of them.
        body |= {"shadow": shadow} if shadow is not None else {}
        body |= {"force": require_note(force)} if force else {}
        begun: Json = self._client.ask_twice("POST", self._path, body=body, if_serial=if_serial)
        return begun

    def rehearse(self, plan: Mapping[str, Any]) -> list[Json]:
        """Judge a plan on past figures."""
        found: list[Json] = self._client.ask("POST", f"{self._path}/rehearsal", body=plan)
        return found

    def all(self) -> Iterator[Json]:
        """Yield the roll-outs, newest first."""
        return self._client.pages(self._path)

    def find(self, number: int | None) -> Json:
        """Return the roll-out with this number, or the newest one."""
        if number is not None:
            found: Json = self._client.ask("GET", f"{self._path}/{number}")
            return found
        newest = next(iter(self.all()), None)
        if newest is None:
            raise RegistryClientError(f"{self._name}: expected a roll-out, the channel never had one")
        return newest

    def events(self, number: int) -> Iterator[Json]:
        """Yield the record of a roll-out, newest first."""
        return self._client.pages(f"{self._path}/{number}/events")

    def change(self, number: int, action: str, *, note: str) -> Json:
        """Pause, resume, abort or promote a roll-out."""
        body = {"note": require_note(note)}
        found: Json = self._client.ask("POST", f"{self._path}/{number}/{action}", body=body)
        return found
