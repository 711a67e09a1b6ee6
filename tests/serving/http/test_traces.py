# SPDX-License-Identifier: MIT
"""Traces of requests, as a receiver of OTLP gets them"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from serving.errors import SettingsError
from tests.serving.api import api_of
from tests.serving.running import CHAMPION
from tests.serving.threads import served

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


@dataclass
class Receiver:
    """What an OTLP receiver got: the spans, and the attributes of what sent them."""

    url: str = ""
    paths: set[str] = field(default_factory=set)
    resource: dict[str, str] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)

    def take(self, path: str, body: bytes) -> None:
        """Parse a request. A wrong one raises an error."""
        self.paths.add(path)
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource |= attributes(sent.resource.attributes)
            self.spans += [span for scope in sent.scope_spans for span in scope.spans]

    def of_requests(self) -> dict[str, Span]:
        """The spans of whole requests, by name."""
        return {span.name: span for span in self.spans if span.kind == Span.SPAN_KIND_SERVER}


def attributes(values: object) -> dict[str, str]:
    """Attributes as texts."""
    found: list[KeyValue] = list(values)  # type: ignore[call-overload]
    return {one.key: one.value.string_value or str(one.value.int_value) for one in found}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver on the loopback interface, to which the environment leads."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    with served(HTTPServer(("127.0.0.1", 0), Handler)) as found.url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


def test_a_receiver_gets_a_span_of_each_request_but_polls_and_reports(api, receiver, monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    api.move(0)
    traced = api_of(api.database, telemetry=True).with_token(api.token)
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert traced.get("/v1/channels", headers={"traceparent": parent}).status_code == 200
    assert traced.get(f"{CHAMPION}/history").status_code == 200
    monkeypatch.setattr("serving.channels.repository.history_page", lambda *_, **__: 1 / 0)
    assert traced.get(f"{CHAMPION}/history").status_code == 500
    assert traced.get(CHAMPION).status_code == 200
    body = {"cca": "gr", "channel": "champion", "state": "InSync"}
    assert traced.request("POST", "/v1/agents/web-1/reports", json=body).status_code == 204
    traced.app.state.context.close()
    assert receiver.paths == {"/v1/traces"}
    assert receiver.resource["service.name"] == "ccatune-registry"
    assert receiver.resource["deployment.environment"] == "test"
    spans = receiver.of_requests()
    assert set(spans) == {"GET /v1/channels", "GET /v1/channels/{cca}/{name}/history"}
    assert spans["GET /v1/channels"].trace_id.hex() == parent.split("-")[1]
    assert attributes(spans["GET /v1/channels"].attributes)["http.response.status_code"] == "200"
    failed = spans["GET /v1/channels/{cca}/{name}/history"]
    assert (failed.status.code, attributes(failed.attributes)["error.type"]) == (
        Status.STATUS_CODE_ERROR, "ZeroDivisionError",
    )  # fmt: skip


def test_nothing_is_sent_without_the_setting_whatever_the_environment_says(api, receiver, monkeypatch):
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    silent = api_of(api.database).with_token(api.token)
    assert silent.get("/v1/channels").status_code == 200
    silent.app.state.context.close()
    assert receiver.spans == []


def test_a_start_without_the_extra_says_what_to_install(api, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SettingsError, match=r"expected the extra `telemetry`.*ccatune\[telemetry\]"):
        api_of(api.database, telemetry=True)
