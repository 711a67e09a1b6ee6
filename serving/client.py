# SPDX-License-Identifier: MIT
"""Python client of the registry's API. The commands of serving/commands/channels.py use it.

Agents have their own client (serving/agent/client.py), which needs only the standard library.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Self

import httpx
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kmod.ensemble import Ensemble
from kmod.terminal import visible
from serving.agent.connection import ClientTls, TlsFiles
from serving.agent.settings import without_user_info
from serving.errors import RegistryClientError
from serving.http.client_deadline import limit_connecting
from serving.names import AgentId, CcaName, ChannelName, DigestText, Note, in_words
from serving.settings import DEFAULT_PORT
from serving.signatures import Envelope, SignatureError

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
_TIMEOUT_S = 30.0
_DIGEST_PREFIX = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")
_DIGEST_DIGITS = 64
_SHOWN_DIGEST_CHARS = 31
# A repeated request waits this long, or as long as the registry asks for, up to the second time.
_RETRY_S = 1.0
_MAX_RETRY_S = 10.0

# A connection that ended before the answer. A refused connection is none of these: it was never there.
_LOST_CONNECTION = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)

Json = dict[str, Any]

_CCA: TypeAdapter[str] = TypeAdapter(CcaName)
_CHANNEL: TypeAdapter[str] = TypeAdapter(ChannelName)
_DIGEST: TypeAdapter[str] = TypeAdapter(DigestText)
_NOTE: TypeAdapter[str] = TypeAdapter(Note)
# The id of a token and the name of a principal have the form of an agent's name, so they stay one part of a path.
_AGENT_ID: TypeAdapter[str] = TypeAdapter(AgentId)


class _Answer(BaseModel):
    """The fields of an answer that this client requires. The registry sends more."""

    model_config = ConfigDict(extra="allow")


class _Page(_Answer):
    items: list[Json]
    next_cursor: str | None


class _Published(_Answer):
    digest: str
    created: bool


class _Signatures(_Answer):
    digest: str
    is_signed: bool
    threshold: int | None
    signatures: list[Json]


class _RootAdded(_Answer):
    registry: str
    version: int
    created: bool


class _Token(_Answer):
    id: str
    principal: str


class _CreatedToken(_Token):
    token: str


class _Deployment(_Answer):
    registry: str
    cca: str
    channel: str
    serial: int
    digest: str
    restores_serial: int | None
    urgent: bool


class _Bearer(httpx.Auth):
    """Adds the token to a request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class RegistryClient:
    """Client of one registry.

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
        self._http = httpx.Client(
            base_url=parts,
            timeout=timeout_s,
            # A proxy from the environment could not reach the loopback address of this machine.
            trust_env=not _is_loopback(parts.host),
            # The class prevents httpx from replacing the token by a password of the URL or of ~/.netrc.
            auth=None if token is None else _Bearer(token),
            verify=ClientTls(tls or TlsFiles()).context() if parts.scheme == "https" else True,
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

    def health(self) -> Json:
        """Return the registry's status and name."""
        return _read(_Answer, self._ask("GET", "/healthz"))

    def publish(self, ensemble: Ensemble) -> Json:
        """Publish an ensemble. In the answer `created` is False if the registry already held it."""
        return _read(_Published, self._ask_twice("POST", "/v1/ensembles", json=ensemble.to_json()))

    def ensemble(self, digest: str) -> Ensemble:
        """Return an ensemble after verifying its digest. Raises also EnsembleError, where its content is invalid."""
        _require(_DIGEST, "digest", digest)
        return Ensemble.from_json(_read(_Answer, self._ask("GET", f"/v1/ensembles/{digest}")))

    def whole_digest(self, digest: str, *, cca: str | None = None) -> str:
        """Return the published digest that begins with these digits; a whole one with `sha256:` is returned as it is.

        Otherwise raises RegistryClientError unless `digest` has at least 8 hexadecimal digits (after an optional
        `sha256:`), with which exactly one published ensemble's digest begins.
        """
        prefix = _DIGEST_PREFIX.fullmatch(digest)
        if prefix is None:
            raise RegistryClientError(
                f"digest: expected a digest or at least its first 8 hexadecimal digits, got {digest!r:.200}; "
                "`ccatune ensembles list` shows them"
            )
        if digest == f"sha256:{prefix[1]}" and len(prefix[1]) == _DIGEST_DIGITS:
            return digest
        wanted = f"sha256:{prefix[1]}"
        found = sorted({str(row.get("digest")) for row in self.ensembles(cca=cca)})
        found = [one for one in found if one.startswith(wanted)]
        if len(found) != 1:
            shown = ", ".join(one[:_SHOWN_DIGEST_CHARS] for one in found[:3]) or "none"
            raise RegistryClientError(
                f"digest: expected {wanted} to begin the digest of one published ensemble, got {shown}; "
                "`ccatune ensembles list` shows them whole"
            )
        return found[0]

    def ensembles(self, *, cca: str | None = None) -> Iterator[Json]:
        """Yield summaries of all ensembles, newest first."""
        return self._pages("/v1/ensembles", cca=cca)

    def add_signature(self, digest: str, envelope: Envelope) -> Json:
        """Upload publishers' signatures of a published ensemble. The answer lists all signatures of the ensemble."""
        path = f"/v1/ensembles/{_require(_DIGEST, 'digest', digest)}/signatures"
        return _read(_Signatures, self._ask("POST", path, json=envelope.to_json()))

    def publish_root(self, envelope: Envelope) -> Json:
        """Upload a root document. In the answer `created` is False if the registry already held it."""
        return _read(_RootAdded, self._ask("POST", "/v1/roots", json=envelope.to_json()))

    def root(self, version: int | None = None) -> Envelope:
        """Return a version of the root document, or the newest one. Its signatures are not verified."""
        answer = self._ask("GET", "/v1/roots" if version is None else f"/v1/roots/{version:d}")
        try:
            return Envelope.parse(answer.content)
        except SignatureError as error:
            raise RegistryClientError(f"registry {self.url}: expected a root document, got {error}") from error

    def move(
        self,
        cca: str,
        channel: str,
        *,
        digest: str,
        hold_back_permille: int = 0,
        urgent: bool | None = None,
        note: str = "",
        if_serial: int | None = None,
    ) -> Json:
        """Point a channel to an ensemble. In the answer `created` says whether this made the channel.

        The request is repeated once if the connection is lost. Both requests carry the same idempotency key,
        so the channel moves only once.
        urgent: whether running flows apply the table immediately; None means the registry's default, which is no.
        if_serial: move only if this is the channel's current serial; 0 means a channel without a deployment.
        """
        path = require_channel(cca, channel)
        body = {
            "digest": _require(_DIGEST, "digest", digest),
            "hold_back_permille": hold_back_permille,
            "note": require_note(note),
            **_unless_none(urgent=urgent),
        }
        answer = self._ask_twice("PUT", path, json=body, headers=_condition(if_serial))
        return {**_read(_Deployment, answer), "created": answer.status_code == httpx.codes.CREATED}

    def remove_channel(self, cca: str, channel: str, *, if_serial: int | None = None) -> None:
        """Delete a channel and its history. if_serial: delete only if this is the channel's current serial."""
        self._ask("DELETE", require_channel(cca, channel), headers=_condition(if_serial))

    def roll_back(
        self, cca: str, channel: str, *, urgent: bool | None = None, note: str = "", if_serial: int | None = None
    ) -> Json:
        """Point a channel back to its previous ensemble. It is repeated like `move`.

        urgent: whether running flows apply the table immediately; None means the registry's default, which is yes.
        if_serial: roll back only if this is the channel's current serial.
        """
        path = f"{require_channel(cca, channel)}/rollback"
        body = {"note": require_note(note), **_unless_none(urgent=urgent)}
        return _read(_Deployment, self._ask_twice("POST", path, json=body, headers=_condition(if_serial)))

    def channel(self, cca: str, channel: str) -> Json:
        """Return the channel's current deployment, with its ensemble."""
        return _read(_Deployment, self._ask("GET", require_channel(cca, channel)))

    def channels(self, *, cca: str | None = None) -> Iterator[Json]:
        """Yield the current deployment of each channel."""
        return self._pages("/v1/channels", cca=cca)

    def history(self, cca: str, channel: str) -> Iterator[Json]:
        """Yield a channel's deployments, newest first."""
        return self._pages(f"{require_channel(cca, channel)}/history", cca=None)

    def agents(self, *, cca: str | None = None, channel: str | None = None, state: str | None = None) -> Iterator[Json]:
        """Yield the latest report of each agent and algorithm."""
        return self._pages("/v1/agents", cca=cca, channel=channel, state=state)

    def remove_agent(self, agent_id: str) -> None:
        """Delete an agent's reports on all algorithms."""
        self._ask("DELETE", f"/v1/agents/{_require(_AGENT_ID, 'agent id', agent_id)}")

    def qos(self, by: Sequence[str] = (), **filters: str | int | None) -> Iterator[Json]:
        """Yield sums of what the agents report of their flows, in groups by the keys `by`, as GET /v1/qos defines them.

        filters: further parameters of the request. Without `by` the registry chooses the keys.
        """
        texts = {name: None if value is None else str(value) for name, value in filters.items()}
        return self._pages("/v1/qos", cca=texts.pop("cca", None), by=",".join(by) or None, **texts)

    def create_token(
        self,
        principal: str,
        *,
        scopes: list[str],
        kind: str | None = None,
        ccas: list[str] | None = None,
        channels: list[str] | None = None,
        agent_id: str | None = None,
        lifetime_s: int | None = None,
    ) -> Json:
        """Make a token. Only this answer contains its text, as `token`. lifetime_s: None for a token without end."""
        limits = _unless_none(kind=kind, ccas=ccas, channels=channels, agent_id=agent_id, lifetime_s=lifetime_s)
        body = {"principal": principal, "scopes": scopes, **limits}
        return _read(_CreatedToken, self._ask("POST", "/v1/tokens", json=body))

    def tokens(self, *, principal: str | None = None) -> Iterator[Json]:
        """Yield the tokens without their texts, newest first."""
        return self._pages("/v1/tokens", cca=None, principal=principal)

    def revoke_token(self, token_id: str) -> Json:
        """Revoke a token, and return it without its text."""
        return _read(_Token, self._ask("DELETE", f"/v1/tokens/{_require(_AGENT_ID, 'id', token_id)}"))

    def disable_principal(self, name: str) -> Json:
        """Revoke all tokens of a principal, and return the principal."""
        return _read(_Answer, self._ask("DELETE", f"/v1/principals/{_require(_AGENT_ID, 'principal', name)}"))

    def audit(
        self, *, actor: str | None = None, action: str | None = None, target: str | None = None, limit: int = 100
    ) -> list[Json]:
        """Return the latest changes, newest first."""
        return list(islice(self._pages("/v1/audit", cca=None, actor=actor, action=action, target=target), limit))

    def pages(self, path: str) -> Iterator[Json]:
        """Yield the items of all pages of a list."""
        return self._pages(path, cca=None)

    def ask(self, method: str, path: str, *, body: Any = None) -> Any:
        """Return the JSON answer to a request."""
        return _json(self._ask(method, path, json=body))

    def ask_twice(self, method: str, path: str, *, body: Any, if_serial: int | None) -> Any:
        """Return the JSON answer to a write, which is repeated like `move`."""
        return _json(self._ask_twice(method, path, json=body, headers=_condition(if_serial)))

    def _pages(self, path: str, *, cca: str | None, **filters: str | None) -> Iterator[Json]:
        params = {name: value for name, value in filters.items() if value is not None}
        if cca is not None:
            params["cca"] = _require(_CCA, "cca", cca)
        seen: set[str] = set()
        while True:
            page = _read(_Page, self._ask("GET", path, params=params))
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
            raise RegistryClientError(
                f"registry {self.url}: expected an answer, got {said}; is `ccatune serve` running there?"
            ) from error


def require_channel(cca: str, channel: str) -> str:
    """Return the channel's path. Raises RegistryClientError for an invalid name, which would change the path."""
    return f"/v1/channels/{_require(_CCA, 'cca', cca)}/{_require(_CHANNEL, 'channel', channel)}"


def require_note(note: str) -> str:
    """Return the note in the form that the registry stores. Raises RegistryClientError where it is too long."""
    return _require(_NOTE, "note", note)


def _require(kind: TypeAdapter[str], what: str, value: str) -> str:
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


def _unless_none(**fields: object) -> Json:
    """Return the fields that are not None, so that the registry uses its defaults for the others."""
    return {name: value for name, value in fields.items() if value is not None}


def _retry_after_s(answer: httpx.Response) -> float | None:
    """Return how long to wait before the request is repeated, or None if the answer does not ask for that."""
    text = answer.headers.get("Retry-After", "")
    if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or not (text.isascii() and text.isdecimal()):
        return None
    return min(float(text), _MAX_RETRY_S)


def _condition(if_serial: int | None) -> dict[str, str]:
    return {} if if_serial is None else {"If-Match": f'"{if_serial}"'}


def _read(kind: type[_Answer], answer: httpx.Response) -> Json:
    try:
        return kind.model_validate_json(answer.content).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f" at {part}" for part in first["loc"][:1])
        place = answer.url.copy_with(userinfo=b"")
        raise RegistryClientError(
            f"{place}: expected a registry's JSON, got {answer.text[:80]!r} ({first['msg']}{where}); is it a registry?"
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
