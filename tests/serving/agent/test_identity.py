# SPDX-License-Identifier: MIT
"""The id that an agent reports under."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from serving.agent import SettingsError, Store
from serving.agent.identity import find_agent_id, require_agent_id
from serving.agent.store import AGENT_ID
from tests.serving.agent.fakes import log_to


def test_two_agents_of_one_host_have_two_ids_and_each_keeps_its_own(tmp_path: Path) -> None:
    stores = [Store(tmp_path / name) for name in ("one", "two")]
    found = []
    for store in stores:
        with store.acquire():
            found.append(find_agent_id("", store=store, log=log_to()))
            assert find_agent_id("", store=store, log=log_to()) == found[-1]
    assert len(set(found)) == 2
    for one in found:
        require_agent_id(one)


def test_given_id_is_used_and_nothing_is_kept(tmp_path: Path) -> None:
    assert find_agent_id("cdn-1", store=Store(tmp_path), log=log_to()) == "cdn-1"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"half", b"ccatune-agent-file 1"])
def test_damaged_id_is_replaced(tmp_path: Path, content: bytes) -> None:
    store, log = Store(tmp_path / "state"), io.StringIO()
    with store.acquire():
        (store.root / AGENT_ID).write_bytes(content)
        chosen = find_agent_id("", store=store, log=log_to(log))
        assert find_agent_id("", store=store, log=log_to()) == chosen
    assert "event=damaged" in log.getvalue()


def test_id_that_cannot_be_kept_is_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store, log = Store(tmp_path / "state"), io.StringIO()
    with store.acquire():
        monkeypatch.setattr(os, "fsync", full)
        require_agent_id(find_agent_id("", store=store, log=log_to(log)))
    assert "event=not_kept" in log.getvalue()


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "a\n", "ä", "a" * 129])
def test_id_that_the_registry_would_not_accept_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="agent_id: expected 1 to 128"):
        require_agent_id(name)
