# SPDX-License-Identifier: MIT
"""Offers under a pinned root document: which signatures count, and which version of the document"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.agent.client import parse_offer
from serving.agent.errors import OfferExpiredError, OfferRefusedError, RegistryUnavailableError, SettingsError
from serving.agent.store import NO_CCA, ROOT, Store
from serving.agent.table import Table
from serving.agent.trust import Trust
from serving.signatures import Root
from tests.serving.agent.fakes import table
from tests.serving.agent.signed_offers import (
    SEVEN,
    Chain,
    root_bytes,
    root_file,
    signed_answer,
    trust_in,
)
from tests.serving.signatures.keyring import DAY_S, NOW_S, key, make_root

EIGHT = table(8, registry="lab")
# The registry's key s1 and the publisher p1 were replaced.
ROTATED = make_root(2, registry="s2", publisher="p2")


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    return root_file(tmp_path, make_root())


@pytest.fixture
def trust(pinned: Path, tmp_path: Path) -> Trust:
    return trust_in(pinned, tmp_path / "state")


def accepted(trust: Trust, answer: dict[str, Any], chain: Chain | None = None) -> Table:
    """The table of an answer after all checks. Raises OfferRefusedError."""
    data, offered = parse_offer(json.dumps(answer).encode(), cca="gr", channel="champion")
    return trust.check(data, offered, fetch=chain or Chain())


def test_a_signed_offer_is_accepted_with_its_signatures(trust: Trust) -> None:
    found = accepted(trust, signed_answer())
    assert found == SEVEN
    assert found.signed is not None
    assert (found.signed.key_id, found.signed.expires_s) == (key("s1").public.key_id, NOW_S + 7 * DAY_S)
    assert Table.from_json(json.loads(json.dumps(found.to_json()))).signed == found.signed
    assert trust.vouches_for(found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.data())
def test_no_change_of_a_signed_answer_is_accepted_as_another_table(trust: Trust, data: st.DataObject) -> None:
    """Whatever stands anywhere in the answer, it gives the signed table or OfferRefusedError, and no other error."""
    answer = signed_answer()
    part: Any = answer
    while isinstance(part, dict | list) and part:
        parent, name = part, data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part))))
        part = parent[name]
        if data.draw(st.booleans()):
            break
    values = [None, True, 0, -1, 2**63, 1.5, "", "A", "\ud800", [], {}, [[]], {"payload": 1}, part]
    parent[name] = copy.deepcopy(data.draw(st.sampled_from(values)))
    with suppress(OfferRefusedError):
        assert accepted(trust, answer) == SEVEN


# -- expiry ----------------------------------------------------------------------


def test_a_table_is_stale_when_its_signature_or_the_document_has_expired(pinned: Path, tmp_path: Path) -> None:
    found = accepted(trust_in(pinned, tmp_path / "state"), signed_answer())
    day = {days: trust_in(pinned, tmp_path / "state", now_s=NOW_S + days * DAY_S) for days in (6, 7, 8, 365)}
    for one in day.values():
        one.load()
    assert day[6].why_stale(found) is None
    assert "lab/champion serial 7" in str(day[7].why_stale(found))
    # The text does not count minutes, or each one would be a report.
    assert day[7].why_stale(found) == day[8].why_stale(found)
    assert "version 1 of the root document of lab has expired" in str(day[365].why_stale(None))


def test_an_expired_document_is_replaced_by_the_next_version(pinned: Path, tmp_path: Path) -> None:
    late_s = NOW_S + 366 * DAY_S
    late = trust_in(pinned, tmp_path / "state", now_s=late_s)
    answer = signed_answer(issued_s=late_s, expires_s=late_s + DAY_S)
    with pytest.raises(OfferExpiredError, match="the registry has no newer one"):
        accepted(late, answer)
    assert accepted(late, answer, Chain(make_root(2, expires_s=late_s + DAY_S))) == SEVEN


# -- versions --------------------------------------------------------------------


@pytest.mark.parametrize("named", [2, 1, None], ids=["named", "not named", "no version"])
def test_a_newer_version_is_fetched_and_kept(named: int | None, trust: Trust, pinned: Path, tmp_path: Path) -> None:
    answer = signed_answer(registry="s2", publishers="p2")
    answer["signatures"]["root_version"] = named
    assert accepted(trust, answer, Chain(ROTATED)) == SEVEN
    again, chain = trust_in(pinned, tmp_path / "state"), Chain()
    assert again.load().version == 2
    with pytest.raises(OfferRefusedError, match="in version 2 of the root document of lab, got 0 that hold"):
        accepted(again, signed_answer(root_version=1), chain)
    assert chain.requested == [3]


def test_forty_versions_are_followed_over_several_answers(trust: Trust) -> None:
    chain = Chain(*(make_root(version) for version in range(2, 41)), make_root(41, registry="s2"))
    answer = signed_answer(registry="s2", root_version=41)
    with pytest.raises(OfferRefusedError):
        accepted(trust, answer, chain)
    assert accepted(trust, answer, chain) == SEVEN
    assert chain.requested == [*range(2, 34), *range(34, 43)]


def test_an_unsigned_offer_is_refused_as_such_where_no_document_can_be_fetched(trust: Trust) -> None:
    def fetch(_version: int) -> bytes | None:
        raise RegistryUnavailableError("got 500")

    with pytest.raises(OfferRefusedError, match=r"expected the registry's signature, the offer has none.*got 500"):
        trust.check({}, SEVEN, fetch=fetch)
    # A newer document may remove a key, so an offer that names one waits for it.
    with pytest.raises(RegistryUnavailableError, match="got 500"):
        trust.check(signed_answer(root_version=2), SEVEN, fetch=fetch)


# -- files -----------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"x"), lambda path: path.chmod(0o666)])
def test_a_damaged_file_of_the_state_folder_counts_for_nothing(
    spoil: Callable[[Path], object], trust: Trust, pinned: Path, tmp_path: Path
) -> None:
    accepted(trust, signed_answer(registry="s2", publishers="p2"), Chain(ROTATED))
    spoil(tmp_path / "state" / ROOT)
    trial = trust_in(pinned, tmp_path / "state", writes=False)
    assert trial.load().version == 1
    assert (tmp_path / "state" / ROOT).exists()
    again = trust_in(pinned, tmp_path / "state")
    assert again.load().version == 1
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["root.damaged"]
    assert accepted(again, signed_answer(registry="s2", publishers="p2"), Chain(ROTATED)) == SEVEN


def test_a_table_is_accepted_only_with_verified_signatures_of_a_key_that_was_not_removed_since(
    trust: Trust, tmp_path: Path
) -> None:
    with pytest.raises(OfferRefusedError, match="expected verified signatures, it has none"):
        trust.require(SEVEN)
    seven = accepted(trust, signed_answer())
    trust.require(seven)
    # Another thread learns of the removal, after this one has verified the table.
    accepted(trust, signed_answer(EIGHT, registry="s2", publishers="p2"), Chain(ROTATED))
    with pytest.raises(OfferRefusedError, match="which was removed"):
        trust.require(seven)
    (tmp_path / "other").mkdir()
    other = trust_in(root_file(tmp_path / "other", make_root(registry="s1 s3")), tmp_path / "other" / "state")
    with pytest.raises(OfferRefusedError, match="expected verified signatures"):
        other.require(seven)


@pytest.mark.parametrize("data", [None, [], {}, {"pinned_sha256": "0" * 64}, {"pinned_sha256": "pinned"}])
def test_another_content_of_the_state_folder_counts_for_nothing(data: Any, pinned: Path, tmp_path: Path) -> None:
    trust = trust_in(pinned, tmp_path / "state")
    if data == {"pinned_sha256": "pinned"}:
        data = {"pinned_sha256": trust.pinned_sha256, "envelope": 5}
    Store(tmp_path / "state").save(NO_CCA, ROOT, data)
    assert trust.load().version == 1


def test_another_pinned_file_begins_anew(trust: Trust, tmp_path: Path) -> None:
    accepted(trust, signed_answer(registry="s2", publishers="p2"), Chain(ROTATED))
    other = root_file(tmp_path, make_root(registry="s1 s3"))
    again = trust_in(other, tmp_path / "state")
    assert again.load().version == 1
    assert accepted(again, signed_answer(registry="s3")) == SEVEN


def test_a_version_that_cannot_be_saved_is_saved_with_a_later_offer(trust: Trust, pinned: Path, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.rmdir()
    folder.write_text("no folder")
    assert accepted(trust, signed_answer(registry="s2", publishers="p2"), Chain(ROTATED)) == SEVEN
    folder.unlink()
    folder.mkdir()
    assert accepted(trust, signed_answer(registry="s2", publishers="p2")) == SEVEN
    assert trust_in(pinned, folder).load().version == 2


def test_a_pinned_file_that_others_could_change_is_refused(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in (0o664, 0o646):
        pinned.chmod(mode)
        with pytest.raises(SettingsError, match="whoever writes to it chooses the keys"):
            trust_in(pinned, pinned.parent / "state")
    pinned.chmod(0o644)
    if os.geteuid() == 0:
        os.chown(pinned, 4242, -1)
    else:
        user_id = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user_id + 1)
    with pytest.raises(SettingsError, match="as the owner, got user"):
        trust_in(pinned, pinned.parent / "state")


def fifo(path: Path) -> Path:
    os.mkfifo(path, 0o600)
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "missing", "No such file"),
        (lambda folder: folder, "Is a directory"),
        (lambda folder: fifo(folder / "pipe"), "expected a regular file"),
        (lambda _: Path("/dev/zero"), "expected a regular file"),
        (lambda _: Path("a\0b"), "embedded null"),
    ],
)
def test_a_pinned_file_must_be_a_file(make: Callable[[Path], Path], words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=words):
        trust_in(make(tmp_path), tmp_path / "state")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b" " * 200_000, root_bytes(make_root(), ""), root_bytes(make_root(), "x")]
)
def test_a_pinned_file_must_be_a_document_that_signs_itself(content: bytes, pinned: Path, tmp_path: Path) -> None:
    pinned.write_bytes(content)
    with pytest.raises(SettingsError, match="root"):
        trust_in(pinned, tmp_path / "state").load()


# -- stored tables and serials -----------------------------------------------------


def test_stored_signatures_are_verified_under_another_pinned_file(trust: Trust, tmp_path: Path) -> None:
    found = accepted(trust, signed_answer())

    def vouches(root: Root) -> bool:
        return trust_in(root_file(tmp_path, root), tmp_path / "state", now_s=NOW_S + 30 * DAY_S).vouches_for(found)

    assert vouches(make_root(5, registry="s1 s2"))
    assert vouches(make_root(5, registry="s1 s2", expires_s=NOW_S + DAY_S))
    assert not vouches(make_root(5, registry="s2"))
    assert not vouches(make_root(5, publisher="p2"))
    assert not vouches(make_root(5, of="elsewhere"))
    assert not trust.vouches_for(SEVEN)
