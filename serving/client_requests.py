# SPDX-License-Identifier: MIT
"""Requests to a registry over HTTP: the connection, pages, repetition, and errors in words."""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Self

import httpx
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kmod.terminal import visible
from serving.agent.connection import ClientTls, TlsFiles
from serving.agent.settings import without_user_info
from serving.errors import RegistryClientError
from serving.http.client_deadline import limit_connecting
from serving.names import CcaName, in_words
from serving.settings import DEFAULT_PORT

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
_TIMEOUT_S = 30.0
# A repeated request waits this long, or as long as the registry asks for, up to the second time.
_RETRY_S = 1.0
_MAX_RETRY_S = 10.0

# A connection that ended before the answer. A refused connection is none of these: it was never there.
_LOST_CONNECTION = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)

Json = dict[str, Any]

CCA: TypeAdapter[str] = TypeAdapter(CcaName)


class Answer(BaseModel):
    """The fields of an answer that this client requires. The registry sends more."""

    model_config = ConfigDict(extra="allow")


class _Page(Answer):
    items: list[Json]
    next_cursor: str | None


class _Bearer(httpx.Auth):
    """Adds the token to a request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class RegistryRequests:
    """Sends requests to one registry.

    A method that sends a request raises RegistryClientError where the registry is unreachable or refuses the request.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        tls: TlsFiles | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the client.

        token: sent with each request. tls: the files for https. sleep: waits before a request is repeated.
        Raises RegistryClientError where the URL is invalid, and SettingsError where a file of `tls` cannot be used.
        """
        parts = _parse(url)
        # Errors show this URL, so it does not contain the user's name and password.
        self.url = str(parts.copy_with(userinfo=b"")).rstrip("/")
        self._sleep = sleep
        is_https, is_here = parts.scheme == "https", _is_loopback(parts.host)
        self._http = httpx.Client(
            base_url=parts,
            timeout=timeout_s,
            # A proxy from the environment could not reach the loopback address of this machine.
            trust_env=not is_here,
            # The class prevents httpx from replacing the token by a password of the URL or of ~/.netrc.
            auth=None if token is None else _Bearer(token),
            # Without any TLS nothing is verified. To read the authorities' files would take longer than a request.
            verify=ClientTls(tls or TlsFiles()).context() if is_https else not is_here,
        )
        limit_connecting(self._http)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def pages(self, path: str, **filters: str | None) -> Iterator[Json]:
        """Yield the items of all pages of a list."""
        return self._pages(path, cca=None, **filters)

    def ask(self, method: str, path: str, *, body: Any = None) -> Any:
        """Return the JSON answer to a request."""
        return _json(self._ask(method, path, json=body))

    def content(self, path: str) -> bytes:
        """Return what is at a path, as it is."""
        return self._ask("GET", path).content

    def send(self, method: str, path: str, *, body: Any = None) -> None:
        """Send a request whose answer has no content."""
        self._ask(method, path, json=body)

    def remove(self, path: str) -> None:
        """Delete what the path names."""
        self.send("DELETE", path)

    def ask_twice(self, method: str, path: str, *, body: Any, if_serial: int | None) -> Any:
        """Return the JSON answer to a write, which is repeated like `move`."""
        return _json(self._ask_twice(method, path, json=body, headers=condition(if_serial)))

    def _pages(self, path: str, *, cca: str | None, **filters: str | None) -> Iterator[Json]:
        params = {name: value for name, value in filters.items() if value is not None}
        if cca is not None:
            params["cca"] = require(CCA, "cca", cca)
        seen: set[str] = set()
        while True:
            page = read_answer(_Page, self._ask("GET", path, params=params))
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return
            if cursor in seen:
                raise RegistryClientError(
                    f"registry {self.url}: expected another page, got the cursor {cursor!r} again"
                )
            seen.add(cursor)
            params["cursor"] = cursor

    def _ask_twice(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **request: Any
    ) -> httpx.Response:
        """Send a write. Repeat it once if the connection is lost, or the registry answers 503 with Retry-After.

        Both requests have the same Idempotency-Key, so that a move is made once even if the registry received both.
        """
        request["headers"] = {**(headers or {}), "Idempotency-Key": secrets.token_urlsafe(16)}
        with self._errors_in_words():
            try:
                answer = self._http.request(method, path, **request)
                pause_s = _retry_after_s(answer)
            except _LOST_CONNECTION:
                pause_s = _RETRY_S
            if pause_s is not None:
                self._sleep(pause_s)
                answer = self._http.request(method, path, **request)
        return self._accepted(answer)

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._errors_in_words():
            answer = self._http.request(method, path, **request)
        return self._accepted(answer)

    def _accepted(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success or answer.status_code == httpx.codes.NOT_MODIFIED:
            return answer
        raise RegistryClientError(f"registry {self.url}: {_problem(answer)}")

    @contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = str(error) or type(error).__name__
            advice = "is `ccatune serve` running there?"
            if "CERTIFICATE_VERIFY_FAILED" in said:
                advice = "name the certificate of its CA with --ca-file"
            raise RegistryClientError(f"registry {self.url}: expected an answer, got {said}; {advice}") from error


def require(kind: TypeAdapter[str], what: str, value: str) -> str:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        raise RegistryClientError(f"{what}: {in_words(error.errors()[0])}, got {value!r:.200}") from error


def _parse(url: str) -> httpx.URL:
    try:
        parts = httpx.URL(url)
        # The name resolution uses this encoding. It fails for an empty label and for one that is too long.
        parts.raw_host.decode("ascii").encode("idna")
        usable = parts.scheme in {"http", "https"} and bool(parts.host) and not parts.query and not parts.fragment
    except (httpx.InvalidURL, UnicodeError):
        usable = False
    if not usable:
        raise RegistryClientError(f"registry: expected a URL such as {DEFAULT_URL}, got {without_user_info(url)!r}")
    return parts


def unless_none(**fields: object) -> Json:
    """Return the fields that are not None, so that the registry uses its defaults for the others."""
    return {name: value for name, value in fields.items() if value is not None}


def _retry_after_s(answer: httpx.Response) -> float | None:
    """Return how long to wait before the request is repeated, or None if the answer does not ask for that."""
    text = answer.headers.get("Retry-After", "")
    if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or not (text.isascii() and text.isdecimal()):
        return None
    return min(float(text), _MAX_RETRY_S)


def condition(if_serial: int | None) -> dict[str, str]:
    return {} if if_serial is None else {"If-Match": f'"{if_serial}"'}


def read_answer(kind: type[Answer], answer: httpx.Response) -> Json:
    try:
        return kind.model_validate_json(answer.content).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = in_words(first) + "".join(f" at {part}" for part in first["loc"][:1])
        place = answer.url.copy_with(userinfo=b"")
        raise RegistryClientError(
            f"{place}: expected a registry's JSON, got {answer.text[:80]!r} ({found}); is it a registry?"
        ) from error


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError as error:
        place = answer.url.copy_with(userinfo=b"")
        raise RegistryClientError(f"{place}: expected a registry's JSON, got {answer.text[:80]!r}") from error


def _problem(answer: httpx.Response) -> str:
    """Return the HTTP status, with the detail if the body is a problem document."""
    try:
        said = answer.json()
    except (ValueError, RecursionError):
        said = None
    detail = said.get("detail") if isinstance(said, dict) else None
    return f"{answer.status_code} {visible(detail)}" if isinstance(detail, str) else f"got {answer.status_code}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
