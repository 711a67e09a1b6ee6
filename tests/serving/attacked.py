# SPDX-License-Identifier: MIT
"""A real registry with accounts and signatures, a real agent on the stand-in, and an attacker between them.

    agent -> attacker (changes answers) -> registry

The registry would refuse to misbehave, so the attacker does it. It has every signature that it saw, and the registry's
key where a test says that the key was stolen. Each `ask` is a new run of the agent on the same state folder.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from emulation.standin import StandInTree
from kmod.ensemble import Ensemble
from serving.access import service as access
from serving.access.first import make_admin_token
from serving.access.grants import local_caller
from serving.access.schemas import TokenCreate
from serving.access.token_text import new_token
from serving.agent.log import EventLog
from serving.agent.loop import Agent, Plan, plan
from serving.agent.settings import AgentSettings
from serving.agent.state import CcaReport
from serving.client import RegistryClient
from serving.database import Database, open_database
from serving.registry.app import utc_now
from serving.settings import ServingSettings
from serving.signatures import (
    DeploymentStatement,
    EnsembleStatement,
    Envelope,
    PrivateKey,
    sign_deployment,
    sign_ensemble,
)
from tests.serving.agent.fakes import ensemble
from tests.serving.running import Running
from tests.serving.signing import Keys, key_file
from tests.serving.threads import served

DAY_S = 86_400
Json = dict[str, Any]


@dataclass
class Attacker:
    """An HTTP server in front of the registry. It forwards all requests until a test sets one of its attacks.

    offer: changes the offer, as JSON. root: gives the envelope of a version of the root document; None for a 404.
    """

    upstream: str = ""
    url: str = ""
    offer: Callable[[Json], Json] | None = None
    root: Callable[[int], Json | None] | None = None
    requests: list[str] = field(default_factory=list)

    def stop(self) -> None:
        """Forward all requests again."""
        self.offer = self.root = None

    def answer(self, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        """Return the answer to a GET in the place of the registry's."""
        if self.root is not None and path.startswith("/v1/roots/"):
            found = self.root(int(path.rpartition("/")[2]))
            return (404, b"{}") if found is None else (200, json.dumps(found).encode())
        if self.offer is not None and path.startswith("/v1/channels/") and status == 200:
            return status, json.dumps(self.offer(json.loads(body))).encode()
        return status, body


@contextmanager
def attacker() -> Iterator[Attacker]:
    """Serve an attacker on loopback."""
    made = Attacker()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

        def do_GET(self) -> None:
            self._forward(None)

        def do_POST(self) -> None:
            self._forward(self.rfile.read(int(self.headers["Content-Length"])))

        def _forward(self, content: bytes | None) -> None:
            made.requests.append(f"{self.command} {self.path}")
            headers = {name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers}
            url = made.upstream + self.path
            try:
                got = client.request(self.command, url, headers=headers, content=content)
                status, body = got.status_code, got.content
            except httpx.HTTPError:
                status, body = 502, b""
            if self.command == "GET":
                status, body = made.answer(self.path, status, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    # One client, because each reads the files of all authorities; each request has a connection of its own.
    client = httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))
    with client, served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as made.url:
        yield made


class Scene:
    """Registry `lab`, whose root document an agent has pinned. `log` is what the agent logged."""

    def __init__(self, folder: Path, between: Attacker, stack: ExitStack) -> None:
        self.folder, self.attacker, self.keys = folder, between, Keys()
        self._stack = stack
        self._serving: ExitStack | None = None
        self._settings: Json = {"database_url": f"sqlite:///{folder}/registry.db", "registry": "lab"}
        settings = ServingSettings.model_validate(self._settings)
        self.admin = make_admin_token(settings, is_first=True, token_file=None, now=utc_now())[0].text
        self.database: Database = stack.enter_context(_closing(open_database(settings)))
        self.now_s = int(time.time())
        self.ahead_s = 0
        self.boot_id = "boot-1"
        self.log = io.StringIO()
        self.root_file: Path | None = folder / "root.json"
        self.token = self.new_token("read", "report", agent_id="web-1")
        self.serve(self.keys.registry)
        self.publish_root(1)
        self._write_root_file(1)

    # -- the registry and its operators ------------------------------------------

    def serve(self, key: PrivateKey | None) -> None:
        """Start the registry, or restart it, with this signing key."""
        if self._serving is not None:
            self._serving.close()
        self._serving = self._stack.enter_context(ExitStack())
        signing = {} if key is None else {"signing_key_file": key_file(key, self.folder)}
        running = Running(self.database, open=False, wake_spread_ms=0, **signing)
        self.attacker.upstream = self._serving.enter_context(running).url

    @property
    def operator(self) -> RegistryClient:
        """A client with all rights."""
        return RegistryClient(self.attacker.upstream, token=self.admin)

    def root(self, version: int, **changed: Any) -> Json:
        """A root document of `lab` that the owner of the root key signed; it expires in 400 days."""
        return self.keys.envelope(version, **{"expires_s": self.now_s + 400 * DAY_S, **changed})

    def publish_root(self, version: int, **changed: Any) -> None:
        """Upload a root document."""
        with self.operator as client:
            client.publish_root(Envelope.from_json(self.root(version, **changed)))

    def rotate(self, **changed: Any) -> PrivateKey:
        """Replace the registry's key by version 2 of the root document, and serve with the new one."""
        new = PrivateKey.generate()
        self.serve(None)
        self.publish_root(2, registry_keys=[new], **changed)
        self.serve(new)
        return new

    def move(self, number: int, *, channel: str = "champion", publishers: list[PrivateKey] | None = None) -> int:
        """Publish, sign and deploy the ensemble of that number; return the serial."""
        made = ensemble(window_us=60_000 + number)
        with self.operator as client:
            client.publish(made)
            client.add_signature(made.digest, self.approval(made, *(publishers or [self.keys.publisher])))
            return int(client.move("gr", channel, digest=made.digest)["serial"])

    def new_token(self, *scopes: str, age_s: float = 0, lifetime_s: int | None = None, **limits: Any) -> str:
        """A token that was made some time ago."""
        new = new_token()
        wanted = TokenCreate(principal="web", kind="agent", scopes=list(scopes), lifetime_s=lifetime_s, **limits)
        with self.database.write() as session:
            then = utc_now() - timedelta(seconds=age_s)
            access.create_token(session, wanted, new, by=local_caller("test"), now=then)
        return new.text

    def reported(self) -> dict[str, str]:
        """The state of each agent, as the registry knows it."""
        with self.operator as client:
            return {row["agent_id"]: row["state"] for row in client.agents()}

    def offered(self, *, channel: str = "champion") -> Json:
        """The registry's real offer."""
        headers = {"Authorization": f"Bearer {self.admin}"}
        answer = httpx.get(f"{self.attacker.upstream}/v1/channels/gr/{channel}", headers=headers)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    # -- the signatures that an attacker may have ----------------------------------

    def approval(self, made: Ensemble, *keys: PrivateKey) -> Envelope:
        """Publishers' signatures of an ensemble."""
        return sign_ensemble(EnsembleStatement(made.cca, made.digest), keys)

    def signed(self, offer: Json, key: PrivateKey | None = None, **changed: Any) -> Json:
        """The offer with another signature of its deployment: of this key, or of the registry's if that was stolen.

        changed: fields of the statement that differ from the offer's. issued_s, expires_s: by the agent's clock.
        """
        now_s = int(time.time()) + self.ahead_s
        names = ("registry", "cca", "channel", "serial", "digest", "hold_back_permille", "urgent")
        fields = {name: offer[name] for name in names}
        statement = DeploymentStatement(**{**fields, "issued_s": now_s, "expires_s": now_s + 7 * DAY_S, **changed})
        envelope = sign_deployment(statement, key or self.keys.registry).to_json()
        return {**offer, "signatures": {**offer["signatures"], "deployment": envelope}}

    # -- the agent -----------------------------------------------------------------

    @property
    def tree(self) -> StandInTree:
        """The kernel's files."""
        return StandInTree(self.folder / "tree")

    @property
    def text(self) -> str:
        """The table in force."""
        return self.tree.read("gr", "ensemble")

    def reboot(self) -> None:
        """Empty the kernel."""
        for path in (self.folder / "tree").iterdir():
            path.unlink()
        self.boot_id += "+"

    @property
    def settings(self) -> AgentSettings:
        """The agent's settings."""
        token_file = self.folder / "token"
        token_file.write_text(self.token)
        token_file.chmod(0o600)
        return AgentSettings(
            url=self.attacker.url,
            ccas=("gr",),
            root=self.root_file,
            state_dir=self.folder / "state",
            agent_id="web-1",
            token_file=str(token_file) if self.token else None,
            timeout_s=30.0,
            wait_s=0.0,
            interval_s=0.05,
            backoff_max_s=0.2,
            report_spread_s=0.0,
        )

    def new_agent(self, **changed: Any) -> Agent:
        """An agent with this state folder."""
        return Agent(
            replace(self.settings, **changed),
            tree=self.tree,
            log=EventLog(stream=self.log),
            boot_id=self.boot_id,
            now_s=lambda: time.time() + self.ahead_s,
        )

    def ask(self, **changed: Any) -> CcaReport:
        """Run the agent once; return its report."""
        (report,), _ = self.new_agent(**changed).run_once()
        return report

    def trial(self) -> Plan:
        """What `--dry-run` says."""
        now_s = time.time() + self.ahead_s
        (found,) = plan(self.settings, tree=self.tree, boot_id=self.boot_id, now_s=lambda: now_s)
        return found

    def files(self) -> dict[str, bytes]:
        """The contents of the agent's folders."""
        folders = [self.folder / name for name in ("state", "tree")]
        found = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def _write_root_file(self, version: int) -> None:
        assert self.root_file is not None
        self.root_file.write_text(json.dumps(self.root(version)))
        self.root_file.chmod(0o644)


@contextmanager
def scene_in(folder: Path) -> Iterator[Scene]:
    """A scene with the ensemble 1 and then the ensemble 2 in force."""
    with ExitStack() as stack:
        scene = Scene(folder, stack.enter_context(attacker()), stack)
        for serial in (1, 2):
            assert scene.move(serial) == serial
            assert (scene.ask().state, scene.ask().effective_serial) == ("InSync", serial)
        yield scene


@contextmanager
def _closing(database: Database) -> Iterator[Database]:
    yield database
    database.close()
