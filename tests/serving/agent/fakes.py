# SPDX-License-Identifier: MIT
"""What the agent's tests put in the place of the kernel and of the registry, the tables they use, and a server.

FakeTree IS A FAKE of the module's tree: it keeps texts in memory, applies the
serial rules of kmod/core/ensemble.h (`ens_admit`) to the header lines, and
parses nothing else. The tests that need the real parser use the stand-in of
emulation (test_stand_in.py).
"""

from __future__ import annotations

import errno
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from kmod.abi import ALGORITHMS
from kmod.ensemble import Deployment, Ensemble
from serving.agent.applier import Applier
from serving.agent.client import RegistryClient
from serving.agent.kernel import Tree
from serving.agent.log import EventLog
from serving.agent.settings import AgentSettings
from serving.agent.state import CcaReport, PollResult, State
from serving.agent.store import LAST_KNOWN_GOOD, Store
from serving.agent.table import Table
from tests.emulation.tables import like_trained
from tests.serving.threads import served

COLUMNS = ("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us")
PARAMETERS = "".join(
    f"{spec.name} {spec.default} {spec.minimum} {spec.default} {spec.maximum} {spec.unit}\n"
    for spec in ALGORITHMS["gr"].params
)


def ensemble(*, window_us: int = 60_000, levels: int = 3) -> Ensemble:
    """A small ensemble; another window makes another digest."""
    rows = tuple((window_us, 3000, 12_000 + index) for index in range(levels * 2))
    return like_trained(rows, classes_ms=(50, 100), made_by="test")


def table(
    serial: int,
    *,
    channel: str = "champion",
    registry: str = "local",
    window_us: int | None = None,
    urgent: bool = False,
) -> Table:
    """A deployment; each serial has content of its own unless a window is given."""
    return Table(
        ensemble=ensemble(window_us=60_000 + serial if window_us is None else window_us),
        deployment=Deployment(registry=registry, channel=channel, serial=serial, urgent=urgent),
    )


def answer(offered: Table, **changes: Any) -> bytes:
    """What the API answers for an offer, with some keys changed."""
    deployment = offered.deployment
    body = {
        "registry": deployment.registry,
        "cca": offered.ensemble.cca,
        "channel": deployment.channel,
        "serial": deployment.serial,
        "digest": offered.ensemble.digest,
        "hold_back_permille": deployment.hold_back_permille,
        "urgent": deployment.urgent,
        "note": "",
        "restores_serial": None,
        "deployed_at": "2026-01-01T00:00:00Z",
        "ensemble": offered.ensemble.to_json(),
        **changes,
    }
    return json.dumps(body).encode()


class FakeTree:
    """A fake of /proc/net/ccatune with the CCA `gr`. `on_access` is called before each access and may raise.

    rows: the last lines of `status`, which belong to the table in force.
    """

    def __init__(self) -> None:
        self.text = ""
        self.rows = ""
        self.generation = 0
        self.rejected = 0
        self.module = "0.1.0"
        self.parameters = PARAMETERS
        self.loaded = True
        self.loads = 1
        self.refuse_with: int | None = None
        self.alter: Callable[[str], str] = lambda text: text
        self.accepted: list[str] = []
        self.on_access: Callable[[str], None] = lambda _: None

    def reload(self) -> None:
        """Unload and load the module: no table, generations from the beginning."""
        self.text, self.rows, self.generation, self.rejected = "", "", 0, 0
        self.loads += 1

    def read(self, cca: str, file: str) -> str:
        """Return the text of a file."""
        self.on_access(f"read {file}")
        self._require(cca)
        return {"ensemble": self.text, "parameters": self.parameters, "status": self._status()}[file]

    def write(self, cca: str, file: str, text: str) -> None:
        """Take a table, or `clear`."""
        self.on_access("before write")
        self._require(cca)
        assert file == "ensemble"
        if text == "clear\n":
            self.text = self.rows = ""
            self.generation += 1
        else:
            self._admit(text)
        self.on_access("after write")

    def _admit(self, text: str) -> None:
        if self.refuse_with is not None:
            self._refuse(self.refuse_with)
        assert text.endswith("\n")
        assert text.splitlines()[-1].startswith("end ")
        now, offered = header(self.text), header(text)
        if (now["registry"], now["channel"]) == (offered["registry"], offered["channel"]):
            if int(offered["serial"]) < int(now["serial"]):
                self._refuse(errno.ESTALE)
            if offered["serial"] == now["serial"]:
                if offered["digest"] != now["digest"]:
                    self._refuse(errno.EEXIST)
                if offered["urgent"] > now["urgent"]:
                    self.text = self.text.replace("\ndigest ", " urgent\ndigest ", 1)
                    self.generation += 1
                return
        self.text, self.rows = self.alter(text), ""
        self.generation += 1
        self.accepted.append(text)

    def _refuse(self, number: int) -> None:
        self.rejected += 1
        raise OSError(number, "refused by the fake")

    def _require(self, cca: str) -> None:
        if not self.loaded or cca != "gr":
            raise FileNotFoundError(errno.ENOENT, "no such file", f"{cca}/ensemble")

    def _status(self) -> str:
        of = header(self.text)
        return (
            f"module {self.module}\ninstance {self.loads}\ngeneration {self.generation}\nregistry {of['registry']}\n"
            f"channel {of['channel']}\nserial {of['serial']}\nurgent {of['urgent']}\n"
            f"digest {of['digest']}\n"
            f"rejected_writes {self.rejected}\n"
            f"{self.rows}"
        )


def header(text: str) -> dict[str, str]:
    """The header lines of a table by their first word, and `urgent`; of no table what `status` says then."""
    lines = {line.partition(" ")[0]: line.partition(" ")[2] for line in text.splitlines()[:8]}
    serial, _, mark = lines.get("serial", "0").partition(" ")
    assert mark in {"", "urgent"}
    urgent = "1" if mark else "0"
    return {"registry": "-", "channel": "-", "digest": "-", **lines, "serial": serial, "urgent": urgent}


def settings_of(folder: Path, url: str = "http://127.0.0.1:9", **changed: Any) -> AgentSettings:
    """Settings of an agent that looks often and waits little. At the default address nobody listens."""
    usual = {
        "url": url,
        "ccas": ("gr",),
        "state_dir": folder / "state",
        "agent_id": "host",
        "interval_s": 0.05,
        "timeout_s": 20,
        "backoff_max_s": 0.2,
        "report_spread_s": 0,
    }
    return AgentSettings(**{**usual, **changed})


def client_to(url: str, **changed: Any) -> RegistryClient:
    """A client of a registry. changed: settings."""
    return RegistryClient(settings_of(Path("/nonexistent"), url, **{"agent_id": "", **changed}))


def applier_of(tree: Tree, store: Store, *, boot_id: str = "boot-1", log: io.StringIO | None = None, cca: str = "gr",
               clock: Callable[[], float] = time.monotonic, **changed: Any) -> Applier:  # fmt: skip
    """An applier of one CCA. changed: settings."""
    settings = settings_of(store.root.parent, **changed)
    return Applier(cca, settings=settings, tree=tree, store=store, log=log_to(log), boot_id=boot_id, clock=clock)


class Server:
    """A server with an agent that can be started again, and what it keeps over a restart or a reboot."""

    def __init__(self, folder: Path) -> None:
        self.tree = FakeTree()
        self.store = Store(folder)
        self.boot_id = "boot-1"
        self.log = io.StringIO()
        self.now_s = 0.0
        self.restart()

    def restart(self, **changed: Any) -> None:
        """Start the agent anew; the kernel and the disk stay as they are. changed: settings."""
        self.applier = applier_of(
            self.tree, self.store, boot_id=self.boot_id, log=self.log, clock=lambda: self.now_s, **changed
        )
        self.applier.start()

    def reboot(self, **changed: Any) -> None:
        """Empty the kernel and start the agent."""
        self.tree.reload()
        self.boot_id += "+"
        self.restart(**changed)

    def offer(self, offered: Table) -> None:
        """The registry offers a table."""
        self.applier.receive(PollResult(State.IN_SYNC, offered))

    def unchanged(self) -> None:
        """The registry says that its last offer is still current."""
        self.applier.receive(PollResult(State.IN_SYNC))

    def lose_registry(self, error: str = "gone") -> None:
        """The registry does not answer."""
        self.applier.receive(PollResult(State.OFFLINE, error=error))

    def by_hand(self, text: str) -> None:
        """An operator writes a table, or `clear`."""
        self.tree.write("gr", "ensemble", text)
        self.applier.check()

    @property
    def report(self) -> CcaReport:
        """What the registry is sent."""
        return self.applier.report()

    @property
    def state(self) -> State:
        """The state of the report."""
        return self.report.state

    def good(self) -> Table | None:
        """The last known good on disk."""
        return self.store.load_table("gr", LAST_KNOWN_GOOD)


def log_to(stream: io.StringIO | None = None) -> EventLog:
    """A log that a test can read."""
    return EventLog(stream=stream if stream is not None else io.StringIO())


@dataclass
class FakeRegistry:
    """A fake of the registry's API that long-polls, and can be told to answer anything.

    holds_absent: whether it holds a request for a channel without a deployment, too.
    token: the token that it requires, if any. shown: the Authorization headers that it got.
    """

    url: str = ""
    offered: Table | None = None
    raw: tuple[int, dict[str, str], bytes] | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    holds_absent: bool = False
    token: str | None = None
    shown: list[str | None] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    closing: bool = False

    def offer(self, offered: Table | None) -> None:
        """Move the channel."""
        with self.changed:
            self.offered, self.raw = offered, None
            self.changed.notify_all()

    def answer_with(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer every GET with this from now on."""
        with self.changed:
            self.raw = (status, headers, body)
            self.changed.notify_all()

    def wait_for_report(self, wanted: Callable[[dict[str, Any]], bool], *, timeout_s: float = 20) -> dict[str, Any]:
        """Return the newest report once one that is wanted came; fails when none comes."""
        with self.changed:
            assert self.changed.wait_for(lambda: bool(self.reports) and wanted(self.reports[-1]), timeout=timeout_s), (
                self.reports
            )
            return self.reports[-1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _fake(self) -> FakeRegistry:
        return cast("FakeRegistry", self.server.fake)  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args

    def do_GET(self) -> None:
        fake = self._fake
        known = self.headers.get("If-None-Match")
        if not self._is_accepted():
            return
        with fake.changed:
            fake.asked.append((self.path, known))
            is_held = known is not None or fake.holds_absent
            if "wait=" in self.path and fake.raw is None and etag(fake.offered) == known and is_held:
                wait_s = float(self.path.partition("wait=")[2])
                fake.changed.wait_for(
                    lambda: fake.closing or fake.raw is not None or etag(fake.offered) != known, timeout=wait_s
                )
            status, headers, body = fake.raw or _usual(fake.offered, known)
        self._send(status, headers, body)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_accepted():
            return
        with self._fake.changed:
            self._fake.reports.append({"path": self.path, **body})
            self._fake.changed.notify_all()
        self._send(204, {}, b"")

    def _is_accepted(self) -> bool:
        """Whether the request has the token; answers 401 if not."""
        shown = self.headers.get("Authorization")
        with self._fake.changed:
            self._fake.shown.append(shown)
            self._fake.changed.notify_all()
        if self._fake.token is None or shown == f"Bearer {self._fake.token}":
            return True
        problem = {"type": "urn:ccatune:problem:not-authenticated", "detail": "the token was not accepted"}
        self._send(401, {"WWW-Authenticate": "Bearer"}, json.dumps(problem).encode())
        return False

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status not in {204, 304}:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def wait_until(holds: Callable[[], bool], *, limit_s: float = 60.0) -> None:
    """Wait until this holds."""
    deadline_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def etag(offered: Table | None) -> str | None:
    """The strong ETag of an offer."""
    return None if offered is None else f'"{offered.deployment.serial}-{offered.ensemble.digest[-8:]}"'


def _usual(offered: Table | None, known: str | None) -> tuple[int, dict[str, str], bytes]:
    if offered is None:
        problem = {
            "type": "urn:ccatune:problem:channel-not-found",
            "title": "No such channel",
            "detail": "no channel champion",
        }
        return 404, {}, json.dumps(problem).encode()
    headers = {"ETag": etag(offered) or ""}
    return (304, headers, b"") if known == headers["ETag"] else (200, headers, answer(offered))


@contextmanager
def fake_registry(port: int = 0) -> Iterator[FakeRegistry]:
    """Serve a FakeRegistry on 127.0.0.1."""
    fake = FakeRegistry()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        allow_reuse_address = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A caller that hangs up is no news."""
            del request, client_address

    server = Server(("127.0.0.1", port), _Handler)
    server.fake = fake  # type: ignore[attr-defined]
    with served(server) as fake.url:
        try:
            yield fake
        finally:
            with fake.changed:
                fake.closing = True
                fake.changed.notify_all()
