# SPDX-License-Identifier: MIT
"""ccatune root: documents are made, signed, shown and published step by step"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from serving.client import RegistryClient
from serving.commands.signed_files import read_root
from serving.errors import RegistryClientError
from serving.signatures import Envelope, Root, SignedRoot
from serving.signatures.root import ROOT_TYPE
from tests.serving.api import Command
from tests.serving.running import Running
from tests.serving.signatures.keyring import DAY_S, key, make_root, signed


@pytest.fixture
def command(run_command, tmp_path, monkeypatch) -> Command:
    """Runs a command of `ccatune` in an empty folder; gives its exit status, output and errors."""
    monkeypatch.chdir(tmp_path)
    return run_command


def public(name: str) -> str:
    return key(name).public.text


def key_id(name: str) -> str:
    return key(name).public.key_id


def pem(name: str) -> Path:
    """The private key's file in the current folder."""
    path = Path(f"{name}.pem")
    if not path.exists():
        key(name).save(path)
    return path


def document(root: Root, names: str, path: str = "root.json") -> Path:
    """A file with the root document, signed by the keys of these names."""
    Path(path).write_text(json.dumps(signed(root, names).to_json()))
    return Path(path)


def content_of(path: str) -> Root:
    return read_root(Path(path))[0]


MAKE = ("root", "make", "--registry-name", "lab", "--root", public("r1"), "--publisher", public("p1"))


def test_make_writes_version_1_without_signatures(command):
    before_s = time.time()
    status, out, _ = command(*MAKE, "--registry-key", public("s1"), "-o", "root.json", "--json")
    made, envelope = read_root(Path("root.json"))
    assert status == 0
    assert made == make_root(expires_s=made.expires_s)
    assert 365 * DAY_S - 1 <= made.expires_s - before_s <= 365 * DAY_S + 60
    assert envelope.signatures == {}
    assert json.loads(out)["needs"] == [{"version": 1, "needed": 1, "key_ids": [], "is_met": False}]
    assert json.loads(out)["is_complete"] is False


def test_make_takes_keys_from_files_and_thresholds_by_role(command):
    pem("r1")
    Path("p1.pub").write_text(f"{public('p1')}\n")
    words = ("--root", "r1.pem", "--root", public("r2"), "--root", public("r3"), "--publisher", "p1.pub")
    options = ("--threshold", "root=2", "--expires", "2040-01-01T00:00:00Z", "--out", "root.json")
    assert command("root", "make", "--registry-name", "lab", *words, *options)[0] == 0
    wanted = make_root(root="r1 r2 r3", registry="", thresholds={"root": 2}, expires_s=2_208_988_800)
    assert content_of("root.json") == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--root", public("r1")[:-2]], "expected a public key in base64"),
        (["--registry-key", public("r1")], "expected the registry's key in no other role"),
        (["--threshold", "root=2"], "expected a threshold of root from 1 to 1, got 2"),
        (["--threshold", "root=0"], "expected each role once, such as publisher=2"),
        (["--threshold", "owner=1"], "expected each role once, such as publisher=2"),
        (["--threshold", "root"], "expected each role once, such as publisher=2"),
        (["--threshold", "root=1", "--threshold", "root=1"], "expected each role once, such as publisher=2"),
        (["--expires", "365"], "expected such as 365d"),
        (["--expires", "0d"], "expected such as 365d"),
        (["--expires", "-1d"], "expected such as 365d"),
        (["--expires", "2027-02-30T00:00:00Z"], "expected such as 365d"),
        (["--expires", "2001-01-01T00:00:00Z"], "expected a time within the next 20 years"),
        (["--expires", "999999d"], "expected a time within the next 20 years"),
        (["--registry-name", "a b"], "expected registry of 1 to 63"),
    ],
)
def test_a_mistake_makes_no_document(command, options, message):
    status, _, error = command(*MAKE, *options, "-o", "root.json")
    assert (status, message in error) == (2, True)
    assert not Path("root.json").exists()


def test_make_replaces_no_document(command):
    document(make_root(), "r1")
    before = Path("root.json").read_bytes()
    status, _, error = command(*MAKE, "-o", "root.json")
    assert (status, "expected no file of this name" in error) == (2, True)
    assert Path("root.json").read_bytes() == before


def test_owners_sign_one_after_the_other_until_it_is_enough(command):
    document(make_root(root="r1 r2 r3", thresholds={"root": 2}), "")
    for names, is_complete in (("r1", False), ("r1 r3", True)):
        status, out, _ = command("root", "sign", "root.json", "--key", pem(names[-2:]), "--json")
        found = json.loads(out)
        assert (status, found["is_complete"]) == (0, is_complete)
        assert {row["key_id"] for row in found["keys"] if row["signed"]} == {key_id(name) for name in names.split()}
    assert SignedRoot.first(read_root(Path("root.json"))[1]).root.version == 1


def test_a_key_that_is_no_root_key_does_not_sign(command):
    document(make_root(), "")
    before = Path("root.json").read_bytes()
    for name in ("p1", "s1", "x"):
        status, _, error = command("root", "sign", "root.json", "--key", pem(name), "--key", pem("r1"))
        assert (status, f"key {name}.pem: expected a root key of root.json" in error) == (2, True)
        assert Path("root.json").read_bytes() == before


def test_next_changes_keys_and_thresholds_and_keeps_the_others(command):
    document(make_root(root="r1 r2", publisher="p1 p2", thresholds={"root": 2, "publisher": 2}), "r1 r2")
    changes = (
        *("--add-root", public("r3"), "--remove-root", key_id("r1")),
        *("--remove-publisher", key_id("p1")[:8], "--threshold", "publisher=1"),
        *("--add-registry-key", public("s2"), "--remove-registry-key", key_id("s1")[:16]),
    )
    status, out, _ = command("root", "next", "root.json", *changes, "-o", "root-2.json", "--json")
    made = content_of("root-2.json")
    wanted = make_root(2, root="r2 r3", publisher="p2", registry="s2", thresholds={"root": 2})
    assert (status, made) == (0, Root(**{**wanted.__dict__, "expires_s": made.expires_s}))
    assert [need["version"] for need in json.loads(out)["needs"]] == [2, 1]


def test_next_without_changes_renews_the_expiry(command):
    document(make_root(expires_s=1_000), "r1")
    assert "(expired)" in command("root", "show", "root.json")[1]
    assert command("root", "next", "root.json", "--expires", "12h", "-o", "root-2.json")[0] == 0
    assert abs(content_of("root-2.json").expires_s - time.time() - DAY_S / 2) < 60


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--add-publisher", public("p1")], "role publisher: expected a key that it lacks"),
        (["--remove-publisher", key_id("r1")], "role publisher: expected the id of one of its keys"),
        (["--remove-publisher", key_id("p1")[:7]], "at least 8 digits"),
        (["--remove-publisher", ""], "at least 8 digits"),
        (["--remove-publisher", key_id("p1")] * 2, "role publisher: expected the id of one of its keys (none)"),
        (["--remove-root", key_id("r1")], "expected at least one root key"),
        (["--add-registry-key", public("p1")], "expected the registry's key in no other role"),
    ],
)
def test_a_change_that_is_not_possible_makes_no_document(command, changes, message):
    document(make_root(), "r1")
    status, _, error = command("root", "next", "root.json", *changes, "-o", "root-2.json")
    assert (status, message in error) == (2, True)
    assert not Path("root-2.json").exists()


def test_next_starts_from_a_signed_document_alone(command):
    document(make_root(root="r1 r2", thresholds={"root": 2}), "r1")
    for words in (("next", "root.json", "-o", "root-2.json"), ("publish", "root.json")):
        status, _, error = command("root", *words)
        assert (status, "`ccatune root sign` adds signatures" in error) == (2, True)


def test_a_removed_root_key_signs_its_successor_with_the_version_before(command):
    document(make_root(root="old"), "old")
    command("root", "next", "root.json", "--add-root", public("new"), "--remove-root", key_id("old"), "-o", "2.json")
    assert "name the version before with --previous" in command("root", "sign", "2.json", "--key", pem("old"))[2]
    assert json.loads(command("root", "sign", "2.json", "--key", pem("new"), "--json")[1])["is_complete"] is None
    status, out, _ = command("root", "sign", "2.json", "--key", pem("old"), "--previous", "root.json", "--json")
    assert (status, json.loads(out)["is_complete"]) == (0, True)
    first = SignedRoot.first(read_root(Path("root.json"))[1])
    assert first.next(read_root(Path("2.json"))[1]).root.version == 2


def test_previous_is_the_version_before(command):
    document(make_root(3), "r1", "3.json")
    document(make_root(1), "r1", "1.json")
    document(make_root(2, of="prod"), "r1", "prod.json")
    document(make_root(2), "", "unsigned.json")
    for previous in ("1.json", "3.json", "prod.json", "unsigned.json", "none.json"):
        assert command("root", "show", "3.json", "--previous", previous)[0] == 2


def test_show_says_what_a_person_must_know(command):
    document(make_root(2, root="r1 r2", thresholds={"root": 2}), "r2", "2.json")
    document(make_root(), "r1")
    lines = command("root", "show", "2.json")[1].splitlines()
    assert [line for line in lines if line.startswith("signed by")] == [
        "signed by v2    1 of 2 needed root keys: not enough",
        "signed by v1    unknown; name this version with --previous",
    ]
    for name, is_signed in (("r1", "no"), ("r2", "yes")):
        assert f"root       {key_id(name)[:12]}  {public(name)}  {is_signed}" in [line.rstrip() for line in lines]
    assert f"publisher  {key_id('p1')[:12]}  {public('p1')}" in [line.rstrip() for line in lines]
    shown = command("root", "show", "2.json", "--previous", "root.json")[1]
    assert "signed by v1    0 of 1 needed root keys: not enough" in shown


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[" * 1000, b"\x00" * 200_000, "statement"])
def test_what_is_no_root_document_is_refused(command, content):
    if content == "statement":
        content = json.dumps(Envelope.sign("application/x", b"{}", [key("r1")]).to_json()).encode()
    if content is not None:
        Path("root.json").write_bytes(content)
    for words in (("show",), ("sign", "--key", pem("r1")), ("next", "-o", "2.json"), ("publish",)):
        status, _, error = command("root", words[0], "root.json", *words[1:])
        assert (status, error.startswith("ccatune: root.json: "), error.count("\n")) == (2, True, 1)


@pytest.mark.service
@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_documents_are_published_and_fetched_in_their_order(command, api):
    document(make_root(), "r1")
    document(make_root(2, root="r2"), "r1 r2", "2.json")
    with Running(api.database) as registry:
        publish = ("--url", registry.url)
        assert command("root", "fetch", "-o", "got.json", *publish)[0] == 2
        assert command("root", "publish", "root.json", *publish)[1] == "root.json: published as version 1 of lab\n"
        assert command("root", "publish", "root.json", *publish)[1].startswith(
            "root.json: published before as version 1"
        )
        document(make_root(3, root="r2"), "r2", "3.json")
        status, _, error = command("root", "publish", "3.json", *publish)
        assert (status, "409" in error) == (2, True)
        status, out, _ = command("root", "publish", "2.json", "--json", *publish)
        assert (status, json.loads(out)["version"], json.loads(out)["created"]) == (0, 2, True)
        assert command("root", "fetch", "-o", "newest.json", *publish)[0] == 0
        assert command("root", "fetch", "--version", 1, "-o", "first.json", *publish)[0] == 0
        with RegistryClient(registry.url) as client, pytest.raises(RegistryClientError, match="404"):
            client.root(3)
    assert read_root(Path("newest.json")) == read_root(Path("2.json"))
    assert read_root(Path("first.json")) == read_root(Path("root.json"))


def test_a_registry_that_sends_no_root_document_is_refused(command, monkeypatch):
    unsigned = Envelope(ROOT_TYPE, make_root().to_payload(), {})
    monkeypatch.setattr(RegistryClient, "root", lambda *_: unsigned)
    status, _, error = command("root", "fetch", "-o", "got.json")
    assert (status, "got 0 that hold" in error) == (2, True)
    assert not Path("got.json").exists()
