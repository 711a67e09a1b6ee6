# SPDX-License-Identifier: MIT
"""Python client of the registry's API. The commands of serving/commands/channels.py use it.

Agents have their own client (serving/agent/client.py), which needs only the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import httpx
from pydantic import TypeAdapter

from kmod.ensemble import Ensemble
from serving.client_requests import CCA, Answer, Json, RegistryRequests, condition, read_answer, require, unless_none
from serving.errors import RegistryClientError
from serving.names import AgentId, ChannelName, DigestText, Note
from serving.signatures import Envelope, SignatureError

_DIGEST_PREFIX = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")
_DIGEST_DIGITS = 64
_SHOWN_DIGEST_CHARS = 31

_CHANNEL: TypeAdapter[str] = TypeAdapter(ChannelName)
_DIGEST: TypeAdapter[str] = TypeAdapter(DigestText)
_NOTE: TypeAdapter[str] = TypeAdapter(Note)
# The id of a token and the name of a principal have the form of an agent's name, so they stay one part of a path.
_AGENT_ID: TypeAdapter[str] = TypeAdapter(AgentId)


class _Published(Answer):
    digest: str
    created: bool


class _Signatures(Answer):
    digest: str
    is_signed: bool
    threshold: int | None
    signatures: list[Json]


class _RootAdded(Answer):
    registry: str
    version: int
    created: bool


class _Token(Answer):
    id: str
    principal: str


class _CreatedToken(_Token):
    token: str


class _Deployment(Answer):
    registry: str
    cca: str
    channel: str
    serial: int
    digest: str
    restores_serial: int | None
    urgent: bool


class RegistryClient(RegistryRequests):
    """Client of one registry.

    A method that sends a request raises RegistryClientError where the registry is unreachable or refuses the request.
    """

    def health(self) -> Json:
        """Return the registry's status and name."""
        return read_answer(Answer, self._ask("GET", "/healthz"))

    def publish(self, ensemble: Ensemble) -> Json:
        """Publish an ensemble. In the answer `created` is False if the registry already held it."""
        return read_answer(_Published, self._ask_twice("POST", "/v1/ensembles", json=ensemble.to_json()))

    def ensemble(self, digest: str) -> Ensemble:
        """Return an ensemble after verifying its digest. Raises also EnsembleError, where its content is invalid."""
        require(_DIGEST, "digest", digest)
        return Ensemble.from_json(read_answer(Answer, self._ask("GET", f"/v1/ensembles/{digest}")))

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
            of_cca = f" of {cca}" if cca else ""
            shown = ", ".join(one[:_SHOWN_DIGEST_CHARS] for one in found[:3]) or "none"
            raise RegistryClientError(
                f"digest: expected {wanted} to begin the digest of one published ensemble{of_cca}, got {shown}; "
                "`ccatune ensembles list` shows them whole"
            )
        return found[0]

    def ensembles(self, *, cca: str | None = None) -> Iterator[Json]:
        """Yield summaries of all ensembles, newest first."""
        return self._pages("/v1/ensembles", cca=cca)

    def add_signature(self, digest: str, envelope: Envelope) -> Json:
        """Upload publishers' signatures of a published ensemble. The answer lists all signatures of the ensemble."""
        path = f"/v1/ensembles/{require(_DIGEST, 'digest', digest)}/signatures"
        return read_answer(_Signatures, self._ask("POST", path, json=envelope.to_json()))

    def publish_root(self, envelope: Envelope) -> Json:
        """Upload a root document. In the answer `created` is False if the registry already held it."""
        return read_answer(_RootAdded, self._ask("POST", "/v1/roots", json=envelope.to_json()))

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
            "digest": require(_DIGEST, "digest", digest),
            "hold_back_permille": hold_back_permille,
            "note": require_note(note),
            **unless_none(urgent=urgent),
        }
        answer = self._ask_twice("PUT", path, json=body, headers=condition(if_serial))
        return {**read_answer(_Deployment, answer), "created": answer.status_code == httpx.codes.CREATED}

    def remove_channel(self, cca: str, channel: str, *, if_serial: int | None = None) -> None:
        """Delete a channel and its history. if_serial: delete only if this is the channel's current serial."""
        self._ask("DELETE", require_channel(cca, channel), headers=condition(if_serial))

    def roll_back(
        self, cca: str, channel: str, *, urgent: bool | None = None, note: str = "", if_serial: int | None = None
    ) -> Json:
        """Point a channel back to its previous ensemble. It is repeated like `move`.

        urgent: whether running flows apply the table immediately; None means the registry's default, which is yes.
        if_serial: roll back only if this is the channel's current serial.
        """
        path = f"{require_channel(cca, channel)}/rollback"
        body = {"note": require_note(note), **unless_none(urgent=urgent)}
        return read_answer(_Deployment, self._ask_twice("POST", path, json=body, headers=condition(if_serial)))

    def channel(self, cca: str, channel: str) -> Json:
        """Return the channel's current deployment, with its ensemble."""
        return read_answer(_Deployment, self._ask("GET", require_channel(cca, channel)))

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
        self._ask("DELETE", f"/v1/agents/{require(_AGENT_ID, 'agent id', agent_id)}")

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
        limits = unless_none(kind=kind, ccas=ccas, channels=channels, agent_id=agent_id, lifetime_s=lifetime_s)
        body = {"principal": principal, "scopes": scopes, **limits}
        return read_answer(_CreatedToken, self._ask("POST", "/v1/tokens", json=body))

    def tokens(self, *, principal: str | None = None) -> Iterator[Json]:
        """Yield the tokens without their texts, newest first."""
        return self._pages("/v1/tokens", cca=None, principal=principal)

    def revoke_token(self, token_id: str) -> Json:
        """Revoke a token, and return it without its text."""
        return read_answer(_Token, self._ask("DELETE", f"/v1/tokens/{require(_AGENT_ID, 'id', token_id)}"))

    def disable_principal(self, name: str) -> Json:
        """Revoke all tokens of a principal, and return the principal."""
        return read_answer(Answer, self._ask("DELETE", f"/v1/principals/{require(_AGENT_ID, 'principal', name)}"))

    def audit(
        self, *, actor: str | None = None, action: str | None = None, target: str | None = None, limit: int = 100
    ) -> list[Json]:
        """Return the latest changes, newest first."""
        return list(islice(self._pages("/v1/audit", cca=None, actor=actor, action=action, target=target), limit))


def require_channel(cca: str, channel: str) -> str:
    """Return the channel's path. Raises RegistryClientError for an invalid name, which would change the path."""
    return f"/v1/channels/{require(CCA, 'cca', cca)}/{require(_CHANNEL, 'channel', channel)}"


def require_note(note: str) -> str:
    """Return the note in the form that the registry stores. Raises RegistryClientError where it is too long."""
    return require(_NOTE, "note", note)
