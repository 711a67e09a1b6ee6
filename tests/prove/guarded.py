# SPDX-License-Identifier: MIT
"""A registry as production runs it: accounts, a root document, a signing key; a process that may be killed."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kmod.ensemble import Ensemble
from serving.client import RegistryClient
from serving.signatures import EnsembleStatement, Envelope, PrivateKey, Role, Root, sign_ensemble
from serving.signatures.root import ROOT_TYPE
from tests.emulation.tables import like_trained

REPOSITORY = Path(__file__).resolve().parents[2]
REGISTRY = "lab"
START_S = 60.0
YEAR_S = 365 * 86_400


def make_ensemble(number: int) -> Ensemble:
    """An ensemble of its own for each number."""
    return like_trained(tuple((60_000, 3_000, 12_000 + level) for level in range(40)), number=number)


def free_port() -> int:
    """A TCP port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Guarded:
    """The registry's folder, keys and tokens, and its process. Its address stays the same over restarts."""

    folder: Path
    database: str = ""
    port: int = field(default_factory=free_port)
    root_key: PrivateKey = field(default_factory=PrivateKey.generate)
    publisher: PrivateKey = field(default_factory=PrivateKey.generate)
    registry_key: PrivateKey = field(default_factory=PrivateKey.generate)
    token: str = ""
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.database = self.database or f"sqlite:///{self.folder}/registry.db"
        self._ready = self.folder / "ready"
        self.registry_key.save(self.folder / "registry.pem")

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What all of its lives have logged."""
        return self.folder / "serve.log"

    @property
    def root_file(self) -> Path:
        """The root document, for agents."""
        return self.folder / "root.json"

    def set_up(self) -> None:
        """Make the first token and the root document, start, and upload the document."""
        token_file = self.folder / "admin.token"
        subprocess.run(
            [*self._command(), "--init", "--token-file", str(token_file), "--registry-name", REGISTRY],
            check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.token = token_file.read_text(encoding="ascii").strip()
        root = self.signed_root()
        self.root_file.write_text(json.dumps(root.to_json()), encoding="ascii")
        self.start()
        with self.client() as client:
            client.publish_root(root)

    def signed_root(self) -> Envelope:
        """The first root document: one key for each role."""
        keys = {"root": self.root_key.public, "publisher": self.publisher.public, "registry": self.registry_key.public}
        root = Root(
            registry=REGISTRY,
            version=1,
            expires_s=int(time.time()) + YEAR_S,
            keys={key.key_id: key for key in keys.values()},
            roles={name: Role(frozenset({key.key_id})) for name, key in keys.items()},  # type: ignore[misc]
        )
        return Envelope.sign(ROOT_TYPE, root.to_payload(), [self.root_key])

    def signature(self, ensemble: Ensemble) -> Envelope:
        """The publisher's signature of an ensemble."""
        return sign_ensemble(EnsembleStatement(ensemble.cca, ensemble.digest), [self.publisher])

    def launch(self) -> None:
        """Start the process, without waiting for it."""
        self._ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._command(), "--port", str(self.port), "--ready-file", str(self._ready),
                 "--signing-key-file", str(self.folder / "registry.pem")],
                stdout=subprocess.DEVNULL, stderr=log, cwd=REPOSITORY,
            )  # fmt: skip

    def start(self) -> None:
        """Start the process, and wait until it answers. Raises RuntimeError where it ends instead."""
        self.launch()
        assert self.process is not None
        deadline_s = time.monotonic() + START_S
        while not self._ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the registry did not start: {self.log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.01)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send the process a signal that ends it, and wait for the end."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            process.wait(timeout=START_S)

    def client(self, *, timeout_s: float = 30.0) -> RegistryClient:
        """An administrator's client."""
        return RegistryClient(self.url, token=self.token, timeout_s=timeout_s)

    def publish(self, client: RegistryClient, ensemble: Ensemble) -> dict[str, Any]:
        """Publish an ensemble with its signature."""
        answer = client.publish(ensemble)
        client.add_signature(ensemble.digest, self.signature(ensemble))
        return answer

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "ccatune", "serve", "--database", self.database]


@contextlib.contextmanager
def guarded(
    folder: Path, *, database: str = "", before: Callable[[Guarded], None] = lambda _: None
) -> Iterator[Guarded]:
    """Run such a registry while the block runs. before: is called while there is no database yet."""
    registry = Guarded(folder, database)
    try:
        before(registry)
        registry.set_up()
        yield registry
    finally:
        registry.end()
