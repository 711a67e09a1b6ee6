# SPDX-License-Identifier: MIT
"""DSSE envelopes: the protocol's own vector, malformed envelopes, and how signatures count"""

from __future__ import annotations

import base64
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.signatures import Envelope, SignatureError, pae
from serving.signatures.envelope import MAX_ENVELOPE_BYTES
from tests.serving.signatures.keyring import key, keys

TYPE = "application/vnd.example+json"


def envelope_json(names: str = "a b") -> dict[str, Any]:
    return Envelope.sign(TYPE, b"{}", keys(names)).to_json()


def test_pae_is_that_of_the_protocol():
    encoded = pae("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@given(*[st.text(st.characters(codec="utf-8"), max_size=20), st.binary(max_size=20)] * 2)
def test_different_documents_have_different_signed_bytes(type_1, payload_1, type_2, payload_2):
    assert (pae(type_1, payload_1) == pae(type_2, payload_2)) == ((type_1, payload_1) == (type_2, payload_2))


@given(st.binary(max_size=200), st.sets(st.sampled_from("abcd")))
def test_an_envelope_reads_back_and_its_signatures_hold(payload, names):
    envelope = Envelope.sign(TYPE, payload, keys(" ".join(names)))
    again = Envelope.parse(json.dumps(envelope.to_json()).encode())
    assert again == envelope
    public = {key(name).public.key_id: key(name).public for name in "abcd"}
    assert again.signers(public) == {key(name).public.key_id for name in names}


def test_one_more_signature_keeps_the_others_and_a_second_one_of_a_key_changes_nothing():
    first = Envelope.sign(TYPE, b"{}", keys("a"))
    both = first.with_signatures(keys("b"))
    assert both.signatures.keys() == {key("a").public.key_id, key("b").public.key_id}
    assert both.with_signatures(keys("a b")) == both


@given(st.binary(min_size=1, max_size=64), st.integers(0, 511), st.integers(0, 511))
def test_no_bit_of_payload_or_signature_can_be_changed(payload, payload_bit, signature_bit):
    def flip(data: bytes, bit: int) -> bytes:
        changed = bytearray(data)
        changed[bit // 8 % len(data)] ^= 1 << bit % 8
        return bytes(changed)

    envelope = Envelope.sign(TYPE, payload, keys("a"))
    (key_id, signature), public = *envelope.signatures.items(), {key("a").public.key_id: key("a").public}
    assert not Envelope(TYPE, flip(payload, payload_bit), envelope.signatures).signers(public)
    assert not Envelope(TYPE, payload, {key_id: flip(signature, signature_bit)}).signers(public)


def test_a_signature_under_the_id_of_another_key_does_not_hold():
    envelope = Envelope.sign(TYPE, b"{}", keys("a"))
    a, b = key("a").public, key("b").public
    moved = Envelope(TYPE, b"{}", {b.key_id: envelope.signatures[a.key_id]})
    assert not moved.signers({a.key_id: a, b.key_id: b})


def test_unknown_keys_and_wrong_signatures_do_not_disturb_the_others():
    envelope = Envelope.sign(TYPE, b"{}", keys("a b"))
    wrong = Envelope(TYPE, b"{}", {**envelope.signatures, key("b").public.key_id: bytes(64), "f" * 64: bytes(64)})
    public = {key(name).public.key_id: key(name).public for name in "ab"}
    assert wrong.signers(public) == {key("a").public.key_id}


def test_a_key_that_signs_twice_is_refused():
    data = envelope_json("a")
    data["signatures"] *= 2
    with pytest.raises(SignatureError, match=r"expected each key id once, got [0-9a-f]{16} twice"):
        Envelope.from_json(data)


def test_a_key_id_has_one_spelling():
    good = key("a").public.key_id
    for spelled in (good.upper(), f" {good}", f"{good}\n", good[:63], good + "0", "", "\uff11" + good[1:], "\ud800"):
        data = envelope_json("a")
        data["signatures"][0]["keyid"] = spelled
        with pytest.raises(SignatureError, match="expected a key id of 64 hexadecimal digits"):
            Envelope.from_json(data)


def _changed(**fields: object) -> dict[str, Any]:
    return {**envelope_json(), **fields}


def _signature(**fields: object) -> dict[str, Any]:
    return _changed(signatures=[{**envelope_json()["signatures"][0], **fields}])


@pytest.mark.parametrize(
    "data",
    [
        None, [], "text", 7, {}, _changed(extra=1), {"payload": "", "payloadType": TYPE},
        _changed(payload=None), _changed(payload=["e30="]), _changed(payload="e30"), _changed(payload="e30=\n"),
        _changed(payload="e30=garbage"), _changed(payload="e3 0="), _changed(payload="e31="),
        _changed(payloadType=None), _changed(payloadType=""), _changed(payloadType="a b"), _changed(payloadType="ü"),
        _changed(payloadType="\ud800"), _changed(payloadType="a\n"), _changed(payloadType="a" * 129),
        _changed(signatures=None), _changed(signatures={}), _changed(signatures="ab"), _changed(signatures=[None]),
        _changed(signatures=[{}]), _signature(extra=1), _signature(sig=None), _signature(sig=""),
        _signature(sig="AAAA"), _signature(sig=base64.b64encode(bytes(65)).decode()),
        _signature(sig=envelope_json()["signatures"][0]["sig"] + "\n"),
        _signature(keyid=None), _signature(keyid=7), _changed(signatures=[envelope_json()["signatures"][0]] * 65),
    ],
)  # fmt: skip
def test_a_malformed_envelope_is_refused(data):
    with pytest.raises(SignatureError):
        Envelope.from_json(data)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"nonsense", b"\xff", b"[" * 50_000, b'{"a":' * 20_000, b"1" * 5_000,
        b'{"payload":"","payloadType":"t","signatures":[],"payload":"e30="}',
        b'{"payload":"","payloadType":"t","signatures":[{"keyid":"a","keyid":"b","sig":""}]}',
        b'{"payload":"","payloadType":NaN,"signatures":[]}',
    ],
)  # fmt: skip
def test_bytes_that_are_no_envelope_are_refused(content):
    with pytest.raises(SignatureError):
        Envelope.parse(content)


def test_a_huge_envelope_is_refused_before_it_is_read():
    content = b'{"payload":"' + b"A" * (64 * 1024 * 1024)
    tracemalloc.start()
    with pytest.raises(SignatureError, match="expected at most 131072 bytes"):
        Envelope.parse(content)
    with pytest.raises(SignatureError, match="expected at most 131072 bytes"):
        Envelope.from_json(_changed(payload="A" * (MAX_ENVELOPE_BYTES + 4)))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_names_from_a_document_are_shown_without_control_characters():
    for data in ({"\x1b[2J": 1, "\ud800": 2}, _changed(payloadType="\x1b[2J"), _signature(keyid="\x1b[2J")):
        with pytest.raises(SignatureError) as error:
            Envelope.from_json(data)
        assert str(error.value).isprintable()


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.fixed_dictionaries({"payload": json_data, "payloadType": json_data, "signatures": json_data}) | json_data)
def test_any_json_is_an_envelope_or_a_signature_error(data):
    try:
        envelope = Envelope.from_json(data)
    except SignatureError:
        return
    assert envelope.to_json() == {**data, "signatures": sorted(data["signatures"], key=lambda one: one["keyid"])}
