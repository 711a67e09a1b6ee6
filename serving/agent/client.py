# SPDX-License-Identifier: MIT
"""The agent's client of the registry: it gets a channel's offer and reports the table in force.

    GET  /v1/token                         which agent the token is for, if there is a token
    GET  /v1/roots/{version}               the next version of the root document, if one is pinned
    GET  /v1/channels/{cca}/{channel}      with If-None-Match and ?wait=SECONDS this is a long poll
    POST /v1/agents/{agent_id}/reports
    PUT  /v1/agents/{agent_id}/observations/{digest}    a file of observations

The agent does not trust the registry's answers. It accepts an answer only if it is at most 4 MiB long, arrives
completely before a deadline, and is neither a redirect nor compressed. The content of an offer must be valid, have the
digest that the answer states, and be of the requested algorithm and channel. With a root document its signatures must
hold, too (trust.py). Proxies from environment variables are not used.

Requests use one connection after another (see connection.py). With a token file each request carries its token. It is
read before each request, so that a new one needs no restart. It appears in no log, error or report.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote, urlencode

from kmod.ensemble import Deployment, Ensemble, EnsembleError
from kmod.terminal import visible
from serving.agent.connection import Answer, ClientTls, Clock, Connection, Request, TlsFiles
from serving.agent.errors import (
    AgentError,
    ChannelAbsentError,
    ContentRefusedError,
    NotPermittedError,
    OfferExpiredError,
    OfferRefusedError,
    RegistryUnavailableError,
    SecretError,
    SettingsError,
)
from serving.agent.settings import AgentSettings, check_url, read_token, require_agent_id, without_user_info
from serving.agent.state import CcaReport, PollResult, State
from serving.agent.table import Table
from serving.agent.trust import Trust

MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_PROBLEM_CHARACTERS = 300
_NO_CHANNEL = "urn:ccatune:problem:channel-not-found"
_NOT_PERMITTED = "urn:ccatune:problem:not-permitted"
# The answer to a token that is not accepted, after several of them.
_TOO_MANY_ATTEMPTS = "urn:ccatune:problem:too-many-attempts"
_REFUSED_CONTENT = {http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, http.HTTPStatus.UNPROCESSABLE_ENTITY}
# The state that the agent reports after such an error.
_STATE_AFTER: dict[type[AgentError], State] = {
    OfferRefusedError: State.REJECTED,
    OfferExpiredError: State.STALE,
    ChannelAbsentError: State.NO_CHANNEL,
    NotPermittedError: State.TOKEN_REFUSED,
    RegistryUnavailableError: State.OFFLINE,
}


class RegistryClient:
    """Client of one registry. Each thread needs its own client, because `abort` ends the client's current request.

    An exchange may take `timeout_s` of the settings from the start of the connection to the last byte received, and a
    long poll also its wait. Their `agent_id` is the id that the token must be for, or "" for the token's own.
    trust: verifies the signatures of each offer. Its owner closes it, once no thread uses it any more.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        trust: Trust | None = None,
        find_agent_id: Callable[[], str] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Create the client. Raises SettingsError where a TLS file cannot be used.

        find_agent_id: gives the id that polls have where the token names none. Without it they have none, and a
        roll-out does not know the server.
        """
        self._url = check_url(settings.url)
        self._timeout_s = settings.timeout_s
        self._token_file = settings.token_file
        self._trust = trust
        self._agent_id = settings.agent_id
        self._find_agent_id = find_agent_id
        # A token, and the agent that the registry says it is for.
        self._token_of: tuple[str, str | None] | None = None
        files = TlsFiles(settings.ca_file, settings.client_cert_file, settings.client_key_file)
        secured = ClientTls(files) if self._url.scheme == "https" else None
        self._connection = Connection(self._url, tls=None if secured is None else secured.context, clock=clock)
        self._aborted = False

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connection. Only the thread that sends the requests may do so."""
        self._connection.close()

    def poll(
        self, cca: str, channel: str, *, etag: str | None = None, wait_s: float = 0, is_absent: bool = False
    ) -> PollResult:
        """Request the channel's offer. The result is InSync without a table if `etag` still names the current offer.

        With an `etag`, wait up to `wait_s` for the offer to change. With `is_absent`, allow the registry to wait as
        long for the channel's first deployment. The result's ETag is None if the registry sent no strong one, and
        after a refusal, so that the next request fetches the offer again: it may have been damaged.
        """
        try:
            return self._poll(cca, channel, etag=etag, wait_s=wait_s, is_absent=is_absent)
        except (RegistryUnavailableError, OfferRefusedError) as error:
            state = _STATE_AFTER[type(error)]
            kept = etag if state in {State.OFFLINE, State.TOKEN_REFUSED} else None
            return PollResult(state, error=str(error), etag=kept)

    def _poll(self, cca: str, channel: str, *, etag: str | None, wait_s: float, is_absent: bool) -> PollResult:
        named = self.agent_id_of_token() if self._agent_id or self._find_agent_id is not None else None
        if named is None and self._find_agent_id is not None:
            named = self._find_agent_id()
        path = f"/v1/channels/{quote(cca, safe='')}/{quote(channel, safe='')}"
        headers = {} if named is None else {"Ccatune-Agent": named}
        if etag is not None:
            headers["If-None-Match"] = etag
        if (etag is not None or is_absent) and wait_s > 0:
            path += "?" + urlencode({"wait": f"{wait_s:g}"})
        answer = self._request("GET", path, headers=headers, wait_s=wait_s)
        if answer.status == http.HTTPStatus.NOT_MODIFIED and etag is not None:
            return PollResult(State.IN_SYNC, etag=etag)
        if answer.status != http.HTTPStatus.OK:
            raise self._unexpected(answer, "200 or 304")
        offer, table = parse_offer(answer.body, cca=cca, channel=channel)
        if self._trust is not None:
            table = self._trust.check(offer, table, fetch=self._get_root)
        new_etag = answer.headers.get("etag", "")
        # A weak ETag does not guarantee the same bytes, so it is not used.
        return PollResult(State.IN_SYNC, table, etag=new_etag if new_etag.startswith('"') else None)

    def _get_root(self, version: int) -> bytes | None:
        """Return that version of the root document, or None if the registry has none."""
        answer = self._request("GET", f"/v1/roots/{version}")
        if answer.status == http.HTTPStatus.NOT_FOUND:
            return None
        if answer.status != http.HTTPStatus.OK:
            raise self._unexpected(answer, "200 or 404")
        return answer.body

    def agent_id_of_token(self) -> str | None:
        """Return the agent that the token is limited to, or None without a token or without such a limit.

        Raises RegistryUnavailableError (NotPermittedError where the token is for another agent than `agent_id`).
        """
        if self._token_file is None:
            return None
        token = self._token()
        if self._token_of is None or self._token_of[0] != token:
            answer = self._request("GET", "/v1/token")
            if answer.status != http.HTTPStatus.OK:
                raise self._unexpected(answer, "200")
            self._token_of = token, self._named_agent(answer)
        named = self._token_of[1]
        if self._agent_id and named not in {None, self._agent_id}:
            raise NotPermittedError(
                f"agent_id: expected {named}, for which the token in {self._token_file} is, got {self._agent_id}; "
                "leave --agent-id out, or use a token of this agent"
            )
        return named

    def _named_agent(self, answer: Answer) -> str | None:
        named = _members(answer.body).get("agent_id")
        try:
            if named is not None:
                require_agent_id(named if isinstance(named, str) else "")
        except SettingsError as error:
            raise RegistryUnavailableError(f"registry {self._name}: expected its own token's agent: {error}") from error
        return named

    def post_report(
        self, find_agent_id: Callable[[], str], report: CcaReport, *, sums: Mapping[str, Any] | None = None
    ) -> str | None:
        """Send a report to the registry, under the token's agent id, or else the one that `find_agent_id` returns.

        sums: a delta of the flows' sums (sums.py). A registry that does not know them ignores them. If one refuses the
        report with them, it is sent without them, because the report itself matters more.
        Return why the sums were refused, or None. Raises RegistryUnavailableError.
        """
        agent_id = self.agent_id_of_token() or find_agent_id()
        path = f"/v1/agents/{quote(agent_id, safe='')}/reports"
        content = asdict(report) if sums is None else {**asdict(report), "sums": sums}
        answer = self._post(path, content)
        refused = None
        if sums is not None and answer.status in _REFUSED_CONTENT:
            refused = str(self._unexpected(answer, "2xx"))
            answer = self._post(path, asdict(report))
        if not http.HTTPStatus.OK <= answer.status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise self._unexpected(answer, "2xx")
        return refused

    def put_observations(self, content: bytes, *, digest: str) -> None:
        """Send a file of observations under the token's agent id, or else the one of the settings.

        digest: of the content, as sha256:HEX. Raises ContentRefusedError where the registry will never accept it, and
        RegistryUnavailableError.
        """
        agent_id = self.agent_id_of_token() or self._agent_id
        path = f"/v1/agents/{quote(agent_id, safe='')}/observations/{quote(digest, safe='')}"
        answer = self._request("PUT", path, headers={"Content-Type": "application/octet-stream"}, body=content)
        if answer.status in _REFUSED_CONTENT:
            raise ContentRefusedError(str(self._unexpected(answer, "2xx")))
        if not http.HTTPStatus.OK <= answer.status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise self._unexpected(answer, "2xx")

    def _post(self, path: str, content: Mapping[str, Any]) -> Answer:
        body = json.dumps(content, separators=(",", ":")).encode("ascii")
        return self._request("POST", path, headers={"Content-Type": "application/json"}, body=body)

    def abort(self) -> None:
        """End the current request, and make every later one fail. May be called from another thread."""
        self._aborted = True
        self._connection.abort()

    def _request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        wait_s: float = 0,
    ) -> Answer:
        if self._aborted:
            raise RegistryUnavailableError("the agent is stopping")
        usual = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "ccatune-agent"}
        token = {} if self._token_file is None else {"Authorization": f"Bearer {self._token()}"}
        request = Request(method, self._url.path.rstrip("/") + path, {**usual, **(headers or {}), **token}, body)
        timeout_s = self._timeout_s + wait_s
        try:
            answer = self._connection.run(request, timeout_s=timeout_s, max_body_bytes=MAX_ANSWER_BYTES)
        except SettingsError as error:
            raise self._not_sent(error) from error
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

    def _not_sent(self, error: SettingsError) -> RegistryUnavailableError:
        # A file of a secret was changed while the agent runs. It is read again for the next request.
        return RegistryUnavailableError(f"no request was sent to the registry {self._name}: {error}")

    def _token(self) -> str:
        assert self._token_file is not None  # noqa: S101 - callers check this
        try:
            return read_token(self._token_file)
        except SecretError as error:
            raise self._not_sent(error) from error

    def _unexpected(self, answer: Answer, expected: str) -> RegistryUnavailableError:
        """Return the error for an answer of another status than expected."""
        if 300 <= answer.status < 400:
            where = without_user_info(answer.headers.get("location", "nowhere"))
            return RegistryUnavailableError(
                f"registry {self._name}: expected {expected}, got {answer.status} to {where!r:.100}; "
                "redirects are refused, set --url to where it is"
            )
        text = f"registry {self._name}: expected {expected}, got {answer.status}"
        problem = _members(answer.body).get("type")
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            # The detail names the settings of `ccatune`, which differ from those of the agent.
            return NotPermittedError(f"{text}; {self._how_to_get_accepted()}")
        text = f"{text} {_problem_detail(answer.body)}".rstrip()
        if problem == _TOO_MANY_ATTEMPTS:
            return NotPermittedError(f"{text}; {self._how_to_get_accepted()}")
        if answer.status == http.HTTPStatus.FORBIDDEN and problem == _NOT_PERMITTED:
            return NotPermittedError(
                f"{text}; the registry's administrator makes one with the scopes read and report for this agent, "
                f"algorithm and channel: put it into {self._token_file or 'a file, and set --token-file'}"
            )
        if answer.status == http.HTTPStatus.NOT_FOUND and problem == _NO_CHANNEL:
            return ChannelAbsentError(text)
        return RegistryUnavailableError(text)

    def _how_to_get_accepted(self) -> str:
        if self._token_file is None:
            return (
                "the registry requires a token: get one from its administrator, and set --token-file or "
                "CCATUNE_AGENT_TOKEN_FILE"
            )
        return (
            f"it does not accept the token in {self._token_file}, which may be expired or revoked: get another one "
            "from its administrator, and put it into this file"
        )


def parse_offer(body: bytes, *, cca: str, channel: str) -> tuple[dict[str, Any], Table]:
    """Return an offer for `cca` on `channel` as JSON data, and its table, whose signatures are not verified yet.

    Raises OfferRefusedError if the offer is malformed or has a value out of range, or if its algorithm, channel or
    digest is not the expected one.
    """
    answer = _json_object(body)
    try:
        ensemble = Ensemble.from_json(answer.get("ensemble"))
        deployment = Deployment(
            registry=_field(answer, "registry", str),
            channel=_field(answer, "channel", str),
            serial=_field(answer, "serial", int),
            hold_back_permille=_field(answer, "hold_back_permille", int),
            urgent=_field(answer, "urgent", bool),
        )
        table = Table(ensemble=ensemble, deployment=deployment)
    except EnsembleError as error:
        raise OfferRefusedError(f"the registry's offer is refused: {error}") from error
    except (RecursionError, TypeError) as error:
        raise OfferRefusedError(f"the registry's offer is refused: no ensemble ({error})") from error
    for what, expected, came in (
        ("cca", cca, _field(answer, "cca", str)),
        ("the ensemble's cca", cca, ensemble.cca),
        ("channel", channel, deployment.channel),
        ("digest", ensemble.digest, _field(answer, "digest", str)),
    ):
        if came != expected:
            raise OfferRefusedError(f"the registry's offer is refused: expected {what} {expected}, got {came!r:.100}")
    return answer, table


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise OfferRefusedError(
            f"the registry's answer is refused: expected JSON, got {body[:60]!r} ({error})"
        ) from error
    if not isinstance(answer, dict):
        raise OfferRefusedError(f"the registry's answer is refused: expected an object, got {type(answer).__name__}")
    return answer


def _field(answer: dict[str, Any], name: str, kind: type) -> Any:
    value = answer.get(name)
    if type(value) is not kind:  # in Python a bool is an int, too
        raise OfferRefusedError(
            f"the registry's answer is refused: expected {name} as {kind.__name__}, got {value!r:.100}"
        )
    return value


def _members(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object, such as a problem document (RFC 9457), or none for any other body."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _problem_detail(body: bytes) -> str:
    """Return the detail of a problem document in parentheses, or "" for any other body."""
    detail = _members(body).get("detail")
    return f"({visible(detail[:_MAX_PROBLEM_CHARACTERS])})" if isinstance(detail, str) else ""


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no whole one"
    text = str(error) or type(error).__name__
    return text[:_MAX_PROBLEM_CHARACTERS]
