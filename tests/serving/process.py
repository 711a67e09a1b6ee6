# SPDX-License-Identifier: MIT
"""`ccatune serve` as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

START_S = 60
REPOSITORY = Path(__file__).resolve().parents[2]


class Process:
    """`ccatune serve` with a free port; without accounts, unless the test says otherwise."""

    def __init__(
        self, folder: Path, *options: str, descriptors: int | None = None, with_accounts: bool = False
    ) -> None:
        mode = [] if with_accounts else ["--open"]
        self.ready_file = folder / "ready"
        self._out, self._err = folder / "out", folder / "err"
        limit = [] if descriptors is None else ["prlimit", f"--nofile={descriptors}:{descriptors}"]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*limit, sys.executable, "-m", "ccatune", "serve", *mode, "--database", f"sqlite:///{folder}/registry.db",
                 "--port", "0", "--ready-file", str(self.ready_file), *options],
                stdout=out,
                stderr=err,
                cwd=REPOSITORY,
            )  # fmt: skip

    @property
    def url(self) -> str:
        """Where it listens, by the file that it wrote; waits for it."""
        pause = threading.Event()
        for _ in range(START_S * 20):
            if self.ready_file.exists():
                return self.ready_file.read_text(encoding="utf-8").strip()
            assert self._process.poll() is None, self._err.read_text(encoding="utf-8")
            pause.wait(0.05)
        raise AssertionError("no ready file")

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal that does not end it."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; returns exit status, output and errors."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        status = self._process.wait(timeout=START_S)
        return status, self._out.read_text(encoding="utf-8"), self._err.read_text(encoding="utf-8")
