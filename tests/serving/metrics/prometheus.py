# SPDX-License-Identifier: MIT
"""A real Prometheus on the loopback interface, with the shipped scrape configuration and rules"""

from __future__ import annotations

import math
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml

START_S = 30
_SCRAPE = "1s"


class Prometheus:
    """Prometheus that scrapes one registry, as configs/serving/prometheus.yml says, but every second."""

    def __init__(self, folder: Path, *, configs: Path, registry_url: str, token: str) -> None:
        (folder / "token").write_text(f"{token}\n", encoding="ascii")
        shutil.copy(configs / "alerts.yml", folder)
        config = yaml.safe_load((configs / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": _SCRAPE, "evaluation_interval": _SCRAPE}
        (job,) = config["scrape_configs"]
        # No name server leads to a registry of a test.
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": [urlsplit(registry_url).netloc]}]
        job["authorization"]["credentials_file"] = str(folder / "token")
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1/")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip
        self._log = folder / "log"

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _get(self, path: str, **params: str) -> Any:
        answer = self._client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now. A wrong expression is an error."""
        found: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return found

    def is_answered(self, expression: str) -> bool:
        """Whether the expression has a sample that is a number."""
        return any(math.isfinite(float(one["value"][1])) for one in self.query(expression))

    def wait_for(self, expression: str) -> None:
        """Wait until an expression has a sample."""
        pause = threading.Event()
        for _ in range(START_S * 10):
            try:
                if self.is_answered(expression):
                    return
            except httpx.TransportError:
                assert self._process.poll() is None, self._log.read_text(encoding="utf-8")
            pause.wait(0.1)
        raise AssertionError(f"{expression}: {self._get('targets')}")

    def rules(self) -> dict[str, str]:
        """The health of each alert rule, by name, after it was evaluated."""
        return {rule["name"]: rule["health"] for group in self._get("rules")["groups"] for rule in group["rules"]}
