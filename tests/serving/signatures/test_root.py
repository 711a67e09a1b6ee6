# SPDX-License-Identifier: MIT
"""Root documents: their rules, their signatures and the chain of their versions"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmod.ensemble import canonical_json
from serving.signatures import Envelope, Root, SignatureError, SignedRoot
from serving.signatures.root import ROOT_TYPE
from tests.serving.signatures.keyring import DIGEST, NOW_S, key, keys, make_root, role, signed

Change = Callable[[dict[str, Any]], object]


def root_json(change: Change) -> bytes:
    """The payload of a root document after a change, in canonical form."""
    data = json.loads(make_root(publisher="p1 p2").to_payload())
    change(data)
    return canonical_json(data)


def test_a_root_document_reads_back():
    root = make_root(3, root="r1 r2 r3", publisher="p1 p2", registry="", thresholds={"root": 2, "publisher": 2})
    assert Root.from_payload(root.to_payload()) == root
    assert b'"expires":"2027-03-01T12:00:00Z"' in root.to_payload()


@pytest.mark.parametrize(
    ("names", "thresholds", "message"),
    [
        ({"root": ""}, {}, "expected at least one root key"),
        ({"root": "r1 r2"}, {"root": 3}, "expected a threshold of root from 1 to 2, got 3"),
        ({"root": "r1 r2"}, {"root": 0}, "expected a threshold of root from 1 to 2, got 0"),
        ({}, {"publisher": -1}, "expected a threshold of publisher from 1 to 1, got -1"),
        ({"publisher": ""}, {"publisher": 2}, "expected a threshold of publisher from 1 to 1, got 2"),
        ({"registry": "s1 s2"}, {"registry": 2}, "expected the threshold 1 of the role registry"),
        ({"registry": "r1"}, {}, "expected the registry's key in no other role"),
        ({"registry": "s1 p1"}, {}, "expected the registry's key in no other role"),
        ({"publisher": " ".join(f"p{n}" for n in range(63))}, {}, "expected at most 64 keys, got 65"),
        ({"of": ""}, {}, "expected registry of 1 to 63"),
        ({"of": ".."}, {}, "expected registry of 1 to 63"),
        ({"of": "lab\n"}, {}, "expected registry of 1 to 63"),
        ({"of": "läb"}, {}, "expected registry of 1 to 63"),
        ({"of": "a" * 64}, {}, "expected registry of 1 to 63"),
    ],
)
def test_a_root_document_that_breaks_a_rule_cannot_be_made(names, thresholds, message):
    with pytest.raises(SignatureError, match=message):
        make_root(**names, thresholds=thresholds)


def test_a_role_names_known_keys_alone_and_a_key_has_its_own_id():
    root = make_root()
    with pytest.raises(SignatureError, match="expected the role publisher to name keys from `keys`"):
        replace(root, roles={**root.roles, "publisher": role("p2")})
    with pytest.raises(SignatureError, match=r"expected the id [0-9a-f]{64} of a key"):
        replace(root, keys={**root.keys, key("x").public.key_id: key("p1").public})


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("expires"),
        lambda data: data.update(extra=1),
        lambda data: data["roles"].pop("publisher"),
        lambda data: data["roles"].update(admin={"key_ids": [], "threshold": 1}),
        lambda data: data["roles"]["root"].update(extra=1),
        lambda data: data["roles"].update(root=[]),
        lambda data: data.update(keys=list(data["keys"])),
        lambda data: data["keys"].update({key("x").public.key_id: "AAAA"}),
        lambda data: data["keys"].update({key("x").public.key_id: None}),
        lambda data: data["keys"].update({key("x").public.key_id.upper(): key("x").public.text}),
        lambda data: data["keys"].update({"0" * 64: "A" * 43 + "="}),
        lambda data: data["roles"]["publisher"]["key_ids"].append(data["roles"]["publisher"]["key_ids"][0]),
        lambda data: data["roles"]["publisher"]["key_ids"].reverse(),
        lambda data: data["roles"]["publisher"].update(key_ids=dict.fromkeys(data["roles"]["publisher"]["key_ids"])),
        lambda data: data["roles"]["publisher"].update(key_ids=[1]),
        lambda data: data["roles"]["publisher"].update(key_ids=[[]]),
        *(lambda data, t=t: data["roles"]["root"].update(threshold=t) for t in (True, 1.0, "1", None, 0, -1, 2, 2**70)),
        *(lambda data, v=v: data.update(version=v) for v in (True, 1.0, "1", None, 0, -1, 2**63, 10**300)),
        *(
            lambda data, e=e: data.update(expires=e)
            for e in (
                None, 1, "", "2027-03-01", "2027-03-01T12:00:00", "2027-03-01T12:00:00+00:00", "2027-03-01T12:00:00z",
                "2027-03-01 12:00:00Z", "2027-13-01T12:00:00Z", "2027-02-29T12:00:00Z", "2027-03-01T24:00:00Z",
                "2027-03-01T12:00:60Z", "2027-03-01T12:00:00.5Z", "0000-01-01T00:00:00Z", "0999-01-01T00:00:00Z",
                "1969-12-31T23:59:59Z", "12027-03-01T12:00:00Z", "2027-03-01T12:00:00Z\n", "٢٠٢٧-03-01T12:00:00Z",
            )
        ),
        *(lambda data, r=r: data.update(registry=r) for r in (None, 1, "", "a b", "läb", "\ud800", "lab\x00")),
    ],
)  # fmt: skip
def test_a_malformed_root_document_is_refused(change):
    with pytest.raises(SignatureError) as error:
        Root.from_payload(root_json(change))
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text + b"\n",
        lambda text: text.replace(b":", b": "),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.decode().encode("utf-16"),
        lambda text: text.replace(b"lab", b"l\\u0061b"),
        lambda text: text.replace(b'"version":1', b'"version":1,"version":1'),
        lambda text: text.replace(b'"version":1', b'"version":1.0'),
        lambda text: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":")).encode(),
    ],
)
def test_a_root_document_has_one_form(spell):
    payload = make_root().to_payload()
    assert spell(payload) != payload
    with pytest.raises(SignatureError):
        Root.from_payload(spell(payload))


@given(st.data())
def test_only_distinct_keys_of_the_role_count(data):
    pool = [f"r{n}" for n in range(5)]
    named = data.draw(st.sets(st.sampled_from(pool), min_size=1))
    threshold = data.draw(st.integers(1, len(named)))
    signers = data.draw(st.sets(st.sampled_from([*pool, "p1", "s1"])))
    root = make_root(root=" ".join(named), thresholds={"root": threshold})
    envelope = signed(root, " ".join(signers))
    if len(named & signers) >= threshold:
        assert SignedRoot.first(envelope).root == root
    else:
        with pytest.raises(SignatureError, match=f"expected the signature of {threshold} of the {len(named)} keys"):
            SignedRoot.first(envelope)


def test_the_same_signature_in_two_envelopes_counts_once():
    root = make_root(publisher="p1 p2", thresholds={"publisher": 2})
    one, two = (Envelope.sign("t", b"{}", keys(name)) for name in ("p1", "p2"))
    with pytest.raises(SignatureError, match="got 1 that hold"):
        root.require_signers([one, one], "publisher", "x")
    assert len(root.require_signers([one, two], "publisher", "x")) == 2


def test_signatures_of_different_payloads_are_not_added():
    root = make_root(publisher="p1 p2", thresholds={"publisher": 2})
    one = Envelope.sign("t", b"{}", keys("p1"))
    for other in (Envelope.sign("t", b"{ }", keys("p2")), Envelope.sign("u", b"{}", keys("p2"))):
        with pytest.raises(SignatureError, match="got several payloads"):
            root.require_signers([one, other], "publisher", "x")


def test_a_role_without_keys_accepts_nothing():
    root = make_root(publisher="", registry="")
    for name in ("publisher", "registry"):
        with pytest.raises(SignatureError, match=f"of the 0 keys of the role {name}"):
            root.require_signers([Envelope.sign("t", b"{}", keys("r1 p1 s1"))], name, "x")
        with pytest.raises(SignatureError):
            root.require_signers([], name, "x")


def test_a_document_of_another_type_is_no_root():
    payload = make_root().to_payload()
    for kind in ("application/vnd.ccatune.ensemble+json", ROOT_TYPE.upper(), ROOT_TYPE + ";v=1"):
        with pytest.raises(SignatureError, match="expected an envelope of"):
            SignedRoot.first(Envelope.sign(kind, payload, keys("r1")))


def test_the_next_version_needs_the_old_and_the_new_root_keys():
    old = SignedRoot.first(signed(make_root(root="r1 r2 r3", thresholds={"root": 2}), "r1 r2"))
    new = make_root(2, root="r3 r4 r5", thresholds={"root": 2})
    for names in ("r4 r5", "r3 r4", "r1 r2", "r1 r3", "r1 r2 r4", "r1 r4 r5", "p1 s1", ""):
        with pytest.raises(SignatureError, match=r"expected the signature of 2 of the 3 keys"):
            old.next(signed(new, names))
    # r3 is a root key of both versions, so its one signature counts in each.
    for names in ("r1 r3 r4", "r1 r2 r4 r5"):
        assert old.next(signed(new, names)).root == new


@pytest.mark.parametrize("version", [1, 2, 3, 5, 2**63 - 1])
def test_a_version_is_neither_skipped_nor_repeated(version):
    now = SignedRoot.first(signed(make_root(3), "r1"))
    with pytest.raises(SignatureError, match=f"expected version 4, got {version}"):
        now.next(signed(make_root(version), "r1"))


def test_a_chain_stays_with_its_registry():
    now = SignedRoot.first(signed(make_root(), "r1"))
    for name in ("prod", "LAB", "lab."):
        with pytest.raises(SignatureError, match=f"expected a document of lab, got one of {name}"):
            now.next(signed(make_root(2, of=name), "r1"))


def test_a_document_expires_at_its_second():
    root = make_root(expires_s=NOW_S)
    assert not root.is_expired(now_s=NOW_S - 0.001)
    assert root.is_expired(now_s=NOW_S)
    # The chain passes through expired versions: a newer one is the way out.
    assert SignedRoot.first(signed(root, "r1")).next(signed(make_root(2), "r1"))


@given(st.sampled_from(["root", "publisher", "registry"]), st.lists(st.sampled_from(["r1", "p1", "s1"]), unique=True))
def test_a_key_counts_in_its_own_role_alone(name, names):
    root = make_root()
    envelope = Envelope.sign("t", DIGEST.encode(), keys(" ".join(names)))
    wanted = {"root": "r1", "publisher": "p1", "registry": "s1"}[name]
    if wanted in names:
        assert root.require_signers([envelope], name, "x") == {key(wanted).public.key_id}
    else:
        with pytest.raises(SignatureError):
            root.require_signers([envelope], name, "x")
