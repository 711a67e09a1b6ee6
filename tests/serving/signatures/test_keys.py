# SPDX-License-Identifier: MIT
"""Ed25519 keys against RFC 8032, and the files that hold them"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from serving.signatures import PrivateKey, PublicKey, SignatureError
from serving.signatures.errors import PassphraseRequiredError
from serving.signatures.keys import _LOW_ORDER_Y, _exposure, from_base64
from tests.serving.signatures.keyring import key

# RFC 8032, section 7.1: secret key, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
]
# The order of the base point.
L = 2**252 + 27742317777372353535851937790883648493
P = 2**255 - 19


def pem(private_key: object, passphrase: bytes | None = None) -> bytes:
    protection = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    return private_key.private_bytes(serialization.Encoding.PEM, form, protection)  # type: ignore[attr-defined,no-any-return]


def private_file(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(("secret", "public", "message", "signature"), RFC_8032)
def test_keys_sign_and_verify_the_vectors_of_rfc_8032(secret, public, message, signature):
    one = PrivateKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret)))
    assert one.public.raw.hex() == public
    assert one.sign(bytes.fromhex(message)).hex() == signature
    assert one.public.verifies(bytes.fromhex(message), bytes.fromhex(signature))
    assert not one.public.verifies(bytes.fromhex(message) + b"\0", bytes.fromhex(signature))


def test_a_key_id_is_the_sha_256_of_the_public_key():
    public = PublicKey(bytes.fromhex(RFC_8032[0][1]))
    assert public.key_id == "21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9"
    assert PublicKey.from_text(public.text) == public


def test_a_signature_has_no_second_form():
    signature = key("a").sign(b"message")
    s = int.from_bytes(signature[32:], "little")
    other = signature[:32] + (s + L).to_bytes(32, "little")
    assert key("a").public.verifies(b"message", signature)
    assert not key("a").public.verifies(b"message", other)
    for length in (0, 63, 65):
        assert not key("a").public.verifies(b"message", signature.ljust(65, b"\0")[:length])


def _double(point: tuple[int, int]) -> tuple[int, int]:
    d = -121665 * pow(121666, -1, P) % P
    x, y = point
    k = d * x * x * y * y % P
    return 2 * x * y * pow(1 + k, -1, P) % P, (y * y + x * x) * pow(1 - k, -1, P) % P


def _with_y(y: int) -> tuple[int, int]:
    d = -121665 * pow(121666, -1, P) % P
    square = (y * y - 1) * pow(d * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == square
    return x, y % P


@pytest.mark.parametrize("y", sorted(_LOW_ORDER_Y))
def test_a_public_key_whose_order_divides_8_is_refused(y):
    assert _double(_double(_double(_with_y(y)))) == (0, 1)
    for sign in (0, 1 << 255):
        with pytest.raises(SignatureError, match="anyone can sign"):
            PublicKey((y | sign).to_bytes(32, "little"))


def test_there_are_no_other_points_of_low_order():
    # One y of the point of order 1, of order 2 and of both of order 4; two of the four points of order 8.
    assert len({y % P for y in _LOW_ORDER_Y}) == 5
    assert {y for one in _LOW_ORDER_Y for y in (one % P, one % P + P) if y < 2**255} == _LOW_ORDER_Y


@given(st.binary(max_size=70).filter(lambda raw: len(raw) != 32))
def test_a_public_key_has_32_bytes(raw):
    with pytest.raises(SignatureError, match="expected 32 bytes"):
        PublicKey(raw)


@pytest.mark.parametrize(
    "text",
    [None, 1, b"QUI=", ["QUI="], "QUI", "QU I=", "QUI=\n", "QUI==", "QUI=QUI=", "QUJ=", "Q-I=", "QÜI=", "\ud800", "="],
)  # fmt: skip
def test_base64_of_another_form_is_refused(text):
    assert from_base64("QUI=", "x") == b"AB"
    with pytest.raises(SignatureError, match="expected base64"):
        from_base64(text, "x")


@pytest.mark.parametrize("passphrase", [None, b"correct horse", b"x" * 1023, "Gruß".encode()])
def test_a_saved_key_loads_again_and_only_its_owner_may_read_it(tmp_path, passphrase):
    path = tmp_path / "a.pem"
    key("a").save(path, passphrase=passphrase)
    assert PrivateKey.load(path, passphrase=passphrase).public == key("a").public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    begin = b"-----BEGIN PRIVATE KEY-----" if passphrase is None else b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
    assert path.read_bytes().startswith(begin)


def test_a_key_replaces_no_file_and_follows_no_link(tmp_path):
    path, link = tmp_path / "a.pem", tmp_path / "link.pem"
    key("a").save(path)
    link.symlink_to(tmp_path / "nowhere")
    for taken in (path, link):
        with pytest.raises(SignatureError, match="expected no file of this name"):
            key("b").save(taken)
    assert PrivateKey.load(path).public == key("a").public
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(SignatureError, match="expected to write it, got No such file"):
        key("b").save(tmp_path / "none" / "b.pem")


def test_a_missing_and_a_wrong_passphrase_are_told_apart(tmp_path):
    locked, plain = tmp_path / "locked.pem", tmp_path / "plain.pem"
    key("a").save(locked, passphrase=b"right")
    key("a").save(plain)
    with pytest.raises(PassphraseRequiredError, match="expected its passphrase"):
        PrivateKey.load(locked)
    with pytest.raises(SignatureError, match="cannot be decoded") as wrong:
        PrivateKey.load(locked, passphrase=b"wrong")
    assert not isinstance(wrong.value, PassphraseRequiredError)
    with pytest.raises(SignatureError, match="expected no passphrase"):
        PrivateKey.load(plain, passphrase=b"right")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o660, 0o777, 0o610])
def test_a_key_that_others_may_read_is_refused_also_through_a_link(tmp_path, mode):
    path, link = private_file(tmp_path / "a.pem", pem(key("a")._key), mode), tmp_path / "link.pem"
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(SignatureError, match="expected a file that its owner alone may read"):
            PrivateKey.load(name)
    path.chmod(0o400)
    assert PrivateKey.load(link).public == key("a").public


@pytest.mark.parametrize(
    ("mode", "owner_id", "user_id", "is_safe"),
    [
        (0o600, 1000, 1000, True),
        (0o400, 1000, 1000, True),
        (0o440, 1000, 1000, False),
        (0o600, 1001, 1000, False),  # another user's
        (0o600, 1001, 0, False),
        (0o600, 0, 1000, True),
        (0o440, 0, 1000, True),  # a credential of systemd
        (0o640, 0, 1000, True),
        (0o660, 0, 1000, False),
        (0o644, 0, 1000, False),
        (0o640, 0, 0, False),
    ],
)
def test_a_group_may_read_only_a_key_of_root(mode, owner_id, user_id, is_safe):
    found = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner_id, 0, 0, 0, 0, 0))
    assert (_exposure(found, user_id=user_id) == "") is is_safe


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, tmp_path, Path("/dev/null"), tmp_path / "none", tmp_path / "a\0b"):
        with pytest.raises(SignatureError, match=r"^key .*: expected "):
            PrivateKey.load(path)


def test_other_kinds_of_keys_are_refused(tmp_path):
    others = [
        pem(ec.generate_private_key(ec.SECP256R1())),
        pem(ed448.Ed448PrivateKey.generate()),
        pem(x25519.X25519PrivateKey.generate()),
    ]
    for number, content in enumerate(others):
        with pytest.raises(SignatureError, match="expected an Ed25519 key, got another kind"):
            PrivateKey.load(private_file(tmp_path / f"{number}.pem", content))


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_damaged_key_file_is_refused(tmp_path, content):
    with pytest.raises(SignatureError, match="cannot be decoded"):
        PrivateKey.load(private_file(tmp_path / "a.pem", content))


def test_a_public_key_is_no_private_key_and_a_huge_file_is_not_read_whole(tmp_path):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key("a")._key.public_key().public_bytes(serialization.Encoding.PEM, form)
    with pytest.raises(SignatureError, match="cannot be decoded"):
        PrivateKey.load(private_file(tmp_path / "a.pub", public))
    with pytest.raises(SignatureError, match="expected at most 16384 bytes"):
        PrivateKey.load(private_file(tmp_path / "b.pem", pem(key("a")._key).ljust(20_000)))


def test_the_text_of_a_private_key_does_not_show_it():
    raw = key("a")._key.private_bytes_raw()
    for shown in (repr(key("a")), str(key("a")), f"{key('a')}"):
        assert shown == f"PrivateKey({key('a').public.key_id[:16]})"
        assert raw.hex() not in shown


def test_the_package_does_not_import_cryptography_until_a_key_is_used(repository):
    program = "import sys, serving.signatures as s; print('cryptography' in sys.modules, s.has_cryptography())"
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
