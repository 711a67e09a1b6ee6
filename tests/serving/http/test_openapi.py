# SPDX-License-Identifier: MIT
"""The OpenAPI document: it is valid, its examples hold, and a client that is generated from it works"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from serving.signatures import Envelope, SignedRoot
from tests.serving.api import make_ensemble
from tests.serving.running import CHAMPION, Running

# What is tested here is in front of any database: one kind is enough.
pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]

Json = dict[str, Any]
CLIENT = "generated_registry_client"


@pytest.fixture
def document(api) -> Json:
    """The document, as the registry serves it."""
    return dict(api.get("/v1/openapi.json").json())


def bodies(document: Json) -> Iterator[tuple[str, Json]]:
    """Each body of a request or an answer, with its place."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for name, part in [("body", operation.get("requestBody", {})), *operation["responses"].items()]:
                for content in part.get("content", {}).values():
                    yield f"{method} {path} {name}", content


def test_the_document_is_valid_and_each_example_satisfies_its_schema(document):
    validate(document)
    wrong = [
        f"{place}: {error.message}"
        for place, content in bodies(document)
        for error in OAS31Validator({**content["schema"], "components": document["components"]}).iter_errors(
            content["example"]
        )
    ]
    assert wrong == []


def test_the_registry_accepts_the_examples_of_requests(api, document):
    examples = {place.removesuffix(" body"): content["example"] for place, content in bodies(document)}
    steps = [("post", "/v1/ensembles"), ("put", "/v1/channels/{cca}/{name}"), ("post", "/v1/tokens"),
             ("post", "/v1/agents/{agent_id}/reports")]  # fmt: skip
    for method, path in steps:
        named = {"cca": "gr", "name": "champion", "agent_id": "web-1"}
        answer = api.request(method.upper(), path.format(**named), json=examples[f"{method} {path}"])
        assert answer.is_success, answer.text
    # Anyone knows the keys of the example, so that no registry may accept it as its own.
    root = SignedRoot.first(Envelope.from_json(examples["post /v1/roots"])).root
    answer = api.request("POST", "/v1/roots", json=examples["post /v1/roots"])
    assert (root.registry, answer.status_code) == ("example", 422)


def test_the_headers_of_answers_are_described(api, document):
    described = {
        (method, path, code): set(answer["headers"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for code, answer in operation["responses"].items()
    }
    assert all("X-Request-Id" in headers for headers in described.values())
    api.move(0)
    etag = api.get(CHAMPION).headers["etag"]
    answers = {
        ("get", "/v1/channels/{cca}/{name}", "200"): api.get(CHAMPION),
        ("get", "/v1/channels/{cca}/{name}", "304"): api.get(CHAMPION, headers={"If-None-Match": etag}),
        ("get", "/v1/channels/{cca}/{name}", "401"): api.anonymous.get(CHAMPION),
        ("post", "/v1/ensembles", "201"): api.request("POST", "/v1/ensembles", json=make_ensemble(1).to_json()),
    }
    for place, answer in answers.items():
        assert str(answer.status_code) == place[2]
        sent = {name for name in described[place] if name in answer.headers}
        assert sent == described[place], place


@pytest.fixture
def client(document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package that openapi-python-client generates."""
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    tools = str(Path(sys.executable).parent)
    done = subprocess.run(
        [f"{tools}/openapi-python-client", "generate", "--path", str(file), "--meta", "none", "--fail-on-warning",
         "--output-path", str(tmp_path / CLIENT)],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(CLIENT)
    for name in [name for name in sys.modules if name.partition(".")[0] == CLIENT]:
        del sys.modules[name]


def test_a_generated_client_publishes_moves_and_reads_and_understands_errors(api, client):
    def operation(name: str) -> Any:
        return importlib.import_module(f"{CLIENT}.api.{name}")

    models: Any = importlib.import_module(f"{CLIENT}.models")
    ensemble = make_ensemble(0)
    with (
        Running(api.database, open=False) as registry,
        client.AuthenticatedClient(base_url=registry.url, token=api.token) as caller,
        client.AuthenticatedClient(base_url=registry.url, token="none") as stranger,
    ):
        move, get = operation("channels.move_channel"), operation("channels.get_channel")
        missing = get.sync_detailed("gr", "champion", client=caller)
        assert (missing.status_code, missing.parsed.type_) == (404, "urn:ccatune:problem:channel-not-found")
        document = models.PublishEnsembleDocument.from_dict(ensemble.to_json())
        published = operation("ensembles.publish_ensemble").sync(client=caller, body=document)
        assert (published.digest, published.created) == (ensemble.digest, True)
        moved = move.sync_detailed(
            "gr", "champion", client=caller, body=models.ChannelMove(digest=ensemble.digest), idempotency_key="one"
        )
        assert (moved.status_code, moved.parsed.serial) == (201, 1)
        offer = get.sync_detailed("gr", "champion", client=caller)
        assert offer.parsed.ensemble.to_dict() == ensemble.to_json()
        assert offer.headers["etag"] == moved.headers["etag"]
        same = get.sync_detailed("gr", "champion", client=caller, if_none_match=offer.headers["etag"])
        assert same.status_code == 304
        page = operation("channels.list_channels").sync(client=caller)
        assert [row.digest for row in page.items] == [ensemble.digest]
        invalid = move.sync("gr", "champion", client=caller, body=models.ChannelMove(digest="no digest"))
        assert (invalid.status, [part.where for part in invalid.errors]) == (422, ["body.digest"])
        refused = get.sync("gr", "champion", client=stranger)
        assert (refused.status, refused.title) == (401, "Not authenticated")
