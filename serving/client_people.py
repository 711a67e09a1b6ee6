# SPDX-License-Identifier: MIT
"""Calls of a registry about the people who log in to its pages."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import TypeAdapter

from serving.client import RegistryClient
from serving.client_requests import Json, require, unless_none
from serving.names import AgentId

# The name of a person has the form of an agent's name, so it stays one part of a path.
_NAME: TypeAdapter[str] = TypeAdapter(AgentId)


class People:
    """The people of one registry. A method raises RegistryClientError as those of RegistryClient do."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client

    def all(self) -> Iterator[Json]:
        """Yield the people, in the order in which their accounts were made."""
        return self._client.pages("/v1/people")

    def add(self, name: str, role: str, *, password: str | None = None) -> Json:
        """Make an account. The answer has a link to set it up, unless there is a password for the first log-in."""
        body = {"name": require(_NAME, "name", name), "role": role, **unless_none(password=password)}
        return self._with_url(self._client.ask("POST", "/v1/people", body=body))

    def set_role(self, name: str, role: str) -> Json:
        """Change the role of a person, whose sessions end."""
        found: Json = self._client.ask("PUT", f"{self._path(name)}/role", body={"role": role})
        return found

    def reset(self, name: str, *, password: str | None = None) -> Json:
        """Remove password and passkeys of a person. The answer is that of `add`."""
        body = unless_none(password=password)
        return self._with_url(self._client.ask("POST", f"{self._path(name)}/reset", body=body))

    def disable(self, name: str) -> Json:
        """Disable a person, with all tokens and sessions."""
        return self._client.disable_principal(name)

    def _path(self, name: str) -> str:
        return f"/v1/people/{require(_NAME, 'name', name)}"

    def _with_url(self, made: Json) -> Json:
        path = made.pop("set_up_path", None)
        return {**made, "set_up_url": None if path is None else f"{self._client.url}/{path}"}
