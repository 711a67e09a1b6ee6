# SPDX-License-Identifier: MIT
"""The schemes of a Pantheon test: those of ccatune, or those of a checkout of Pantheon.

Each scheme has a wrapper: a Python file that handles the verbs of Pantheon's protocol.

    deps                  prints the Debian packages that it needs
    run_first             prints the end that listens: receiver or sender
    setup                 builds what the scheme needs, once
    setup_after_reboot    applies settings that a restart of the machine undoes
    receiver, sender      runs this end; the argument of the end that listens is PORT, those of the other ADDRESS PORT

A folder of schemes contains config.yml (name, colour and marker of each scheme) and wrappers/. Pantheon's wrappers are
written in Python 2. A wrapper that Python 3 cannot compile runs with python2, if that is installed.

DEVIATION: `test` runs `setup_after_reboot` itself, once after each restart. Pantheon leaves this to its user.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, Field

from emulation.errors import EmulationError
from emulation.scenario.files import read_settings
from kmod.abi import ALGORITHMS

Role = Literal["receiver", "sender"]

_FOLDER = Path(__file__).parent
# Bounds on the time of a verb. Most verbs only take as long as starting Python, but `setup` may compile a library.
ASK_S = 20.0
SETUP_S = 3600.0
AFTER_REBOOT_S = 120.0
_LOOK_S = 0.1
_ANSWER_BYTES = 1 << 16
_MOST_OUTPUT_BYTES = 256 << 20
_SHOWN_CHARS = 60
_SETPRIV = shutil.which("setpriv")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SchemeError(EmulationError):
    """A scheme cannot run, but others may. The message names the scheme and states what to do."""


class _Entry(BaseModel):
    """A scheme in config.yml. Unknown keys are ignored, because other versions of Pantheon have other keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field("", description="the name in reports; older checkouts call it friendly_name")
    friendly_name: str = ""
    color: str = ""
    marker: str = ""
    wrapper: str = ""
    cca: str = ""


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    schemes: dict[str, _Entry]


@dataclass(frozen=True)
class Scheme:
    """A scheme that a test can run.

    name: the name in files and on the command line. label, color, marker: as shown in reports. wrapper: the wrapper's
    file. leading: the words between this file and the verb. cca: the algorithm of ccatune that the scheme uses, "" if
    none. target: its delay class in the algorithm's ensemble, such as `50ms`; "" for the default class.
    """

    name: str
    label: str
    color: str
    marker: str
    wrapper: Path
    leading: tuple[str, ...] = ()
    cca: str = ""
    target: str = ""

    @property
    def is_built_in(self) -> bool:
        """Whether the wrapper is one of ccatune."""
        return _FOLDER in self.wrapper.parents

    def words(self, *arguments: str) -> list[str]:
        """Return the command line for a verb and its arguments.

        Raises SchemeError if the wrapper does not exist, or this machine has no interpreter for it.
        """
        return [interpreter(self), str(self.wrapper), *self.leading, *arguments]

    def ask(self, verb: str, *, limit_s: float = ASK_S) -> str:
        """Run a verb that ends by itself, and return its output.

        Raises SchemeError if the verb fails, prints too much, or does not end within limit_s.
        """
        # The output is a file, because a background process that the verb leaves may keep it open. setpriv kills the
        # wrapper if this process ends.
        with tempfile.TemporaryFile() as output:
            words = ["setpriv", "--pdeathsig", "KILL", "--", *self.words(verb)] if _SETPRIV else self.words(verb)
            started = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment(self),
                process_group=0,
            )  # fmt: skip
            try:
                fault = _await_end(started, output, limit_s=limit_s)
            except BaseException:
                _kill_group(started)
                raise
            if fault:
                _kill_group(started)
                raise SchemeError(f"{self.name}: expected `{verb}` {fault}")
            output.seek(max(0, output.seek(0, os.SEEK_END) - _ANSWER_BYTES))
            said = output.read().decode(errors="replace")
        if started.returncode:
            tail = " ".join(said.strip().splitlines()[-3:])
            raise SchemeError(f"{self.name}: expected `{verb}` to succeed, got status {started.returncode}: {tail}")
        return said

    def run_first(self) -> Role:
        """Ask the wrapper which end listens.

        Raises SchemeError if the wrapper fails, hangs, or answers something else.
        """
        answer = self.ask("run_first").strip()
        if answer == "receiver":
            return "receiver"
        if answer == "sender":
            return "sender"
        shown = answer if len(answer) <= _SHOWN_CHARS else f"{answer[:_SHOWN_CHARS]}..."
        raise SchemeError(f"{self.name}: expected `run_first` to print receiver or sender, got {shown!r}")

    def deps(self) -> list[str]:
        """Ask the wrapper for the Debian packages that the scheme needs. Raises SchemeError as `ask` does."""
        return self.ask("deps").split()

    def set_up(self) -> None:
        """Build what the scheme needs, and prepare it for this boot. Raises SchemeError as `ask` does."""
        self.ask("setup", limit_s=SETUP_S)
        _mark(self).unlink(missing_ok=True)
        self.prepare()

    def prepare(self) -> None:
        """Run `setup_after_reboot` unless it has run since the last restart. Raises SchemeError as `ask` does."""
        mark, boot = _mark(self), _BOOT_ID.read_text(encoding="ascii")
        if mark.exists() and mark.read_text(encoding="ascii") == boot:
            return
        self.ask("setup_after_reboot", limit_s=AFTER_REBOOT_S)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(boot, encoding="ascii")


def _await_end(started: subprocess.Popen[bytes], output: IO[bytes], *, limit_s: float) -> str:
    """Wait until a process ends. Return "" if it ended in time, or else the fault as the end of an error message."""
    end_s = time.monotonic() + limit_s
    wait_s = 0.005
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(timeout=wait_s)
            return ""
        wait_s = min(2 * wait_s, _LOOK_S)
        if time.monotonic() > end_s:
            return f"to end within {limit_s:g} s, it hangs"
        if os.fstat(output.fileno()).st_size > _MOST_OUTPUT_BYTES:
            return f"to print at most {_MOST_OUTPUT_BYTES >> 20} MiB, it prints more"


def _kill_group(started: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def caller() -> pwd.struct_passwd | None:
    """Return the user who called sudo; None without sudo, or if root called it."""
    number = os.environ.get("SUDO_UID", "")
    if not number.isdecimal() or int(number) == 0:
        return None
    try:
        return pwd.getpwuid(int(number))
    except KeyError:
        return None


def builds() -> Path:
    """Return the folder of the builds of schemes: $CCATUNE_SCHEMES, or else ccatune/schemes in the user's cache.

    Under sudo it is the cache of the user who called sudo, because the ends of flows run as that user.
    """
    named = os.environ.get("CCATUNE_SCHEMES")
    if not named and (called := caller()):
        return Path(called.pw_dir) / ".cache" / "ccatune" / "schemes"
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named).resolve() if named else cache_folder / "ccatune" / "schemes"


def _mark(scheme: Scheme) -> Path:
    content = scheme.wrapper.read_bytes() if scheme.wrapper.exists() else b""
    key = hashlib.sha256(f"{scheme.wrapper}{scheme.leading}".encode() + content).hexdigest()[:16]
    return builds() / "prepared" / key


def _python_folder(program: str) -> Path:
    """Return a folder with a `python` that runs the interpreter `program`. Pantheon's wrappers call `python`."""
    folder = builds() / "interpreters" / hashlib.sha256(program.encode()).hexdigest()[:16]
    python = folder / "python"
    if not python.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # This is a script, because a link to the interpreter of a virtual environment would lose the environment.
        made = folder / f"python-{os.getpid()}"
        made.write_text(f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n', encoding="utf-8")
        made.chmod(0o755)
        made.replace(python)
    return folder


def environment(scheme: Scheme) -> dict[str, str]:
    """Return the environment of a scheme's processes. In it, `python` runs the interpreter of the wrapper."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "USER") if name in os.environ}
    path = os.environ.get("PATH", "/usr/bin:/bin")
    if not scheme.is_built_in:
        path = f"{_python_folder(interpreter(scheme))}:{path}"
    return {
        **kept,
        "PATH": path,
        "PYTHONUNBUFFERED": "1",
        "CCATUNE_SCHEMES": str(builds()),
        "PYTHON": interpreter(scheme),
    }


@cache
def _python2() -> str:
    """Return the path of a working python2, or ""."""
    found = shutil.which("python2") or ""
    if not found:
        return ""
    works = subprocess.run([found, "-c", "print 1"], capture_output=True, check=False)
    return found if works.returncode == 0 else ""


def _older_line(file: Path) -> str:
    """Return the file and line that Python 3 cannot compile, or "".

    file: a wrapper. The files that it imports from its own folder are also checked.
    """
    seen, waiting = set(), [file]
    while waiting:
        one = waiting.pop()
        if one in seen or not one.is_file():
            continue
        seen.add(one)
        text = one.read_text(encoding="utf-8", errors="replace")
        try:
            ast.parse(text)
        except SyntaxError as error:
            return f"{one.name}, line {error.lineno}"
        except (ValueError, RecursionError, MemoryError):
            return f"{one.name}, which is not Python source"
        waiting += [one.parent / f"{name}.py" for name in _IMPORT.findall(text)]
    return ""


def interpreter(scheme: Scheme) -> str:
    """Return the Python that runs a wrapper.

    Raises SchemeError if there is no wrapper, or it requires Python 2, which is not installed.
    """
    if not scheme.wrapper.is_file():
        raise SchemeError(f"{scheme.name}: expected its wrapper {scheme.wrapper}, found none")
    older = "" if scheme.is_built_in else _older_line(scheme.wrapper)
    if not older:
        return sys.executable
    if python2 := _python2():
        return python2
    raise SchemeError(
        f"{scheme.name}: its wrapper is written in Python 2 ({older}), and no python2 is installed here; "
        "install one, or leave this scheme out"
    )


def read_schemes(checkout: Path | None = None) -> dict[str, Scheme]:
    """Return the schemes of ccatune, or those of a checkout of Pantheon, by name.

    Those of ccatune include the algorithms of params.def that have a kernel module. One that is not in config.yml
    gets a colour and a marker that others do not have.

    checkout: the top folder of the checkout, with src/config.yml and src/wrappers.

    Raises EmulationError if the configuration is missing or invalid.
    """
    # Schemes run in working directories of their own, so the paths of their wrappers must be absolute.
    folder = _FOLDER if checkout is None else checkout.resolve() / "src"
    file = folder / "config.yml"
    if not file.is_file():
        raise EmulationError(f"{folder}: expected a checkout of Pantheon with src/config.yml, found none")
    config = read_settings(file, _Config, what="Pantheon's schemes")
    found = {}
    for name, entry in config.schemes.items():
        if not _NAME.fullmatch(name):
            raise EmulationError(f"{file}: expected names of letters, digits and . _ + -, got {name!r}")
        wrapper, *leading = entry.wrapper.split() or [f"{name}.py"]
        label = entry.name or entry.friendly_name or name
        path = folder / "wrappers" / wrapper
        cca = entry.cca if checkout is None else ""
        found[name] = Scheme(name, label, entry.color, entry.marker, path, tuple(leading), cca=cca)
    if checkout is None:
        for algorithm in ALGORITHMS.values():
            if algorithm.module and algorithm.name not in found:
                words = (algorithm.kernel_name,)
                program, label = folder / "wrappers/tcp.py", algorithm.name.upper()
                found[algorithm.name] = Scheme(algorithm.name, label, "", "", program, words, cca=algorithm.name)
    return found


def schemes_of(names: list[str], known: dict[str, Scheme]) -> list[Scheme]:
    """Return the schemes with these names. `gr-50ms` is the scheme gr with the delay class of 50 ms.

    Raises EmulationError if a name is unknown or repeated.
    """
    found: list[Scheme] = []
    for name in names:
        base, _, target = name.rpartition("-")
        if name in known:
            found.append(known[name])
        elif base in known and known[base].cca and re.fullmatch(r"\d+(\.\d+)?ms", target):
            label = f"{known[base].label} {target.removesuffix('ms')} ms"
            found.append(replace(known[base], name=name, label=label, target=target))
        else:
            raise EmulationError(f"schemes: expected names among {', '.join(known)}, got {name}")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise EmulationError(f"schemes: expected each scheme once, got {', '.join(sorted(repeated))} twice")
    return found
