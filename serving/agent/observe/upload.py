# SPDX-License-Identifier: MIT
"""Sends finished files to the registry, each once: PUT /v1/agents/{agent_id}/observations/{digest}.

The file `uploaded` in the folder names those that the registry has. The upload of a file is retried until the registry
accepts or refuses it. So nothing is lost while the registry is away, unless the ring removes it first. The registry
recognises a file that it has by its digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from pathlib import Path
from typing import Any

from kmod.ensemble import write_atomically
from kmod.observations import UNFINISHED, files_in
from serving.agent.client import RegistryClient
from serving.agent.errors import AgentError, ContentRefusedError, SettingsError
from serving.agent.log import EventLog
from serving.agent.settings import AgentSettings, require_agent_id

_UPLOADED = "uploaded"
_TRY_AGAIN_S = 60.0
_STOP_WITHIN_S = 5.0


def upload_settings(
    *, url: str | None, token_file: str | None, agent_id: str, ca_file: str | None, insecure_http: bool
) -> AgentSettings:
    """Return the settings of the client. Raises SettingsError."""
    if token_file is None and not agent_id:
        raise SettingsError("agent_id: expected this server's name, as there is no token to tell it; set --agent-id")
    if agent_id:
        require_agent_id(agent_id)
    # The algorithms are those of tables, of which this client does not fetch any.
    return AgentSettings(
        url=url or "", ccas=("gr",), token_file=token_file, agent_id=agent_id, ca_file=ca_file,
        insecure_http=insecure_http,
    )  # fmt: skip


class Uploader:
    """Sends the finished files of a folder from a thread of its own, while it is entered."""

    def __init__(self, folder: Path, settings: AgentSettings, *, log: EventLog, again_s: float = _TRY_AGAIN_S) -> None:
        """Create it. Raises SettingsError where a file of its TLS cannot be used."""
        self._folder, self._settings, self._log, self._again_s = folder, settings, log, again_s
        self._client = RegistryClient(settings)
        self._wake, self._is_ending = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
        self._problem = ""

    def __enter__(self) -> Uploader:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._is_ending = True
        self.wake()
        self._thread.join(_STOP_WITHIN_S)
        if self._thread.is_alive():
            self._client.abort()
            self._thread.join()
        self.close()

    def close(self) -> None:
        """Close the connection. No other thread may use it."""
        self._client.close()

    def wake(self) -> None:
        """A file was finished."""
        self._wake.set()

    def _run(self) -> None:
        while True:
            is_last = self._is_ending
            self._wake.clear()
            try:
                self.send()
                self._problem = ""
            except (AgentError, OSError) as error:
                # Once for each reason: the registry may be away for hours.
                if str(error) != self._problem:
                    self._problem = str(error)
                    self._log.event("upload", result="later", error=error)
            if is_last:
                return
            self._wake.wait(self._again_s)

    def send(self) -> int:
        """Send the files that the registry does not have. Returns their number. Raises AgentError and OSError."""
        finished = [path for path in files_in(self._folder) if not path.name.endswith(UNFINISHED)]
        record = self._folder / _UPLOADED
        sent: set[str] = set()
        with contextlib.suppress(FileNotFoundError):
            sent = set(record.read_text(encoding="ascii", errors="replace").split("\n"))
        sent &= {path.name for path in finished}
        number = 0
        for path in finished:
            if path.name in sent:
                continue
            try:
                content = path.read_bytes()
                self._client.put_observations(content, digest=f"sha256:{hashlib.sha256(content).hexdigest()}")
                number += 1
            except FileNotFoundError:
                continue
            except ContentRefusedError as error:
                self._log.event("upload", result="refused", file=path.name, error=error)
            sent.add(path.name)
            write_atomically(record, "\n".join(sorted(sent)).encode("ascii"))
        return number
