# SPDX-License-Identifier: MIT
"""The registry's API for Python: what the commands and the demo speak through.

Agents have a client of their own (serving/agent/registry.py), which needs the
standard library alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from kmod.ensemble import Ensemble
from serving.errors import RegistryClientError
from serving.settings import DEFAULT_PORT

__all__ = ["DEFAULT_URL", "RegistryClient"]

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
_TIMEOUT_S = 30.0

Json = dict[str, Any]


class RegistryClient:
    """One registry. Every method raises RegistryClientError where it is out of reach or says no."""

    def __init__(self, url: str = DEFAULT_URL, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Raise RegistryClientError where the URL is none."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise RegistryClientError(f"registry: expected a URL such as {DEFAULT_URL}, got {url!r}")
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        # A proxy of the environment cannot reach this machine's loopback.
        self._http = httpx.Client(base_url=self.url, timeout=timeout_s, trust_env=not _is_loopback(parts.hostname))

    def __enter__(self) -> RegistryClient:
        """Return the client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def health(self) -> Json:
        """Status and the registry's name."""
        return _object(self._ask("GET", "/healthz"))

    def publish(self, ensemble: Ensemble) -> Json:
        """Publish; the answer's `created` is False where the registry held it already."""
        return _object(self._ask("POST", "/v1/ensembles", json=ensemble.to_json()))

    def ensemble(self, digest: str) -> Ensemble:
        """Get an ensemble, its digest verified here."""
        return Ensemble.from_json(self._ask("GET", f"/v1/ensembles/{digest}").json())

    def ensembles(self, *, cca: str | None = None) -> Iterator[Json]:
        """Summaries of all ensembles, newest first."""
        return self._pages("/v1/ensembles", {"cca": cca})

    def move(
        self,
        cca: str,
        channel: str,
        *,
        digest: str,
        hold_back_permille: int = 0,
        note: str = "",
        if_serial: int | None = None,
    ) -> Json:
        """Point a channel to an ensemble; with `if_serial` only where it stands at that serial (0: at none)."""
        body = {"digest": digest, "hold_back_permille": hold_back_permille, "note": note}
        return _object(self._ask("PUT", f"/v1/channels/{cca}/{channel}", json=body, headers=_condition(if_serial)))

    def roll_back(self, cca: str, channel: str, *, note: str = "", if_serial: int | None = None) -> Json:
        """Point a channel back to the ensemble before."""
        path = f"/v1/channels/{cca}/{channel}/rollback"
        return _object(self._ask("POST", path, json={"note": note}, headers=_condition(if_serial)))

    def channel(self, cca: str, channel: str) -> Json:
        """The current deployment, with its ensemble."""
        return _object(self._ask("GET", f"/v1/channels/{cca}/{channel}"))

    def wait_for_channel(self, cca: str, channel: str, *, etag: str | None, wait_s: float) -> httpx.Response:
        """Long poll: a 200 with the deployment, or a 304 when `etag` stayed current for `wait_s` seconds."""
        headers = {"If-None-Match": etag} if etag is not None else {}
        return self._ask(
            "GET",
            f"/v1/channels/{cca}/{channel}",
            params={"wait": f"{wait_s:g}"},
            headers=headers,
            timeout=self._timeout_s + wait_s,
        )

    def channels(self, *, cca: str | None = None) -> Iterator[Json]:
        """All channels, each as it stands."""
        return self._pages("/v1/channels", {"cca": cca})

    def history(self, cca: str, channel: str) -> Iterator[Json]:
        """A channel's deployments, newest first."""
        return self._pages(f"/v1/channels/{cca}/{channel}/history", {})

    def agents(self, *, cca: str | None = None) -> Iterator[Json]:
        """The latest report of each agent and algorithm."""
        return self._pages("/v1/agents", {"cca": cca})

    def _pages(self, path: str, params: dict[str, str | None]) -> Iterator[Json]:
        cursor: str | None = None
        while True:
            asked = {key: value for key, value in {**params, "cursor": cursor}.items() if value is not None}
            page = _object(self._ask("GET", path, params=asked))
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._errors_in_words():
            answer = self._http.request(method, path, **request)
        if answer.is_success or answer.status_code == httpx.codes.NOT_MODIFIED:
            return answer
        raise RegistryClientError(f"registry {self.url}: {_problem(answer)}")

    @contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            raise RegistryClientError(
                f"registry {self.url}: expected an answer, got {said}; is `ccatune serve` running there?"
            ) from error


def _condition(if_serial: int | None) -> dict[str, str]:
    return {} if if_serial is None else {"If-Match": f'"{if_serial}"'}


def _object(answer: httpx.Response) -> Json:
    try:
        data = answer.json()
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise RegistryClientError(f"{answer.url}: expected a JSON object, got {answer.text[:80]!r}; is it a registry?")
    return data


def _problem(answer: httpx.Response) -> str:
    """What a problem document says, or the bare status."""
    try:
        said = answer.json()
    except ValueError:
        said = None
    detail = said.get("detail") if isinstance(said, dict) else None
    return f"{answer.status_code} {detail}" if isinstance(detail, str) else f"got {answer.status_code}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
