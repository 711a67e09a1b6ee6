# SPDX-License-Identifier: MIT
"""The agent's client of the registry: it gets a channel's offer and reports the table in force.

    GET  /v1/roots/{version}               the next version of the root document, if one is pinned
    GET  /v1/channels/{cca}/{channel}      with If-None-Match and ?wait=SECONDS this is a long poll
    POST /v1/agents/{agent_id}/reports

The agent does not trust the registry's answers. It accepts an answer only if it is at most 4 MiB long, arrives
completely before a deadline, and is neither a redirect nor compressed. An offer must also pass the checks of
offer.py. Proxies from environment variables are not used.

Requests use one connection after another (see _http.py). With a token file each request carries its token.
"""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from kmod.terminal import visible
from serving.agent._http import Answer, Clock, Connection, Request
from serving.agent.address import check_url, without_user_info
from serving.agent.errors import ChannelAbsentError, NotPermittedError, RegistryUnavailableError, SettingsError
from serving.agent.identity import require_agent_id
from serving.agent.offer import parse_offer
from serving.agent.report import CcaReport
from serving.agent.secret import read_token
from serving.agent.settings import AgentSettings
from serving.agent.table import Table
from serving.agent.tls import ClientTls, TlsFiles
from serving.agent.trust import Trust

MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_PROBLEM_CHARACTERS = 300
_NO_CHANNEL = "urn:ccatune:problem:channel-not-found"
_NOT_PERMITTED = "urn:ccatune:problem:not-permitted"


@dataclass(frozen=True)
class Offer:
    """An offer, and the ETag to send with the next request. It is None if the registry sent no strong ETag."""

    table: Table
    etag: str | None


class RegistryClient:
    """Client of one registry. Each thread needs its own client, because `abort` ends the client's current request.

    timeout_s: limit from the start of the connection to the last byte received; a long poll adds its wait.
    tls: the files for https. token_file: is read before each request. trust: verifies the signatures of each offer.
    Its owner closes it, once no thread uses it any more.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        tls: TlsFiles | None = None,
        token_file: str | None = None,
        clock: Clock = time.monotonic,
        trust: Trust | None = None,
    ) -> None:
        self._url = check_url(url)
        self._timeout_s = timeout_s
        self._token_file = token_file
        self._trust = trust
        secured = ClientTls(tls or TlsFiles()) if self._url.scheme == "https" else None
        self._connection = Connection(self._url, tls=None if secured is None else secured.context, clock=clock)
        self._aborted = False

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connection. Only the thread that sends the requests may do so."""
        self._connection.close()

    def get_offer(
        self, cca: str, channel: str, *, etag: str | None = None, wait_s: float = 0, is_absent: bool = False
    ) -> Offer | None:
        """Return the channel's offer, or None if `etag` still names the current offer.

        With an `etag`, wait up to `wait_s` for the offer to change. With `is_absent`, allow the registry to wait as
        long for the channel's first deployment.
        Raises RegistryUnavailableError (ChannelAbsentError where nothing was deployed yet), OfferRefusedError.
        """
        path = f"/v1/channels/{quote(cca, safe='')}/{quote(channel, safe='')}"
        headers = {"Accept": "application/json"}
        if etag is not None:
            headers["If-None-Match"] = etag
        if (etag is not None or is_absent) and wait_s > 0:
            path += "?" + urlencode({"wait": f"{wait_s:g}"})
        answer = self._ask("GET", path, headers=headers, body=None, timeout_s=self._timeout_s + wait_s)
        if answer.status == http.HTTPStatus.NOT_MODIFIED and etag is not None:
            return None
        if answer.status != http.HTTPStatus.OK:
            raise self._unexpected(answer, "200 or 304")
        table = parse_offer(answer.body, cca=cca, channel=channel, check=self._check if self._trust else None)
        return Offer(table=table, etag=_strong_etag(answer.headers.get("etag")))

    def _check(self, answer: dict[str, Any], table: Table) -> Table:
        assert self._trust is not None  # noqa: S101 - get_offer passes this method only with one
        return self._trust.check(answer, table, fetch=self._get_root)

    def _get_root(self, version: int) -> bytes | None:
        """Return that version of the root document, or None if the registry has none."""
        headers = {"Accept": "application/json"}
        answer = self._ask("GET", f"/v1/roots/{version}", headers=headers, body=None, timeout_s=self._timeout_s)
        if answer.status == http.HTTPStatus.NOT_FOUND:
            return None
        if answer.status != http.HTTPStatus.OK:
            raise self._unexpected(answer, "200 or 404")
        return answer.body

    def post_report(self, agent_id: str, report: CcaReport) -> None:
        """Send a report to the registry. Raises RegistryUnavailableError, SettingsError for an invalid id."""
        require_agent_id(agent_id)
        path = f"/v1/agents/{quote(agent_id, safe='')}/reports"
        body = json.dumps(report.to_json()).encode("ascii")
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        answer = self._ask("POST", path, headers=headers, body=body, timeout_s=self._timeout_s)
        if not http.HTTPStatus.OK <= answer.status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise self._unexpected(answer, "2xx")

    def abort(self) -> None:
        """End the current request, and make every later one fail. May be called from another thread."""
        self._aborted = True
        self._connection.abort()

    def _ask(self, method: str, path: str, *, headers: dict[str, str], body: bytes | None, timeout_s: float) -> Answer:
        if self._aborted:
            raise RegistryUnavailableError("the agent is stopping")
        try:
            headers = {"Accept-Encoding": "identity", "User-Agent": "ccatune-agent", **headers, **self._authorization()}
            request = Request(method, self._url.path.rstrip("/") + path, headers=headers, body=body)
            answer = self._connection.run(request, timeout_s=timeout_s, max_body_bytes=MAX_ANSWER_BYTES)
        except SettingsError as error:
            # A file of a secret was changed while the agent runs. It is read again for the next request.
            raise RegistryUnavailableError(f"registry {self._name} was not asked: {error}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RegistryUnavailableError(
                f"registry {self._name}: expected an answer within {timeout_s:g} s, got {_in_words(error)}"
            ) from error
        if len(answer.body) > MAX_ANSWER_BYTES:
            raise RegistryUnavailableError(
                f"registry {self._name}: expected at most {MAX_ANSWER_BYTES} bytes, got more"
            )
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise RegistryUnavailableError(f"registry {self._name}: expected an answer as it is, got a compressed one")
        return answer

    @property
    def _name(self) -> str:
        return f"{self._url.scheme}://{self._url.netloc}{self._url.path}"

    def _authorization(self) -> dict[str, str]:
        return {} if self._token_file is None else {"Authorization": f"Bearer {read_token(self._token_file)}"}

    def _unexpected(self, answer: Answer, expected: str) -> RegistryUnavailableError:
        """Return the error for an answer of another status than expected."""
        if 300 <= answer.status < 400:
            where = without_user_info(answer.headers.get("location", "nowhere"))
            return RegistryUnavailableError(
                f"registry {self._name}: expected {expected}, got {answer.status} to {where!r:.100}; "
                "redirects are refused, set --registry to where it is"
            )
        text = (
            f"registry {self._name}: expected {expected}, got {answer.status} {_problem_detail(answer.body)}".rstrip()
        )
        problem = _problem(answer.body).get("type")
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            return NotPermittedError(f"{text}; {self._how_to_get_accepted()}")
        if answer.status == http.HTTPStatus.FORBIDDEN and problem == _NOT_PERMITTED:
            return NotPermittedError(
                f"{text}; `ccatune token create` makes a token with the scopes read and report for this agent's id, "
                f"CCA and channel: put it into {self._token_file or 'a file, and set --token-file'}"
            )
        if answer.status == http.HTTPStatus.NOT_FOUND and problem == _NO_CHANNEL:
            return ChannelAbsentError(text)
        return RegistryUnavailableError(text)

    def _how_to_get_accepted(self) -> str:
        if self._token_file is None:
            return "the registry requires a token: make one with `ccatune token create`, and set --token-file"
        return (
            f"it does not accept the token in {self._token_file}, which may be expired or revoked: make another one "
            "with `ccatune token create`, and put it into this file"
        )


def client_of(settings: AgentSettings, *, trust: Trust | None = None, clock: Clock = time.monotonic) -> RegistryClient:
    """Return a client for the registry of these settings. Raises SettingsError where a TLS file cannot be used."""
    tls = TlsFiles(settings.ca_file, settings.client_cert_file, settings.client_key_file)
    return RegistryClient(
        settings.registry,
        timeout_s=settings.timeout_s,
        tls=tls,
        token_file=settings.token_file,
        clock=clock,
        trust=trust,
    )


def _strong_etag(etag: str | None) -> str | None:
    """Return a strong ETag as it is, else None. A weak ETag does not guarantee the same bytes, so it is not used."""
    return etag if etag is not None and etag.startswith('"') and etag.endswith('"') else None


def _problem(body: bytes) -> dict[str, Any]:
    """Return the members of a problem document (RFC 9457), or none for any other body."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return problem if isinstance(problem, dict) else {}


def _problem_detail(body: bytes) -> str:
    """Return the detail of a problem document in parentheses, or "" for any other body."""
    detail = _problem(body).get("detail")
    return f"({visible(detail[:_MAX_PROBLEM_CHARACTERS])})" if isinstance(detail, str) else ""


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no whole one"
    text = str(error) or type(error).__name__
    return text[:_MAX_PROBLEM_CHARACTERS]
