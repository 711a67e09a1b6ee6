# SPDX-License-Identifier: MIT
"""/v1/observations, and their upload"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
from pathlib import Path

import pytest

from kmod.observation_writer import ObservationWriter
from kmod.observations import Ends, Facts, files_in
from serving.agent.errors import RegistryUnavailableError
from serving.agent.log import EventLog
from serving.agent.observe.upload import Uploader, upload_settings
from serving.observations.retention import ObservationRetention
from tests.serving.api import Api, api_of
from tests.serving.observations.files import made_file
from tests.serving.running import Running

pytestmark = pytest.mark.service


def put(api: Api, digest: str, content: bytes, *, agent_id: str = "web-1", **headers: str):
    """Upload a file."""
    headers = {"Content-Type": "application/octet-stream", **headers}
    return api.request("PUT", f"/v1/agents/{agent_id}/observations/{digest}", content=content, headers=headers)


def listed(api: Api, **query: str) -> list[str]:
    """The digests of the files."""
    return [one["digest"] for one in api.get("/v1/observations", params=query).json()["items"]]


def test_a_file_is_kept_once_listed_and_returned_as_it_was(api):
    digest, content = made_file(5)
    first, second = put(api, digest, content), put(api, digest, content)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert first.json() == {
        "digest": digest, "agent_id": "web-1", "start_s": 5.0, "size_bytes": len(content),
        "received_at": "2026-03-01T12:00:00Z",
    }  # fmt: skip
    put(api, *made_file(6), agent_id="web-2")
    assert listed(api) == [made_file(6)[0], digest]
    assert listed(api, agent_id="web-1") == [digest]
    answer = api.get(f"/v1/observations/{digest}")
    assert (answer.content, answer.headers["content-type"]) == (content, "application/octet-stream")


def test_what_is_no_file_of_observations_is_refused(api, problem):
    digest, content = made_file()
    other = "sha256:" + "0" * 64
    assert "got one with" in problem(put(api, other, content), status=422)["detail"]
    for text in (b"hello", gzip.compress(b"hello\n"), gzip.compress(b"")):
        found = problem(put(api, f"sha256:{hashlib.sha256(text).hexdigest()}", text), status=422)
        assert found["type"] == "urn:ccatune:problem:observations-invalid"
    problem(put(api, digest, bytes(3 << 20)), status=413)
    problem(api.get(f"/v1/observations/{other}"), status=404)
    assert listed(api) == []


def test_a_token_of_an_agent_neither_writes_nor_reads_those_of_another(api, problem):
    own, other = made_file(1), made_file(2)
    put(api, *other, agent_id="web-2")
    agent = api.limited("report", "read", agent_id="web-1")
    assert put(agent, *own).status_code == 201
    problem(put(agent, *made_file(3), agent_id="web-2"), status=403)
    problem(agent.get(f"/v1/observations/{other[0]}"), status=403)
    assert listed(agent) == [own[0]]


def test_the_oldest_files_beyond_a_size_are_deleted(api):
    api = api_of(api.database, observation_bytes_per_agent=100_000, observation_bytes=150_000, open=True)
    files = [made_file(number, more_bytes=30_000) for number in range(8)]
    for one in files[:5]:
        put(api, *one)
    assert listed(api) == [digest for digest, _ in reversed(files[3:5])]
    for one in files[5:]:
        put(api, *one, agent_id="web-2")
    assert listed(api) == [files[number][0] for number in (7, 6, 4)]


def test_old_files_are_deleted(api):
    put(api, *made_file(1))
    api.clock.advance(seconds=29 * 86_400)
    put(api, *made_file(2))
    api.clock.advance(seconds=2 * 86_400)
    asyncio.run(api.part(ObservationRetention).round())
    assert listed(api) == [made_file(2)[0]]


@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_an_uploader_sends_each_finished_file_once_also_those_from_before_the_registry_was_there(api, tmp_path: Path):
    writer = ObservationWriter(tmp_path, facts=Facts(every_ms=200, find_s=5, share=1, addresses=""))
    for number in range(1, 4):
        writer.tick(number)
        writer.flow(number, Ends(local="", local_port=1, peer=""))
        writer.finish()
    (tmp_path / "observe-20260101T000000Z-a-000000.gz").write_bytes(b"damaged")

    def uploader(url: str) -> Uploader:
        settings = upload_settings(url=url, token_file=None, agent_id="web-1", ca_file=None, insecure_http=False)
        return Uploader(tmp_path, settings, log=EventLog())

    with contextlib.closing(uploader("http://127.0.0.1:9")) as early, pytest.raises(RegistryUnavailableError):
        early.send()
    with Running(api.database) as registry:
        with uploader(registry.url):
            pass
        with contextlib.closing(uploader(registry.url)) as again:
            assert again.send() == 0
    wanted = {f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files_in(tmp_path)[1:]}
    assert set(listed(api)) == wanted
    assert len(wanted) == 3


def test_the_command_copies_the_files_that_a_folder_does_not_have(api, run_command, tmp_path: Path):
    for number in (1, 2):
        put(api, *made_file(number), agent_id=f"web-{number}")
    with Running(api.database) as registry:
        words = ["observations", "get", tmp_path / "observed", "--url", registry.url]
        assert run_command(*words, "--agent", "web-2")[:2] == (0, f"{tmp_path}/observed: 1 new file, 0 known\n")
        assert run_command(*words)[:2] == (0, f"{tmp_path}/observed: 1 new file, 1 known\n")
        assert "web-1" in run_command("observations", "list", "--url", registry.url)[1]
    assert [path.read_bytes() for path in files_in(tmp_path / "observed")] == [made_file(one)[1] for one in (1, 2)]
