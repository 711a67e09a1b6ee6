# SPDX-License-Identifier: MIT
"""ccatune keys and ccatune sign, and what publish does with a signature"""

from __future__ import annotations

import io
import json
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from kmod.ensemble import Ensemble
from serving.signatures import EnsembleStatement, Envelope, PrivateKey, sign_ensemble
from serving.signatures.root import ROOT_TYPE
from tests.serving.api import Command
from tests.serving.running import Running
from tests.serving.signatures.keyring import key, make_root


@pytest.fixture
def command(run_command) -> Command:
    """Runs a command of `ccatune`; gives its exit status, output and errors."""
    return run_command


@pytest.fixture
def key_file(tmp_path) -> Callable[..., Path]:
    """Writes the key of a name."""

    def write(name: str, *, passphrase: bytes | None = None) -> Path:
        path = tmp_path / f"{name}.pem"
        key(name).save(path, passphrase=passphrase)
        return path

    return write


@pytest.fixture
def terminal(monkeypatch) -> list[str]:
    """A terminal on which these passphrases are typed, one after the other."""
    answers: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(click.termui, "hidden_prompt_func", lambda _question: answers.pop(0))
    return answers


def passphrase_file(path: Path, content: bytes = b"correct horse\nsecond line\n", mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_key_new_writes_a_private_and_a_public_file(command, tmp_path):
    path = tmp_path / "a.pem"
    status, out, _ = command("keys", "new", path, "--json")
    facts, made = json.loads(out), PrivateKey.load(path)
    assert status == 0
    assert facts == {
        "file": str(path),
        "public_file": f"{path}.pub",
        "id": made.public.key_id,
        "public": made.public.text,
        "encrypted": False,
    }
    assert Path(facts["public_file"]).read_text() == f"{made.public.text}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made._key.private_bytes_raw().hex() not in out


def test_key_new_replaces_no_file(command, tmp_path):
    path = tmp_path / "a.pem"
    for taken in (path, Path(f"{path}.pub")):
        taken.write_text("mine")
        status, _, error = command("keys", "new", path)
        assert (status, taken.read_text()) == (2, "mine")
        assert "expected no file of this name" in error
        taken.unlink()
        assert list(tmp_path.iterdir()) == []


def test_key_new_takes_a_passphrase_from_a_file_or_from_the_terminal(command, tmp_path, terminal):
    one, two = tmp_path / "one.pem", tmp_path / "two.pem"
    assert command("keys", "new", one, "--passphrase-file", passphrase_file(tmp_path / "pass"))[0] == 0
    assert PrivateKey.load(one, passphrase=b"correct horse")
    terminal += ["Gruß", "Gruß"]
    status, out, _ = command("keys", "new", two, "--ask-passphrase")
    assert (status, "encrypted    yes" in out) == (0, True)
    assert PrivateKey.load(two, passphrase="Gruß".encode())
    assert terminal == []


def test_key_new_asks_for_no_passphrase_without_a_terminal(command, tmp_path):
    status, _, error = command("keys", "new", tmp_path / "a.pem", "--ask-passphrase")
    assert (status, "expected a terminal to ask on" in error) == (2, True)
    both = ("--ask-passphrase", "--passphrase-file", "x")
    assert "expected one of them" in command("keys", "new", tmp_path / "a.pem", *both)[2]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (b"", 0o600, "expected a passphrase of 1 to 1023 bytes, got 0"),
        (b"\nsecond", 0o600, "expected a passphrase of 1 to 1023 bytes, got 0"),
        (b"x" * 2000, 0o600, "expected a passphrase of 1 to 1023 bytes, got 2000"),
        (b"x" * 5000, 0o600, "expected at most 4096 bytes"),
        (b"right", 0o644, "expected a file that its owner alone may read"),
    ],
)
def test_a_passphrase_file_that_protects_nothing_is_refused(command, tmp_path, content, mode, message):
    status, _, error = command(
        "keys", "new", tmp_path / "a.pem", "--passphrase-file", passphrase_file(tmp_path / "pass", content, mode)
    )
    assert (status, message in error) == (2, True)
    assert not (tmp_path / "a.pem").exists()


def test_key_show_takes_private_and_public_files_and_text(command, tmp_path, key_file):
    public = key("a").public
    (tmp_path / "a.pub").write_text(f"{public.text}\n")
    for word in (key_file("a"), tmp_path / "a.pub", public.text):
        status, out, _ = command("keys", "show", word)
        assert (status, out) == (0, f"id        {public.key_id}\npublic    {public.text}\n")
    assert json.loads(command("keys", "show", public.text, "--json")[1]) == {"id": public.key_id, "public": public.text}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "expected a public key in base64 (44 characters) or a key's file, got No such file"),
        (b"", "expected a file of `ccatune keys new`, got ''"),
        (b"\xff\x1b[2J" * 100, "expected a file of `ccatune keys new`"),
        (b"-----BEGIN PRIVATE KEY-----", "cannot be decoded"),
        (b"A" * 43 + b"=", "anyone can sign for"),
    ],
)
def test_key_show_refuses_what_is_no_key(command, tmp_path, content, message):
    path = tmp_path / "a"
    if content is not None:
        passphrase_file(path, content)
    status, _, error = command("keys", "show", path)
    assert (status, message in error) == (2, True)
    assert error.removesuffix("\n").isprintable()


def test_an_encrypted_key_asks_on_the_terminal_alone(command, key_file, terminal):
    path = key_file("a", passphrase=b"right")
    terminal += ["right", "wrong"]
    assert key("a").public.key_id in command("keys", "show", path)[1]
    status, _, error = command("keys", "show", path)
    assert (status, "cannot be decoded" in error, terminal) == (2, True, [])


def test_an_encrypted_key_needs_its_passphrase_without_a_terminal(command, tmp_path, key_file, monkeypatch):
    path = key_file("a", passphrase=b"correct horse")
    status, _, error = command("keys", "show", path)
    assert (status, "expected its passphrase" in error) == (2, True)
    found = command("keys", "show", path, "--passphrase-file", passphrase_file(tmp_path / "pass"))
    assert found[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"correct horse\r\nrest")))
    assert command("keys", "show", path, "--passphrase-file", "-")[:2] == found[:2]


def test_sign_writes_the_signature_beside_the_ensemble(command, ensemble_file, key_file):
    path, ensemble = ensemble_file(), Ensemble.load(ensemble_file())
    status, out, _ = command("sign", path, "--key", key_file("p1"))
    assert (status, out) == (0, f"{path}.sig: signed {ensemble.digest} with {key('p1').public.key_id}\n")
    envelope = Envelope.parse(Path(f"{path}.sig").read_bytes())
    assert envelope == sign_ensemble(EnsembleStatement("gr", ensemble.digest), [key("p1")])


def test_further_keys_add_their_signatures_and_a_repeated_one_changes_nothing(command, ensemble_file, key_file):
    one, two = ensemble_file(1), ensemble_file(2)
    p1, p2 = key_file("p1"), key_file("p2")
    assert command("sign", one, "--key", p1)[0] == 0
    status, out, _ = command("sign", one, two, "--key", p2, "--json")
    both = {key("p1").public.key_id, key("p2").public.key_id}
    assert (status, [set(row["key_ids"]) for row in json.loads(out)]) == (0, [both, both - {key("p1").public.key_id}])
    before = Path(f"{one}.sig").read_bytes()
    assert command("sign", one, "--key", p1, "--key", p2)[0] == 0
    assert Path(f"{one}.sig").read_bytes() == before


def test_sign_refuses_the_signature_of_another_ensemble_and_changes_no_file(command, ensemble_file, key_file):
    one, two = ensemble_file(1), ensemble_file(2)
    command("sign", two, "--key", key_file("p1"))
    Path(f"{two}.sig").rename(f"{one}.sig")
    before = Path(f"{one}.sig").read_bytes()
    status, _, error = command("sign", two, one, "--key", key_file("p2"))
    assert (status, "expected signatures of gr sha256:" in error) == (2, True)
    assert Path(f"{one}.sig").read_bytes() == before
    assert not Path(f"{two}.sig").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00" * 200_000, "root"])
def test_sign_refuses_what_is_no_signature(command, ensemble_file, key_file, content):
    path = ensemble_file()
    if content == "root":
        content = json.dumps(Envelope.sign(ROOT_TYPE, make_root().to_payload(), [key("r1")]).to_json()).encode()
    Path(f"{path}.sig").write_bytes(content)
    status, _, error = command("sign", path, "--key", key_file("p1"))
    assert (status, error.startswith(f"ccatune: {path}.sig: "), error.count("\n")) == (2, True, 1)
    assert Path(f"{path}.sig").read_bytes() == content


def test_sign_refuses_a_damaged_ensemble_and_a_public_key(command, ensemble_file, tmp_path, key_file):
    path = ensemble_file()
    public = passphrase_file(tmp_path / "a.pub", key("p1").public.text.encode())
    assert "cannot be decoded" in command("sign", path, "--key", public)[2]
    path.write_text(path.read_text().replace("60000", "61000"))
    assert "the content was changed or damaged" in command("sign", path, "--key", key_file("p1"))[2]
    assert not Path(f"{path}.sig").exists()


@pytest.mark.service
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
class TestPublish:
    """`ccatune publish` with a signature beside the ensemble, against a registry behind a socket."""

    @pytest.fixture
    def registry(self, api, monkeypatch) -> Iterator[None]:
        with Running(api.database) as running:
            monkeypatch.setenv("CCATUNE_REGISTRY_URL", running.url)
            yield

    @pytest.fixture
    def root_file(self, tmp_path) -> Path:
        path = tmp_path / "root.json"
        root = make_root(publisher="p1 p2", thresholds={"publisher": 2}, expires_s=4_000_000_000)
        path.write_text(json.dumps(Envelope.sign(ROOT_TYPE, root.to_payload(), [key("r1")]).to_json()))
        return path

    def test_publish_sends_the_signatures(self, command, ensemble_file, key_file, root_file):
        path, digest = ensemble_file(), Ensemble.load(ensemble_file()).digest
        assert command("root", "publish", root_file)[0] == 0
        command("sign", path, "--key", key_file("p1"))
        assert command("publish", path)[1] == f"{path}: published {digest}, signed by 1 of 2 needed publishers\n"
        status, _, error = command("publish", path, "--channel", "champion")
        assert (status, "--channel alone failed" in error) == (2, True)
        command("sign", path, "--key", key_file("p2"))
        status, out, _ = command("publish", path, "--channel", "champion", "--json")
        (row,) = json.loads(out)
        assert (status, row["signatures"]["is_signed"], row["deployment"]["serial"]) == (0, True, 1)

    def test_a_signature_that_is_refused_says_what_is_done(self, command, ensemble_file, key_file, root_file):
        path = ensemble_file()
        command("sign", path, "--key", key_file("x"))
        for _ in range(2):
            status, _, error = command("publish", path, "--channel", "champion")
            assert (status, f"({path} is published, {path}.sig is not)" in error) == (2, True)
            command("root", "publish", root_file)
        assert json.loads(command("channels", "list", "--json")[1]) == []
