# SPDX-License-Identifier: MIT
"""Tokens of requests, from several addresses and through several processes"""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from sqlalchemy import event

from serving.access.attempts import Attempts
from serving.access.known import KnownTokens
from serving.access.token_text import new_token, public_id_of
from tests.serving.running import CHAMPION, Running

pytestmark = pytest.mark.service

sqlite_alone = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)


class Seconds:
    """A monotonic clock that advances only when the test sets it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def seconds(monkeypatch) -> Seconds:
    """The monotonic clock of all processes of a test."""
    made = Seconds()
    for kind in (KnownTokens, Attempts):
        monkeypatch.setitem(kind.__init__.__kwdefaults__, "monotonic", made)
    return made


def unknown_token() -> str:
    """A token that no registry has made."""
    return new_token().text


@sqlite_alone
@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", "Basic YTpi", "ccat_x", "Bearer\tx", "Token x"]
)  # fmt: skip
def test_a_header_without_a_bearer_token_is_a_401_that_says_so(api, problem, value):
    answer = api.anonymous.get("/v1/channels", headers={"Authorization": value})
    assert "got no token" in problem(answer, status=401)["detail"]
    assert answer.headers["www-authenticate"] == "Bearer"


@sqlite_alone
def test_two_authorization_headers_are_refused(api, problem):
    headers = [("Authorization", f"Bearer {api.token}"), ("Authorization", f"Bearer {api.token}")]

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=api.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/v1/channels", headers=headers)

    problem(asyncio.run(send()), status=401)


@sqlite_alone
def test_the_scheme_may_be_in_any_case(api):
    for scheme in ("bearer", "BEARER"):
        headers = {"Authorization": f"{scheme} {api.token}"}
        assert api.anonymous.get("/v1/channels", headers=headers).status_code == 200


@sqlite_alone
def test_a_token_is_in_no_answer_and_in_no_log(api, problem, caplog):
    token = unknown_token()
    with caplog.at_level(logging.DEBUG):
        answer = api.with_token(token).get("/v1/channels")
    problem(answer, status=401)
    assert token[-43:] not in answer.text + caplog.text
    assert f"not-authenticated from 127.0.0.1, token {public_id_of(token.encode())}" in caplog.text
    assert repr(new_token()).count("_") == 1


@sqlite_alone
def test_refused_attempts_do_not_fill_the_log(api, caplog):
    for _ in range(50):
        api.anonymous.get("/v1/channels")
    assert caplog.text.count("refused") == 1


@sqlite_alone
def test_the_pages_for_everyone_need_no_token_and_take_a_wrong_one(api):
    for path in ("/healthz", "/v1/docs", "/v1/openapi.json"):
        assert api.with_token(unknown_token()).get(path).status_code == 200


@sqlite_alone
@pytest.mark.parametrize("path", ["/healthz/", "/v1//docs", "/healthz/../v1/channels", "/v1/docs/x", "/%68ealthz/x"])
def test_a_path_that_resembles_a_page_for_everyone_needs_a_token(api, path):
    assert api.anonymous.get(path).status_code == 401


def test_a_token_of_another_process_is_accepted_at_once_and_its_revocation_within_the_time(seconds, api):
    other = api.other_process()
    token = api.new_token("read")
    caller = other.with_token(token)
    assert caller.get("/v1/channels").status_code == 200
    token_id = public_id_of(token.encode())
    api.request("DELETE", f"/v1/tokens/{token_id}")
    assert api.with_token(token).get("/v1/channels").status_code == 401
    seconds.now_s += 5
    assert caller.get("/v1/channels").status_code == 401


@sqlite_alone
def test_a_clock_that_was_ahead_refuses_no_token_for_longer_than_it_was(seconds, api):
    caller = api.limited("read", lifetime_s=3600)
    other = api.other_process()
    # This process reads the tokens for the first time while its clock is a day ahead.
    api.clock.advance(seconds=86_400)
    assert other.get("/v1/channels").status_code == 200
    assert other.with_token(caller.token).get("/v1/channels").status_code == 401
    api.clock.advance(seconds=-86_400)
    seconds.now_s += 5
    assert other.with_token(caller.token).get("/v1/channels").status_code == 200
    # The correction costs one query of all tokens, and the next query asks for changes only.
    version = other.part(KnownTokens)._version
    seconds.now_s += 5
    other.get("/v1/channels")
    assert other.part(KnownTokens)._version == version > 0


@sqlite_alone
def test_an_expired_token_leaves_the_memory_with_a_query_and_is_read_again_if_the_clock_is_set_back(seconds, api):
    caller = api.limited("read", lifetime_s=3600)
    tokens = api.part(KnownTokens)
    n_tokens = len(tokens)
    api.clock.advance(seconds=3600)
    seconds.now_s += 61
    assert api.get("/v1/channels").status_code == 200
    assert len(tokens) == n_tokens - 1
    api.clock.advance(seconds=-60)
    assert caller.get("/v1/channels").status_code == 200


@sqlite_alone
def test_known_tokens_cost_no_query(seconds, api):
    queries: list[str] = []
    caller = api.limited("report", agent_id="a")
    body = {"cca": "gr", "channel": "champion", "state": "InSync"}
    caller.request("POST", "/v1/agents/a/reports", json=body)

    def note(_connection, _cursor, statement, *_: object) -> None:
        queries.append(statement)

    event.listen(api.database._engine, "before_cursor_execute", note)
    for _ in range(20):
        seconds.now_s += 0.01
        assert caller.request("POST", "/v1/agents/a/reports", json=body).status_code == 204
    assert not [statement for statement in queries if "tokens" in statement]


@sqlite_alone
def test_thousands_of_new_callers_share_their_queries(api):
    tokens = [api.new_token("read") for _ in range(20)]
    fresh = api.other_process()
    queries: list[str] = []
    event.listen(api.database._engine, "before_cursor_execute", lambda *a: queries.append(a[2]))

    async def scenario() -> list[int]:
        transport = httpx.ASGITransport(app=fresh.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            sent = [client.get("/v1/agents", headers={"Authorization": f"Bearer {token}"}) for token in tokens]
            return [answer.status_code for answer in await asyncio.gather(*sent)]

    assert asyncio.run(scenario()) == [200] * 20
    assert len([statement for statement in queries if "FROM tokens" in statement]) <= 2


def test_an_address_with_many_refused_tokens_is_blocked_for_a_time_but_not_its_known_tokens(seconds, api, problem):
    known = api.limited("read")
    assert known.get("/v1/channels").status_code == 200
    for _ in range(10):
        problem(api.with_token(unknown_token()).get("/v1/channels"), status=401)
    seconds.now_s += 1
    answer = api.with_token(unknown_token()).get("/v1/channels")
    assert problem(answer, status=429)["type"].endswith("too-many-attempts")
    assert answer.headers["retry-after"] == "59"
    assert known.get("/v1/channels").status_code == 200
    # The tokens are read anew when they are too old, so one that another process made meanwhile is known then.
    later = known.with_token(api.other_process().new_token("read"))
    seconds.now_s += 6
    assert later.get("/v1/channels").status_code == known.get("/v1/channels").status_code == 200
    seconds.now_s += 60
    problem(api.with_token(unknown_token()).get("/v1/channels"), status=401)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [("192.0.2.1", "192.0.2.2", False), ("2001:db8::1", "2001:db8::ffff:2", True),
     ("2001:db8::1", "2001:db9::1", False), ("::ffff:192.0.2.1", "192.0.2.1", True), (None, "", True)],
)  # fmt: skip
def test_addresses_of_one_network_count_together(one, other, is_same):
    attempts = Attempts(max_refused=1, monotonic=Seconds())
    attempts.refused(one)
    assert (attempts.blocked_s(other) > 0) is is_same


def test_the_number_of_addresses_that_are_remembered_is_bounded():
    attempts = Attempts(max_refused=1, monotonic=Seconds())
    for number in range(10_001):
        attempts.refused(f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}")
    assert attempts.blocked_s("10.0.0.0") == 0
    assert attempts.blocked_s("10.0.0.1") > 0


def test_the_last_use_of_a_token_is_written_from_time_to_time(api):
    api.limited("read").get("/v1/channels")
    assert [row["last_used_at"] for row in api.get("/v1/tokens").json()["items"]] == [None, None]
    api.clock.advance(seconds=60)
    asyncio.run(api.part(KnownTokens).write_uses())
    used = [row["last_used_at"] for row in api.get("/v1/tokens").json()["items"]]
    assert used == ["2026-03-01T12:01:00Z"] * 2


@sqlite_alone
@pytest.mark.parametrize(("trusted", "address"), [((), "127.0.0.1"), (("127.0.0.1",), "192.0.2.7")])
def test_only_a_trusted_proxy_names_the_address_of_its_client(api, trusted, address):
    with Running(api.database, open=False, trusted_proxies=trusted) as registry:
        headers = {**api.headers, "X-Forwarded-For": "192.0.2.7"}
        body = {"principal": "p", "kind": "ci", "scopes": ["read"]}
        assert httpx.post(f"{registry.url}/v1/tokens", json=body, headers=headers).status_code == 201
    assert api.get("/v1/audit").json()["items"][0]["address"] == address


@sqlite_alone
@pytest.mark.parametrize(("sent", "is_kept"), [("job-17_A", True), ("x" * 64, True), ("x" * 65, False), ("a b", False),
                                               ("", False), ("é", False)])  # fmt: skip
def test_a_well_formed_request_id_of_the_client_is_kept(api, sent, is_kept):
    headers = {"X-Request-Id": sent.encode("latin-1")}
    for caller, path in ((api, "/v1/channels"), (api.anonymous, "/v1/channels"), (api, "/v1/nothing")):
        answered = caller.get(path, headers=headers).headers.get_list("x-request-id")
        assert len(answered) == 1
        assert (answered[0] == sent) is is_kept
        assert 1 <= len(answered[0]) <= 64


@sqlite_alone
def test_every_answer_has_a_request_id_of_its_own(api, monkeypatch):
    answers = [api.get("/healthz"), api.get("/healthz"), api.get("/v1/docs", headers={"Host": "evil"}),
               api.get(CHAMPION), api.request("POST", "/v1/ensembles", content=b" " * (2**21 + 1))]  # fmt: skip

    def fail(*_arguments, **_options):
        raise RuntimeError("the inside")

    monkeypatch.setattr("serving.ensembles.repository.page_newest_first", fail)
    answers.append(api.get("/v1/ensembles"))
    assert [answer.status_code for answer in answers] == [200, 200, 403, 404, 413, 500]
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)
