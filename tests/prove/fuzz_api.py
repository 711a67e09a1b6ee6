# SPDX-License-Identifier: MIT
"""Sends requests to a registry that schemathesis makes from its OpenAPI document, valid ones and invalid ones.

    python -m tests.prove.fuzz_api --requests 10000
    python -m tests.prove.fuzz_api --requests 2000 --postgresql

A real registry runs with accounts and a root document; the requests have the token of an administrator. Half of the
requests name things that exist (ensembles, channels, agents, tokens) and half of the published documents are
damaged copies of a valid one, because random values alone are almost always refused at the first check.
What must hold for each answer:

    no server error         the status is below 500; 503 is allowed while the registry says Retry-After
    documented              the status, the content type and the body are those of the OpenAPI document

At the end the registry still answers, the log has no traceback, and what was deployed before still stands.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import httpx

from tests.prove.guarded import Guarded, guarded, make_ensemble
from tests.serving.postgresql import PostgreSql, postgresql_binaries

SEED = 20260301
REQUEST_TIMEOUT_S = 30.0
# A valid request of these would end the access of the campaign itself, or delete the channel that it examines.
NOT_SENT = frozenset({"DELETE /v1/principals/{name}", "DELETE /v1/channels/{cca}/{name}"})
# The share of requests that name things that exist.
SHARE_OF_KNOWN = 0.5
SHARE_WITH_TOKEN = 0.97


@dataclass
class Figures:
    """What the campaign counted, and what did not hold."""

    requests: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    accepted_by_operation: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def fail(self, words: str) -> None:
        """Keep a failure; the first fifty are enough."""
        if len(self.failures) < 50:
            self.failures.append(words)


class Known:
    """Names that exist in the registry, and documents near to valid ones."""

    def __init__(self, service: Guarded, registry: httpx.Client) -> None:
        ensembles = [make_ensemble(number) for number in range(4)]
        self.documents = [ensemble.to_json() for ensemble in ensembles]
        self.envelopes = [service.signature(ensemble).to_json() for ensemble in ensembles]
        self.envelopes.append(service.signed_root().to_json())
        with service.client() as client:
            for ensemble in ensembles[:3]:
                service.publish(client, ensemble)
                client.move("gr", "champion", digest=ensemble.digest)
        self.report = {"cca": "gr", "channel": "champion", "state": "InSync", "effective_serial": 3}
        registry.post("/v1/agents/agent-1/reports", json=self.report).raise_for_status()
        self._values = {
            "cca": ["gr"],
            "name": ["champion", "canary"],
            "channel": ["champion"],
            "digest": [document["digest"] for document in self.documents],
            "agent_id": ["agent-1", "agent-2"],
            "version": [1, 2],
        }

    def put_into(self, case: Any, chance: random.Random) -> None:
        """Replace the names in a request by names that exist."""
        for values in (case.path_parameters, case.query):
            for name in set(values or ()) & self._values.keys():
                values[name] = chance.choice(self._values[name])
        body = case.body
        if isinstance(body, dict):
            for name in body.keys() & self._values.keys():
                body[name] = chance.choice(self._values[name])

    def document(self, label: str, chance: random.Random) -> bytes | None:
        """Return a body that is close to a valid one, or None for an operation that takes no document."""
        if label == "POST /v1/ensembles":
            valid = chance.choice(self.documents)
        elif label in {"POST /v1/roots", "POST /v1/ensembles/{digest}/signatures"}:
            valid = chance.choice(self.envelopes)
        else:
            return None
        return json.dumps(damaged(valid, chance)).encode("ascii")


def damaged(document: dict[str, Any], chance: random.Random) -> Any:
    """Return a copy of a document with up to three changes at random places."""
    copied = copy.deepcopy(document)
    for _ in range(chance.randrange(4)):
        place: Any = copied
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = chance.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.8:
                place = place[key]
                continue
            place[key] = chance.choice(
                [None, True, -1, 0, 2**31, 2**63, 1e308, "", "\x00", "\ud800", "x" * 5000, [], {}, [[[]]], place[key]]
            )
            break
    return copied


def fuzz(url: str, *, requests: int, headers: dict[str, str], known: Known, figures: Figures) -> None:
    """Send the requests, the same number for each operation and kind of request."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as hypothesis_seed
    from hypothesis.errors import Unsatisfiable
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.failures import FailureGroup
    from schemathesis.specs.openapi import checks as conformance

    checks = [
        not_a_server_error,
        conformance.status_code_conformance,
        conformance.content_type_conformance,
        conformance.response_schema_conformance,
    ]
    chance = random.Random(SEED)
    schema = schemathesis.openapi.from_url(f"{url}/v1/openapi.json")
    plans = [(found.ok(), mode) for found in schema.get_all_operations() for mode in schemathesis.GenerationMode]

    def send(case: Any) -> None:
        document = None
        if chance.random() < SHARE_OF_KNOWN:
            known.put_into(case, chance)
            document = known.document(case.operation.label, chance)
        if "wait" in (case.query or {}):
            case.query["wait"] = "0"
        for name in [name for name in case.headers or () if name.lower() == "authorization"]:
            del case.headers[name]
        # A few requests have no token, or another one.
        sent = headers if chance.random() < SHARE_WITH_TOKEN else chance.choice([{}, {"Authorization": "Bearer x"}])
        if document is None:
            answer = case.call(headers=sent, timeout=REQUEST_TIMEOUT_S)
        else:
            # schemathesis cannot send every text that JSON has, such as half of a surrogate pair.
            kind = {**sent, "Content-Type": "application/json"}
            path = case.operation.path.format(**(case.path_parameters or {}))
            answer = httpx.post(f"{url}{path}", content=document, headers=kind, timeout=REQUEST_TIMEOUT_S)
        figures.requests += 1
        figures.by_status[answer.status_code] += 1
        figures.accepted_by_operation[case.operation.label] += answer.status_code < 300
        if answer.status_code == 503 and "retry-after" in answer.headers:
            return
        try:
            case.validate_response(answer, checks=checks)
        except FailureGroup as group:
            for failure in group.exceptions:
                figures.fail(f"{case.operation.label}: {answer.status_code}: {failure}: {answer.text[:300]}")

    plans = [plan for plan in plans if plan[0].label not in NOT_SENT]
    round_size = max(1, requests // len(plans))
    number = 0
    while figures.requests < requests:
        operation, mode = plans[number % len(plans)]
        each = min(round_size, requests - figures.requests)
        run = given(case=operation.as_strategy(generation_mode=mode))(send)
        run = settings(
            max_examples=each, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(run)  # fmt: skip
        # An operation without any parameter has no invalid request.
        with contextlib.suppress(Unsatisfiable):
            hypothesis_seed(SEED + number)(run)()
        number += 1


@contextlib.contextmanager
def database_of(*, postgresql: bool, folder: Path) -> Iterator[str]:
    """Give the URL of an empty database."""
    if not postgresql:
        yield f"sqlite:///{folder}/registry.db"
        return
    binaries = postgresql_binaries()
    if binaries is None:
        raise click.UsageError("--postgresql: expected PostgreSQL to be installed")
    server = PostgreSql(binaries)
    try:
        yield server.empty_database()
    finally:
        server.stop()


def campaign(*, requests: int, postgresql: bool) -> Figures:
    """Run a registry, fuzz it, and check what is left."""
    figures = Figures()
    with (
        tempfile.TemporaryDirectory(prefix="ccatune-fuzz-") as name,
        database_of(postgresql=postgresql, folder=Path(name)) as database,
    ):
        folder = Path(name)
        with (
            guarded(folder, database=database) as service,
            httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}) as registry,
        ):
            url, headers = service.url, dict(registry.headers)
            known = Known(service, registry)
            before = registry.get("/v1/channels/gr/champion/history").json()["items"][-3:]
            fuzz(
                url,
                requests=requests,
                headers={"Authorization": headers["authorization"]},
                known=known,
                figures=figures,
            )
            if not registry.get("/healthz").is_success:
                figures.fail("the registry is not healthy after the campaign")
            history = list(all_pages(registry, "/v1/channels/gr/champion/history"))
            if history[-3:] != before:
                figures.fail(f"the first three deployments were {before}, they are {history[-3:]}")
            if [row["serial"] for row in history] != list(range(len(history), 0, -1)):
                figures.fail("the serials of the channel have a gap")
        log = (folder / "serve.log").read_text(encoding="utf-8")
        if "Traceback" in log:
            figures.fail(f"the log has a traceback: {log[:4000]}")
    return figures


def all_pages(registry: httpx.Client, path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of all pages."""
    cursor: str | None = None
    while True:
        page = registry.get(path, params={} if cursor is None else {"cursor": cursor}).json()
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


@click.command()
@click.option("--requests", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--postgresql", is_flag=True, help="Use a PostgreSQL server instead of SQLite.")
def main(*, requests: int, postgresql: bool) -> None:
    """Fuzz the registry; exit 0 if every answer is as documented and none is a server error."""
    warnings.simplefilter("ignore")
    figures = campaign(requests=requests, postgresql=postgresql)
    shown = {
        "requests": figures.requests,
        "by_status": dict(sorted(figures.by_status.items())),
        "accepted_by_operation": dict(sorted(figures.accepted_by_operation.items())),
        "failures": figures.failures,
    }
    click.echo(json.dumps(shown))
    sys.exit(1 if figures.failures else 0)


if __name__ == "__main__":
    main()
