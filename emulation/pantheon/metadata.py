# SPDX-License-Identifier: MIT
"""Reads and writes pantheon_metadata.json, which describes the runs of a data folder.

The file has the options of Pantheon's `test.py` under their names. Options that are not set are left out. Entries that
only ccatune knows are under the single key `ccatune`. Unknown keys are kept.

Folders of 2017 and earlier differ. There, `cc_schemes` is a text with spaces, numbers are texts, and the descriptions
of the two ends have other names. These entries are converted when the file is read.

Source: save_test_metadata and load_test_metadata in Pantheon's utils.py, and its analysis scripts.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emulation.errors import EmulationError
from emulation.scenario.files import first_fault
from emulation.traces.files import write_file

FILE_NAME = "pantheon_metadata.json"
OLD_NAMES = {
    "local_information": "local_desc",
    "remote_information": "remote_desc",
    "local_interface": "local_if",
    "remote_interface": "remote_if",
}
# The name of a scheme is a part of file names.
SchemeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=100)]


class _Tolerant(BaseModel):
    """An immutable model that keeps unknown keys, because other versions of Pantheon write other keys."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class RunNote(_Tolerant):
    """The runner's verdict on a run.

    verdict: "ok", or the kind of failure. output: the file with the output of the scheme. late_share: the share of this
    machine's timers that were late during the run (emulation/mahimahi/machine.py). Mahimahi's shells are late as often.
    """

    verdict: str
    reason: str = ""
    output: str | None = None
    late_share: float | None = None


class CcatuneEntries(_Tolerant):
    """The entries that ccatune adds to the file. runs: verdicts by scheme and number of the run."""

    link: str | None = Field(
        None, description="name of the link or scenario, which is the heading of its section in a report"
    )
    versions: dict[str, str] = Field({}, description="versions of ccatune, the kernel, Mahimahi and each scheme")
    ensembles: dict[str, str] = Field(
        {}, description="digest of the ensemble that an algorithm's flows follow, by algorithm"
    )
    parameters: dict[str, dict[str, int]] = Field({}, description="parameters of an algorithm's flows, in its units")
    start_s: float = Field(0.0, ge=0, description="the place in the traces at which the first flow starts, in s")
    runs: dict[str, dict[int, RunNote]] = {}


class Metadata(_Tolerant):
    """The content of the file. Field names are Pantheon's."""

    mode: Literal["local", "remote"] = "local"
    cc_schemes: tuple[SchemeName, ...] = Field(min_length=1)
    run_times: int = Field(ge=1, description="runs of each scheme")
    flows: int = Field(ge=0, description="number of flows; 0: without a tunnel, the logs are those of mm-link")
    runtime: int | float = Field(gt=0, description="duration of a run in s")
    interval: int | float = Field(0, ge=0, description="time between the starts of two flows in s")
    start_run_id: int = Field(1, ge=1)
    random_order: bool = False
    uplink_trace: str | None = None
    downlink_trace: str | None = None
    prepend_mm_cmds: str | None = None
    append_mm_cmds: str | None = None
    extra_mm_link_args: str | None = None
    sender_side: Literal["local", "remote"] | None = None
    local_desc: str | None = None
    remote_desc: str | None = None
    local_if: str | None = None
    remote_if: str | None = None
    ntp_addr: str | None = None
    git_summary: str = ""
    ccatune: CcatuneEntries | None = None

    @property
    def run_ids(self) -> range:
        """The numbers of the runs. Those below start_run_id come from earlier calls with the same folder."""
        return range(1, self.start_run_id + self.run_times)

    @property
    def mahimahi_command(self) -> str:
        """The command line of the shells of a local test; empty for a remote test."""
        if self.mode == "remote":
            return ""
        parts = [self.prepend_mm_cmds, "mm-link", self.uplink_trace, self.downlink_trace, self.extra_mm_link_args]
        return " ".join(part for part in [*parts, self.append_mm_cmds] if part)

    def note(self, scheme: str, run: int) -> RunNote | None:
        """Return the runner's verdict on a run; None if the folder has no verdict on it."""
        return self.ccatune.runs.get(scheme, {}).get(run) if self.ccatune else None


def write_metadata(metadata: Metadata, data_dir: Path) -> None:
    """Write the metadata of a folder atomically. As in Pantheon, it states traces by file name without folder.

    Raises EmulationError if a local test lacks a trace, which Pantheon's report requires, or the file cannot be
    written.
    """
    path = data_dir / FILE_NAME
    document = metadata.model_dump(mode="json", exclude_none=True)
    traces = ("uplink_trace", "downlink_trace")
    lacking = [name for name in traces if name not in document]
    if metadata.mode == "local" and lacking:
        raise EmulationError(f"{path}: expected both traces of a local run, got no {lacking[0]}; name its file")
    document |= {name: Path(document[name]).name for name in traces if name in document}
    text = json.dumps(document, sort_keys=True, indent=4)
    write_file(path, f"{text}\n".encode())


def read_metadata(data_dir: Path) -> Metadata:
    """Read the metadata of a folder.

    Raises EmulationError if the file cannot be read, is damaged, or lacks an entry. The message names the file and the
    line.
    """
    path = data_dir / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise EmulationError(f"{path}: cannot be read ({error.strerror}); expected a Pantheon data folder") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise EmulationError(f"{path}: expected JSON in UTF-8, got the byte 0x{byte:02x}") from error
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise EmulationError(f"{path}, line {error.lineno}: expected JSON, got other text ({error.msg})") from error
    except RecursionError as error:
        raise EmulationError(f"{path}: expected a mapping, got nested lists without end") from error
    if not isinstance(document, dict):
        raise EmulationError(f"{path}, line 1: expected a mapping, got {type(document).__name__}")
    try:
        return Metadata.model_validate(_modern(document))
    except ValidationError as error:
        name = str(error.errors(include_url=False)[0]["loc"][0])
        raise EmulationError(f"{path}{_line_of(name, text)}: {first_fault(error)}") from error


def _modern(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the names and types of the present format."""
    modern = {OLD_NAMES.get(name, name): value for name, value in document.items()}
    if isinstance(modern.get("cc_schemes"), str):
        # Some versions write the schemes as "a b c", others as the text of a list.
        modern["cc_schemes"] = re.findall(r"[^\s\[\]',\"]+", modern["cc_schemes"])
    modern.setdefault("mode", "remote" if "remote_desc" in modern else "local")
    return {name: value for name, value in modern.items() if value is not None}


def _line_of(name: str, text: str) -> str:
    at = text.find(f'"{name}"')
    return "" if at < 0 else f", line {text.count(chr(10), 0, at) + 1}"
