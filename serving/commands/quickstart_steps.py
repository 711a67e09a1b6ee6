# SPDX-License-Identifier: MIT
"""The steps of `ccatune quickstart`, in their order. Each one keeps what exists, so a repetition finishes a broken run.

    keys        of root and publisher in `offline/`, of the registry beside it
    database    its schema, and the name of the registry
    documents   the signed root document, in the folder and in the database
    tokens      of an administrator, of a publisher and of each agent
    settings    of the registry, and of each agent

A private key or a token gets no other name and no other content. A file of a token is complete before the database has
the token. If a run ends between the two, the next run finds a token that no principal has, and makes another.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from kmod.ensemble import write_atomically
from serving.access import repository as principals
from serving.access.first import INIT
from serving.access.grants import PrincipalKind, Scope, local_caller
from serving.access.schemas import TokenCreate
from serving.access.secret_file import new_secret_file
from serving.access.service import ADMIN, create_admin_token, create_token
from serving.access.token_text import digest_of, new_token, public_id_of
from serving.agent.settings import read_token
from serving.commands.access import AGENT_LIFETIME_S, AGENT_SCOPES
from serving.commands.key_files import make_key, public_path, write_public
from serving.commands.quickstart_plan import (
    AGENT_CONFIG,
    AGENT_TOKEN,
    AUTHORITIES,
    CONFIG,
    ROOT_DOCUMENT,
    SYSTEM_DATA,
    SYSTEM_FOLDER,
    Plan,
    acting_as,
    own_name,
)
from serving.commands.root_documents import first_root, require_signed
from serving.commands.signed_files import read_root, write_envelope
from serving.database import Database, open_database, registry_name
from serving.errors import SettingsError
from serving.http.tls import tls_of
from serving.roots import repository as root_rows
from serving.roots import service as roots
from serving.signatures import Envelope, PrivateKey
from serving.signatures.root import ROOT_TYPE

State = Literal["made", "kept", "would make"]
_ROOT_VALIDITY = timedelta(days=365)
_PUBLISHER_SCOPES: tuple[Scope, ...] = ("publish", "move", "read")


@dataclass(frozen=True)
class Step:
    """One step: the file or the thing, whether it was made, and what it is for."""

    what: str
    state: State
    text: str


@dataclass(frozen=True)
class _Token:
    principal: str
    file: Path
    text: str
    kind: PrincipalKind = "agent"
    scopes: tuple[Scope, ...] = AGENT_SCOPES


class Quickstart:
    """Runs the steps of a plan. tell: receives each step. is_dry: say what would be made, and make nothing."""

    def __init__(self, plan: Plan, *, is_dry: bool, now: datetime, tell: Callable[[Step], None]) -> None:
        self._plan = plan
        self._folder = plan.folder
        self._is_dry = is_dry
        self._now = now
        self._tell = tell
        self._root_file = plan.folder / ROOT_DOCUMENT
        self._key_file = plan.settings.signing_key_file or plan.folder / "registry.pem"

    def run(self) -> None:
        """Run all steps. Raises SettingsError, SignatureError, DatabaseError or SecretError, which say what to do."""
        self._require_certificate()
        if self._is_dry:
            self._all(None)
            return
        self._make_folders()
        with _locked(self._folder):
            with acting_as(self._plan.account):
                database = open_database(self._plan.settings)
            try:
                self._all(database)
            finally:
                with acting_as(self._plan.account):
                    database.close()

    def _all(self, database: Database | None) -> None:
        self._database(database)
        self._keys()
        self._root_document()
        self._upload(database)
        self._tokens(database)
        self._text(self._folder / CONFIG, self._plan.config_text(), "settings of the registry")
        self._agents()

    def _step(self, what: object, text: str, *, exists: bool) -> bool:
        """Tell of a step. Return whether to make its thing now."""
        state: State = "kept" if exists else "would make" if self._is_dry else "made"
        self._tell(Step(str(what), state, text))
        return state == "made"

    def _require_certificate(self) -> None:
        with acting_as(self._plan.account):
            tls_of(self._plan.settings)

    def _make_folders(self) -> None:
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        account = self._plan.account
        if account is not None and not SYSTEM_DATA.exists():
            SYSTEM_DATA.mkdir(mode=0o750)
            os.chown(SYSTEM_DATA, account.pw_uid, account.pw_gid)

    def _database(self, database: Database | None) -> None:
        url = self._plan.settings.database_url.get_secret_value()
        text = f"the database of the registry {self._plan.settings.registry}"
        if database is None:
            file = Path(url.removeprefix("sqlite:///"))
            self._step(url, text, exists=url.startswith("sqlite:///") and file.exists())
            return
        with acting_as(self._plan.account):
            registry_name(database, wanted=self._plan.settings.registry, now=self._now)
            with database.read() as session:
                has_root = root_rows.newest(session) is not None
                is_used = principals.has_principal(session)
        if has_root and not self._root_file.exists():
            raise SettingsError(
                f"{self._root_file}: expected the root document of this registry, which has one already; write it "
                "there with `ccatune root fetch`, for quickstart makes the keys of a new registry alone"
            )
        self._step(database.shown_url, text, exists=is_used)

    def _keys(self) -> None:
        has_document = self._root_file.exists()
        offline = self._folder / "offline"
        if not (has_document or self._is_dry):
            offline.mkdir(mode=0o700, exist_ok=True)
        for role, signs in (("root", "root documents"), ("publisher", "ensembles, with `ccatune sign`")):
            file = offline / f"{role}.pem"
            if has_document and not file.exists():
                self._step(file, "not on this server, as it should be", exists=True)
            else:
                self._key(file, f"the key that signs {signs}. Move it off this server, and keep a copy")
        if has_document and not self._key_file.exists():
            raise SettingsError(
                f"{self._key_file}: expected the registry's key, which {self._root_file} names; restore it, or replace "
                "it as docs/signatures.md says under `A lost key`"
            )
        self._key(self._key_file, "the key with which the registry signs deployments", is_for_service=True)

    def _key(self, file: Path, text: str, *, is_for_service: bool = False) -> None:
        if file.exists() and file.stat().st_size == 0 and not self._is_dry:
            file.unlink()  # a run ended before it wrote the key
        if self._step(file, text, exists=file.exists()):
            public_path(file).unlink(missing_ok=True)
            make_key(file)
        elif not self._is_dry and file.exists() and not public_path(file).exists():
            write_public(file, PrivateKey.load(file))
        account = self._plan.account
        if is_for_service and account is not None and not self._is_dry:
            # Root stays the owner, so that the service can read its key and not replace it.
            os.chown(file, 0, account.pw_gid)
            file.chmod(0o640)

    def _root_document(self) -> None:
        text = "the root document, which names these keys. Each agent pins a copy of it"
        if not self._step(self._root_file, text, exists=self._root_file.exists()):
            return
        root, publisher = (PrivateKey.load(self._folder / "offline" / f"{role}.pem") for role in ("root", "publisher"))
        content = first_root(
            str(self._plan.settings.registry),
            {"root": [root.public], "publisher": [publisher.public], "registry": [self._signing_key().public]},
            thresholds={},
            expires_s=int((self._now + _ROOT_VALIDITY).timestamp()),
        )
        write_envelope(self._root_file, Envelope.sign(ROOT_TYPE, content.to_payload(), [root]))

    def _signing_key(self) -> PrivateKey:
        with acting_as(self._plan.account):
            return PrivateKey.load(self._key_file)

    def _upload(self, database: Database | None) -> None:
        text = "moves need signatures from now on"
        if database is None:
            self._step("root document in the registry", text, exists=False)
            return
        _, envelope = read_root(self._root_file)
        require_signed(envelope)
        key_id = self._signing_key().public.key_id
        with acting_as(self._plan.account), database.write() as session:
            # A later version may be the newest one. The file is then the one that agents pin.
            newest = roots.trusted(session)
            is_new = newest is None
            if newest is None:
                name = str(self._plan.settings.registry)
                caller = local_caller(INIT)
                roots.add(session, envelope, registry=name, signing_key_id=key_id, now=self._now, by=caller)
            else:
                roots.require_named(newest.root, key_id)
        self._step("root document in the registry", text, exists=not is_new)

    def _tokens(self, database: Database | None) -> None:
        wanted = list(self._wanted_tokens())
        if database is None:
            for one in wanted:
                self._step(one.file, one.text, exists=one.file.exists())
            return
        lacking = [one for one in wanted if self._is_lacking(one, database)]
        with ExitStack() as files:
            made = []
            for one in lacking:
                one.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                new = new_token()
                files.enter_context(new_secret_file(one.file))(new.text)
                made.append((one, new))
            with acting_as(self._plan.account), database.write() as session:
                for one, new in made:
                    if one.principal == ADMIN:
                        create_admin_token(session, new, by=local_caller(INIT), now=self._now)
                    else:
                        create_token(session, _request(one), new, by=local_caller(INIT), now=self._now)
        for one in wanted:
            is_here = one in lacking or one.file.exists()
            self._step(one.file, one.text if is_here else "not here, and made before", exists=one not in lacking)

    def _wanted_tokens(self) -> Iterable[_Token]:
        yield _Token(ADMIN, self._folder / "admin.token", "the token of an administrator, with all rights")
        yield _Token(
            "publisher",
            self._folder / "publisher.token",
            f"the token that publishes ensembles and moves channels, for {AGENT_LIFETIME_S // 86_400} days",
            "ci",
            _PUBLISHER_SCOPES,
        )
        text = f"the token of the agent {{}}, for {AGENT_LIFETIME_S // 86_400} days"
        yield _Token(own_name(), self._folder / AGENT_TOKEN, text.format(own_name()))
        for name in self._plan.agents:
            yield _Token(name, self._folder / "agents" / name / AGENT_TOKEN, text.format(name))

    def _is_lacking(self, wanted: _Token, database: Database) -> bool:
        """Whether to make a token. The file of a broken run, whose token nobody has, is removed."""
        text = b""
        if wanted.file.exists() and wanted.file.stat().st_size:
            text = read_token(wanted.file).encode("ascii")
        with acting_as(self._plan.account), database.read() as session:
            public_id = public_id_of(text)
            row = None if public_id is None else principals.token(session, public_id)
            if row is not None and row.digest == digest_of(text).hex():
                return False
            is_known = principals.principal(session, wanted.principal) is not None
        if not wanted.file.exists():
            return not is_known
        if is_known:
            raise SettingsError(
                f"{wanted.file}: expected a token of this registry's database, got another one; move the file away, "
                f"and make a token of {wanted.principal} with `ccatune tokens create`"
            )
        wanted.file.unlink()
        return True

    def _agents(self) -> None:
        own_state = None if self._plan.is_system else self._folder / "agent-state"
        source = self._plan.ca_file or self._folder / AUTHORITIES
        if self._plan.has_authorities:
            self._copy(source, self._folder / AUTHORITIES, "the authorities that agents trust")
        text = self._plan.agent_text(self._folder, state_dir=own_state)
        self._text(self._folder / AGENT_CONFIG, text, "settings of this server's agent")
        for name in self._plan.agents:
            folder = self._folder / "agents" / name
            place = f"Copy this folder's content to {SYSTEM_FOLDER} on {name}"
            self._copy(self._root_file, folder / ROOT_DOCUMENT, "the root document for it")
            if self._plan.has_authorities:
                self._copy(source, folder / AUTHORITIES, "the authorities for it")
            text = self._plan.agent_text(SYSTEM_FOLDER, state_dir=None)
            self._text(folder / AGENT_CONFIG, text, f"settings of the agent {name}. {place}")

    def _text(self, file: Path, content: str, text: str) -> None:
        if self._step(file, text, exists=file.exists()):
            write_atomically(file, content.encode())

    def _copy(self, source: Path, file: Path, text: str) -> None:
        if self._step(file, text, exists=file.exists()):
            write_atomically(file, source.read_bytes())


def _request(wanted: _Token) -> TokenCreate:
    return TokenCreate(
        principal=wanted.principal,
        kind=wanted.kind,
        scopes=list(wanted.scopes),
        agent_id=wanted.principal if wanted.kind == "agent" else None,
        lifetime_s=AGENT_LIFETIME_S,
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep a second run out of the folder. Raises SettingsError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise SettingsError(f"{folder}: expected no other `ccatune quickstart` in it; wait for its end") from error
    finally:
        os.close(descriptor)
