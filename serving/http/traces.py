# SPDX-License-Identifier: MIT
"""Traces of requests by OpenTelemetry, which the extra `telemetry` installs.

FastAPI makes the spans: one for each request, and one for each step of it. They are sent by OTLP over HTTP to the
address in OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and
the other variables of the standard are obeyed, too.

The agents' polls and reports pass in front of FastAPI (serving/registry/shortcut.py), so they make no spans.
"""

from __future__ import annotations

from typing import Any

from serving.errors import SettingsError

_SERVICE_NAME = "ccatune-registry"


class Traces:
    """What sends the spans of one registry. version: of ccatune. Raises SettingsError without the extra."""

    def __init__(self, *, version: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise SettingsError(
                f"telemetry: expected the extra `telemetry`, the module {error.name} is missing; install "
                "`ccatune[telemetry]`, or leave the setting out"
            ) from error
        # What the variables of the environment say of the resource wins.
        named = Resource({"service.name": _SERVICE_NAME, "service.version": version})
        self._provider = TracerProvider(resource=named.merge(OTELResourceDetector().detect()))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

    @property
    def config(self) -> Any:
        """What FastAPI is given."""
        return {**NO_TELEMETRY, "tracer_provider": self._provider, "tracing": True}

    def close(self) -> None:
        """Send the spans that wait, and end."""
        self._provider.shutdown()


# Without the setting nothing is sent, whatever the environment says.
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
