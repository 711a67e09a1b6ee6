# SPDX-License-Identifier: MIT
"""Makes the secrets of docker-compose.yml, and registers those of them that the database must know.

    secrets     docker compose run --rm setup: makes each file that is missing, and changes none that exists
    register    the service `migrate`: brings the schema up to date, and adds tokens and root document that are unknown

Each secret is a file of root, which only the group of its service may read. The database gets the digests of tokens.
A token that was revoked stays revoked. To replace a secret, delete its file, make it again, and start the service.
Keys that belong on another machine are in the folder `offline`.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID
from sqlalchemy.orm import Session

from kmod.errors import CcatuneError
from serving.access import repository, service
from serving.access.first import INIT
from serving.access.grants import local_caller
from serving.access.schemas import TokenCreate
from serving.access.token_text import NewToken, new_token, public_id_of
from serving.database import open_database, registry_name
from serving.roots import service as roots
from serving.settings import ServingSettings, load_settings
from serving.signatures import Envelope, PrivateKey, Role, Root
from serving.signatures.root import ROOT_TYPE

# The groups of the services, as docker-compose.yml has them.
ROOT, PROXY, POSTGRES, CCATUNE, PROMETHEUS = 0, 101, 999, 10001, 65534
CA_DAYS, SERVER_DAYS, ROOT_DAYS = 3650, 365, 365
# The tokens, beside the administrator's.
TOKENS = {
    "agent-token": TokenCreate(principal="stand-in", kind="agent", scopes=["read", "report"], agent_id="stand-in"),
    "runner-token": TokenCreate(principal="runner", kind="ci", scopes=["run-jobs"]),
    "prometheus-token": TokenCreate(principal="prometheus", kind="ci", scopes=["read"]),
}


class Folder:
    """The folder of the secrets."""

    def __init__(self, path: Path, *, is_owned: bool) -> None:
        self.path = path
        self._is_owned = is_owned

    def make(self, name: str, content: Callable[[], bytes], *, group: int, user: int = ROOT, mode: int = 0o640) -> None:
        """Make a file that does not exist. It gets its name when it is complete."""
        path = self.path / name
        if self.has(name):
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content())
            os.fchmod(file.fileno(), mode)
            if self._is_owned:
                os.fchown(file.fileno(), user, group)
            os.fsync(file.fileno())
        made.rename(path)
        print(f"made {name}")  # noqa: T201

    def has(self, name: str) -> bool:
        """Whether a file exists."""
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return (self.path / name).read_bytes()

    def key(self, name: str) -> Any:
        """The private key in a file."""
        return load_pem_private_key(self.read(name), password=None)


def make_secrets(folder: Folder, settings: ServingSettings, names: list[str], *, now: datetime) -> None:
    """Make all files that are missing. names: of the server, for its certificate."""

    def word() -> bytes:
        return secrets.token_urlsafe(32).encode()

    folder.make("postgres-password", word, group=POSTGRES)
    # libpq reads it only if the group has no access.
    password = folder.read("postgres-password").decode()
    line = f"*:*:*:ccatune:{password}\n".encode()
    folder.make("pgpass", lambda: line, user=CCATUNE, group=CCATUNE, mode=0o600)
    folder.make("ray-token", lambda: secrets.token_hex(32).encode(), group=CCATUNE)
    folder.make("grafana-password", word, group=ROOT)
    for name in ("admin-token", *TOKENS):
        folder.make(name, _new_token, group=PROMETHEUS if name == "prometheus-token" else CCATUNE)
    folder.make("registry-key", _new_key, group=CCATUNE)
    # Keys that were taken to another machine are not made again.
    if not folder.has("root.json"):
        for name in ("root", "publisher"):
            folder.make(f"offline/{name}.pem", _new_key, group=ROOT, mode=0o600)
        folder.make("root.json", lambda: _root_document(folder, settings, now=now), group=CCATUNE, mode=0o644)
    if not folder.has("ca.pem"):
        folder.make("offline/ca.key", _new_tls_key, group=ROOT, mode=0o600)
        folder.make("ca.pem", lambda: _certificate(folder, "offline/ca.key", [], now=now), group=ROOT, mode=0o644)
    folder.make("tls-key", _new_tls_key, group=PROXY)
    if not folder.has("tls.pem") and not folder.has("offline/ca.key"):
        raise SystemExit("tls.pem: expected offline/ca.key to sign it with; put the key or a certificate there")
    folder.make("tls.pem", lambda: _certificate(folder, "tls-key", names, now=now), group=PROXY, mode=0o644)


def register(folder: Folder, settings: ServingSettings, *, now: datetime) -> None:
    """Bring the schema up to date, and add what the database does not know yet."""
    database = open_database(settings.model_copy(update={"migrate": True}))
    try:
        registry = registry_name(database, wanted=settings.registry, now=now)
        by = local_caller(INIT)
        with database.write() as session:
            if new := _unknown(session, folder.read("admin-token")):
                service.create_admin_token(session, new, by=by, now=now)
            for name, wanted in TOKENS.items():
                if new := _unknown(session, folder.read(name)):
                    service.create_token(session, wanted, new, by=by, now=now)
            if roots.trusted(session) is None:
                envelope = Envelope.parse(folder.read("root.json"))
                roots.add(session, envelope, registry=registry, signing_key_id=None, now=now, by=by)
    finally:
        database.close()
    print(f"registry {registry}: the database is ready")  # noqa: T201


def _unknown(session: Session, content: bytes) -> NewToken | None:
    """The token in a file, unless the database has it. Raises SystemExit for a file without a token."""
    text = content.strip()
    public_id = public_id_of(text)
    if public_id is None:
        raise SystemExit("expected a token in each file; delete the other one, and make it with the service setup")
    return None if repository.token(session, public_id) else NewToken(public_id, text.decode())


def _root_document(folder: Folder, settings: ServingSettings, *, now: datetime) -> bytes:
    keys = {"root": "offline/root.pem", "publisher": "offline/publisher.pem", "registry": "registry-key"}
    private = {role: PrivateKey(folder.key(name)) for role, name in keys.items()}
    public = {role: key.public for role, key in private.items()}
    root = Root(
        registry=settings.registry or "local",
        version=1,
        expires_s=int((now + timedelta(days=ROOT_DAYS)).timestamp()),
        keys={key.key_id: key for key in public.values()},
        roles={role: Role(frozenset([key.key_id])) for role, key in public.items()},
    )
    return json.dumps(Envelope.sign(ROOT_TYPE, root.to_payload(), [private["root"]]).to_json()).encode()


def _new_token() -> bytes:
    return f"{new_token().text}\n".encode()


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _new_tls_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate(folder: Folder, key_file: str, names: list[str], *, now: datetime) -> bytes:
    """The certificate of a server with these names, or without names that of the authority."""
    authority, key = folder.key("offline/ca.key"), folder.key(key_file)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ccatune authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])]) if names else issuer
    own_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    usage = x509.KeyUsage(
        digital_signature=bool(names), content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=not names, crl_sign=not names, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=SERVER_DAYS if names else CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(own_id, critical=False)
        .add_extension(authority_id, critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    return builder.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["secrets", "register"])
    parser.add_argument("--config", type=Path, required=True, help="The registry's settings.")
    parser.add_argument("--secrets", type=Path, required=True, help="Folder of the secrets.")
    parser.add_argument("--name", action="append", default=[], help="Further name of the server in its certificate.")
    given = parser.parse_args()
    settings, now = load_settings(given.config), datetime.now(tz=UTC)
    folder = Folder(given.secrets, is_owned=os.geteuid() == ROOT)
    try:
        if given.command == "register":
            register(folder, settings, now=now)
            return
        make_secrets(folder, settings, [*given.name, "localhost", "proxy", "127.0.0.1"], now=now)
    except (CcatuneError, OSError) as error:
        raise SystemExit(f"setup: {error}") from error
    print("Keep the folder `offline` on another machine, encrypted, and delete it here.")  # noqa: T201


if __name__ == "__main__":
    main()
