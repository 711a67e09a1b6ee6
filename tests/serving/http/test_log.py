# SPDX-License-Identifier: MIT
"""The log of the registry as JSON and text, and which answers it has"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from serving.http.access_log import AccessLog
from serving.http.log import LogFormat, configure_log
from tests.serving.api import Api, api_of
from tests.serving.process import Process


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the log of this process goes, until the test ends."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def log(stream: io.StringIO, request: pytest.FixtureRequest) -> io.StringIO:
    """The log in the form that the test is given."""
    form: LogFormat = request.param
    configure_log(form, stream=stream)
    return stream


def answered(log: AccessLog, *, status: int = 200, duration_s: float = 0.01, path: str = "/v1/agents") -> None:
    """An answer, as the outermost layer reports it."""
    scope = {"method": "GET", "path": path, "client": ("10.0.0.7", 4711), "state": {"ccatune_request_id": "4a"}}
    if log.wants(status, duration_s):
        log.write(scope, status, duration_s)


@pytest.mark.service
@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("log", ["json"], indirect=True)
def test_each_answer_is_a_json_object_with_caller_and_request_id(api: Api, log: io.StringIO) -> None:
    logging_api = api_of(api.database, access_log=True).with_token(api.limited("read", principal="alice").token)
    answer = logging_api.get("/v1/channels", headers={"X-Request-Id": "my-id"})
    assert answer.status_code == 200
    logging_api.anonymous.get("/v1/agents")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    first, second = (line for line in lines if line["logger"] == "ccatune.access")
    assert first.pop("duration_s") > 0
    assert first.pop("time").endswith("Z")
    assert first.pop("message").startswith("GET /v1/channels 200 in ")
    assert first == {
        "level": "info", "logger": "ccatune.access", "request_id": "my-id", "caller": "alice", "address": "127.0.0.1",
        "method": "GET", "path": "/v1/channels", "status": 200,
    }  # fmt: skip
    assert (second["caller"], second["status"]) == (None, 401)
    logging_api.app.state.context.close()


@pytest.mark.parametrize("log", ["json"], indirect=True)
def test_a_traceback_is_a_field_of_one_line(log: io.StringIO) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("serving.test").exception("it failed for %s", "web-1")
    line = json.loads(log.getvalue())
    assert (line["message"], line["level"]) == ("it failed for web-1", "error")
    assert line["exception"].endswith("ValueError: two\nlines")


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_without_the_setting_only_faults_and_slow_answers_are_logged_and_none_forges_a_line(log: io.StringIO) -> None:
    access = AccessLog(slow_s=5.0)
    answered(access)
    answered(access, status=404)
    assert log.getvalue() == ""
    answered(access, status=503)
    answered(access, duration_s=5.5, path="/v1/x\n2026-03-01 a forged line")
    fault, slow = log.getvalue().splitlines()
    assert "WARNING ccatune.access: GET /v1/agents 503 in 0.010 s, by nobody, request 4a" in fault
    assert r"GET /v1/x\n2026-03-01 a forged line 200 in 5.500 s" in slow


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_a_long_poll_is_no_warning_where_all_answers_are_logged(log: io.StringIO) -> None:
    scope = {"method": "GET", "path": "/v1/x", "client": None, "state": {"ccatune_request_id": "4a"}}
    for is_poll in (True, False):
        AccessLog(slow_s=5.0, logs_all=True).write(scope, 200, 25.0, is_poll=is_poll)
    poll, slow = log.getvalue().splitlines()
    assert "WARNING" not in poll
    assert "WARNING" in slow


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_faults_do_not_fill_the_log_and_those_left_out_are_counted(log: io.StringIO) -> None:
    now_s = 0.0
    access = AccessLog(slow_s=5.0, monotonic=lambda: now_s)
    for _ in range(1000):
        answered(access, status=503)
    assert log.getvalue().count("\n") == 20
    now_s = 11.0
    answered(access, status=503)
    assert log.getvalue().endswith("; 980 lines were left out before it\n")


@pytest.mark.service
def test_each_line_of_a_process_is_json_with_the_option(tmp_path: Path) -> None:
    process = Process(tmp_path, "--log", "json", "--access-log")
    assert httpx.get(f"{process.url}/livez").status_code == 200
    status, _, err = process.end()
    lines = [json.loads(line) for line in err.splitlines()]
    assert (status, [(line["path"], line["status"], line["caller"]) for line in lines]) == (0, [("/livez", 200, None)])
