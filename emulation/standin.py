# SPDX-License-Identifier: MIT
"""A stand-in for /proc/net/ccatune, for machines without the kernel modules.

It has the same files and the same rules: parser, formatter and admission are
those of the core. The state of an algorithm is the file `<root>/<cca>.json`. It is
replaced atomically, so that a reader, or a restart after a crash, finds the state
before or after a write. The stand-in has no flows: nothing on this machine follows
its tables. The file `status` says that it is a stand-in. R-TCP's `clients` shows the
text of the file `<root>/clients`, if somebody put one there.
"""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from emulation import _engine
from emulation.errors import EmulationError
from kmod.abi import ALGORITHMS
from kmod.ensemble import MAX_TEXT_BYTES, write_atomically
from kmod.locks import locked

MODULE = "stand-in 0.1.0"
MAX_VALUES_BYTES = 4096
# Represents any text after the end of a table.
_AFTER_THE_END = "after the end"


@dataclass(frozen=True)
class _State:
    generation: int = 0
    rejected_writes: int = 0
    ensemble: str = ""
    parameters: dict[str, int] = field(default_factory=dict)
    instance: str = ""


class StandInTree:
    """The files of every algorithm. Refused reads and writes raise OSError with the kernel's errno.

    Raises EmulationError if a state file was not written by this class.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)
        for cca in ALGORITHMS:
            with locked(self._lock_file(cca)):
                state = self._load(cca)
                if not state.instance:
                    self._save(cca, replace(state, instance=secrets.token_hex(8)))

    def read(self, cca: str, file: str) -> str:
        """Return the text of a file."""
        self._check(cca, file)
        state = self._load(cca)
        if file == "ensemble":
            return state.ensemble
        if file == "parameters":
            return _parameters_text(cca, state)
        if file == "clients" and (clients := self.root / "clients").exists():
            return clients.read_text(encoding="ascii")
        return _status_text(cca, state) if file == "status" else ""

    def lines(self, cca: str, file: str) -> Iterator[str]:
        """Yield the lines of a file."""
        yield from self.read(cca, file).splitlines()

    def write(self, cca: str, file: str, text: str) -> None:
        """Write a text as a program does that opens the file, writes the text, and closes the file."""
        self._check(cca, file)
        if file not in ("ensemble", "parameters"):
            raise _refused(errno.EACCES, f"{cca}/{file} is read-only")
        with locked(self._lock_file(cca)):
            before = state = self._load(cca)
            try:
                for part in _parts(cca, text) if file == "ensemble" else [text]:
                    state = _take_table(cca, state, part) if file == "ensemble" else _take_values(cca, state, part)
            except OSError:
                self._save(cca, replace(state, rejected_writes=state.rejected_writes + 1))
                raise
            if state != before:
                self._save(cca, state)

    def _check(self, cca: str, file: str) -> None:
        files = ("parameters", "ensemble", "status", "flows", *(["clients"] if cca.startswith("rtcp_") else []))
        if cca not in ALGORITHMS or file not in files:
            raise _refused(errno.ENOENT, f"{cca}/{file}: no such file")

    def _lock_file(self, cca: str) -> Path:
        return self.root / f".{cca}.lock"

    def _path(self, cca: str) -> Path:
        return self.root / f"{cca}.json"

    def _load(self, cca: str) -> _State:
        path = self._path(cca)
        try:
            return _State(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return _State()
        except (ValueError, TypeError) as error:
            raise EmulationError(f"{path}: expected the state of a stand-in, got other data; remove it") from error

    def _save(self, cca: str, state: _State) -> None:
        write_atomically(self._path(cca), json.dumps(asdict(state), indent=1).encode() + b"\n")


def _refused(number: int, message: str) -> OSError:
    return OSError(number, message)


def _parts(cca: str, text: str) -> list[str]:
    """Split a text into the table (or `clear`) and the text after its end, which the kernel refuses separately."""
    # The parser refuses a text that exceeds the limit by a byte, so the rest need not be passed to it.
    end = _engine.text_end(text[: MAX_TEXT_BYTES + 1], cca)
    return [text[:end], _AFTER_THE_END] if 0 < end < len(text) else [text]


def _take_table(cca: str, state: _State, text: str) -> _State:
    if text == "clear\n":
        return replace(state, ensemble="", generation=state.generation + 1)
    if not text:
        return state
    if text is _AFTER_THE_END:
        raise _refused(errno.EINVAL, f"{cca}/ensemble: text after the end")
    number, line, complete = _engine.judge_text(text[: MAX_TEXT_BYTES + 1], cca)
    if number and not complete:  # as in the kernel, a table without `end` is discarded and counted, without an error
        return replace(state, rejected_writes=state.rejected_writes + 1)
    if number:
        raise _refused(number, f"{cca}/ensemble: refused in line {line}")
    offered = _engine.Table(text, cca)
    in_force = _engine.Table(state.ensemble, cca) if state.ensemble else None
    verdict = offered.admit(in_force)
    if verdict < 0:
        raise _refused(-verdict, f"{cca}/ensemble: serial {offered.serial} does not follow the table in force")
    if verdict == 0 and in_force and offered.urgent and not in_force.urgent:
        serial = f"\nserial {offered.serial}"
        marked = state.ensemble.replace(f"{serial}\n", f"{serial} urgent\n", 1)
        return replace(state, ensemble=marked, generation=state.generation + 1)
    if verdict == 0:
        return state
    return replace(state, ensemble=offered.text, generation=state.generation + 1)


def _take_values(cca: str, state: _State, text: str) -> _State:
    if not text:
        return state
    if len(text) > MAX_VALUES_BYTES:
        raise _refused(errno.EFBIG, f"{cca}/parameters: more than {MAX_VALUES_BYTES} bytes")
    if text.removesuffix("\n") == "clear":
        return replace(state, parameters={}, generation=state.generation + 1)
    specs = ALGORITHMS[cca].params
    before = [state.parameters.get(spec.name, spec.default) for spec in specs]
    number, line, values = _engine.parse_parameters(text, cca, before)
    if number:
        raise _refused(number, f"{cca}/parameters: refused in line {line}: expected `name value`, within its range")
    parameters = {spec.name: value for spec, value in zip(specs, values, strict=True)}
    return replace(state, parameters=parameters, generation=state.generation + 1)


def _parameters_text(cca: str, state: _State) -> str:
    return "".join(
        f"{spec.name} {state.parameters.get(spec.name, spec.default)} "
        f"{spec.minimum} {spec.default} {spec.maximum} {spec.unit}\n"
        for spec in ALGORITHMS[cca].params
    )


def _status_text(cca: str, state: _State) -> str:
    table = _engine.Table(state.ensemble, cca) if state.ensemble else None
    lines = {
        "module": MODULE,
        "instance": state.instance,
        "generation": state.generation,
        "registry": table.registry if table else "-",
        "channel": table.channel if table else "-",
        "serial": table.serial if table else 0,
        "urgent": int(table.urgent) if table else 0,
        "digest": table.digest if table else "-",
        "rejected_writes": state.rejected_writes,
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items())
