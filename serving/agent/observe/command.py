# SPDX-License-Identifier: MIT
"""The command `observe`: `ccatune observe` and `ccatune-agent observe`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from kmod.folders import SharedFolderError, require_own_folder, require_own_path
from kmod.locks import open_lock
from kmod.observation_writer import ObservationWriter
from kmod.observations import Facts, files_in
from kmod.terminal import counted, echo, visible
from serving.agent.errors import ObserveError, SettingsError
from serving.agent.log import EventLog, is_journal
from serving.agent.observe.acks import Acks
from serving.agent.observe.addresses import hiding, salt_of
from serving.agent.observe.diag import MOST_PORTS, Diag
from serving.agent.observe.printer import SamplePrinter
from serving.agent.observe.sampler import Sampler, Sampling, Sink, missing_columns
from serving.agent.observe.upload import Uploader, upload_settings
from serving.agent.settings import credential_file
from serving.agent.state import agent_version

DEFAULT_CONFIG = Path("/etc/ccatune/observe.toml")
DEFAULT_FOLDER = Path("/var/lib/ccatune-observe")
_UNIT = "ccatune-observe.service"
_UNIT_OF_ACKS = "ccatune-observe-acks.service"
_SIZE = re.compile(r"([1-9][0-9]{0,8})([KMGT]?)")
_LEAST_KEEP_BYTES = 1 << 16
_STATUS_EVERY_S = 1.0
_MOST_S = 1e9

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _size(_ctx: click.Context, _parameter: click.Parameter, text: str) -> int:
    """Return a number of bytes, given as 500M or 2G (powers of 1024)."""
    match = _SIZE.fullmatch(text.upper())
    size_bytes = int(match[1]) << 10 * " KMGT".index(match[2] or " ") if match else 0
    if size_bytes < _LEAST_KEEP_BYTES:
        raise click.BadParameter(f"expected a size of at least 64K, such as 500M or 2G, got {text!r:.40}")
    return size_bytes


def _take_config(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Use the file's keys as defaults. Environment and command line take precedence."""
    import tomllib

    del parameter
    place = path or DEFAULT_CONFIG
    try:
        found = tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        if path is None and isinstance(error, FileNotFoundError):
            return None
        raise SettingsError(f"{place}: expected a TOML file, got {error}") from error
    known = sorted(str(one.name) for one in ctx.command.params if one.expose_value and one.name not in _NOT_IN_FILE)
    for key in found:
        if key not in known:
            raise SettingsError(f"{place}: expected one of {', '.join(known)}, got the key {key!r:.40}")
    ctx.default_map = {**found, **(ctx.default_map or {})}
    return path


class _FiniteRange(click.FloatRange):
    """As click.FloatRange, which accepts nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"expected a finite number, got {value}", param, ctx)
        return number


_NOT_IN_FILE = frozenset({"seconds", "to_stdout", "as_json", "unit"})


def _print_unit(*, acks: bool) -> None:
    from importlib import resources

    for name in (_UNIT, _UNIT_OF_ACKS) if acks else (_UNIT,):
        echo(resources.files("serving.agent").joinpath(name).read_text(encoding="utf-8").rstrip("\n"))


def _option(name: str, text: str, *, key: str = "", **how: Any) -> Callable[[_Function], _Function]:
    """Make an option that the variable CCATUNE_OBSERVE_KEY sets, too."""
    key = key or name.removeprefix("--").replace("-", "_")
    how = {
        "envvar": f"CCATUNE_OBSERVE_{key.upper()}",
        "show_envvar": True,
        "show_default": how.get("default") is not None,
        **how,
    }
    return click.option(name, key, help=text, **how)


def _options(function: _Function) -> _Function:
    path = click.Path(path_type=Path)
    flag: dict[str, Any] = {"is_flag": True}
    many: dict[str, Any] = {"multiple": True}
    algorithm = "Only connections with this algorithm, e.g. bbr; may be given several times."
    most = "Sample at most so many connections at once; the others are only counted."
    most_acks = "With --acks: sample at most so many ACKs in a second; the others are only counted."
    find = "Seconds between two lists of all connections, in which new ones are found."
    token = "File with the token for the registry.  [default: systemd's credential ccatune-token, if it exists]"  # noqa: S105
    agent_id = "This server's name in the registry.  [default: the token's]"
    options = [
        _option("--config", f"TOML file with these settings.  [default: {DEFAULT_CONFIG} where it exists]", type=path,
                is_eager=True, expose_value=False, callback=_take_config),
        _option("--folder", "Folder of the files.", type=path, default=DEFAULT_FOLDER),
        _option("--keep", "Remove the oldest files beyond this size, such as 500M.", metavar="SIZE", default="1G",
                callback=_size),
        _option("--share", "Share of the connections to sample.", type=_FiniteRange(0, 1, min_open=True),
                default=0.01),
        _option("--every-ms", "Time between two samples, in ms.", type=click.IntRange(100, 10_000), default=200),
        _option("--find-s", find, type=_FiniteRange(0.2, 3600), default=5.0),
        _option("--most", most, type=click.IntRange(min=1), default=1000),
        _option("--port", "Only connections with this local port; may be given several times.", key="ports",
                type=click.IntRange(1, 65535), **many),
        _option("--only-algorithm", algorithm, key="algorithms", **many),
        _option("--acks", "Also sample each ACK, by a BPF program.", **flag),
        _option("--most-acks", most_acks, type=click.IntRange(1, 1_000_000), default=2000),
        _option("--loopback", "Also sample connections within this machine.", **flag),
        _option("--prefix-v4", "Cut IPv4 addresses to so many bits.", type=click.IntRange(0, 32), default=24),
        _option("--prefix-v6", "Cut IPv6 addresses to so many bits.", type=click.IntRange(0, 128), default=48),
        _option("--hash", "Hash addresses instead, with a salt that is made in the folder.", key="hashed", **flag),
        _option("--peer-ports", "Keep the ports of the peers.", **flag),
        _option("--to", "Also send finished files there.", type=click.Choice(("registry",))),
        _option("--url", "Address of the registry: http(s)://HOST[:PORT][/PATH].",
                envvar=["CCATUNE_OBSERVE_URL", "CCATUNE_REGISTRY_URL"]),
        _option("--token-file", token, default=credential_file, show_default=False),
        _option("--agent-id", agent_id, default="", show_default=False),
        _option("--ca-file", "Certificates (PEM) to trust for https, instead of the system's."),
        _option("--insecure-http", "Send the token by http, where others may read it.", **flag),
        click.option("--seconds", type=_FiniteRange(0, _MOST_S, min_open=True), help="Stop after so many seconds."),
        click.option("--stdout", "to_stdout", is_flag=True, help="Print the samples, and write no files."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--unit", is_flag=True, help="Print the systemd unit (with --acks its rights, too), and exit."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.command(name="observe")
@_options
def observe(
    *, folder: Path, keep: int, ports: Sequence[int], hashed: bool, prefix_v4: int, prefix_v6: int, to: str | None,
    seconds: float | None, to_stdout: bool, as_json: bool, unit: bool, share: float, every_ms: int, find_s: float,
    most: int, algorithms: Sequence[str], acks: bool, most_acks: int, loopback: bool, peer_ports: bool, **registry: Any,
) -> None:  # fmt: skip
    """Sample TCP connections of this server, and keep what was seen for training and advice.

    Every --every-ms, a share of the connections is read from the kernel: bytes acknowledged, RTT, packets in flight,
    losses, and what limited the sender. This needs no module and no special rights. Addresses are cut to a prefix.
    With --acks a BPF program also samples these connections at each ACK. This needs ccatune-bpf and the capabilities
    CAP_BPF and CAP_PERFMON.
    Without --acks, connections that live less than --find-s may be missed. The result says how many connections began
    meanwhile on this server, and how many of them were found.

    \b
    Examples:
      ccatune observe --stdout --share 1 --seconds 10
      ccatune observe --share 0.01 --port 443 --keep 2G --folder observed
      ccatune observe --acks --share 0.001 --seconds 600 --folder observed
      ccatune observe --unit > /etc/systemd/system/ccatune-observe.service
    """
    if unit:
        _print_unit(acks=acks)
        return
    if len(ports) > MOST_PORTS:
        raise SettingsError(f"port: expected at most {MOST_PORTS} of them, got {len(ports)}")
    with contextlib.ExitStack() as stack:
        if not to_stdout:
            folder = stack.enter_context(_held(folder))
        salt = salt_of(folder) if hashed and not to_stdout else os.urandom(32) if hashed else None
        hide, words = hiding(salt=salt, bits_v4=prefix_v4, bits_v6=prefix_v6)
        sampling = Sampling(
            hide=hide, share=share, every_ms=every_ms, find_s=find_s, most=most, algorithms=algorithms,
            has_loopback=loopback, has_peer_ports=peer_ports,
        )  # fmt: skip
        facts = Facts(
            every_ms=every_ms, find_s=find_s, share=share, addresses=words, ports=tuple(ports),
            algorithms=tuple(algorithms), version=agent_version() or "", acks_per_s=most_acks if acks else 0,
        )  # fmt: skip
        uploader = None
        if to is not None and not to_stdout:
            log = EventLog(as_json=as_json, has_times=not is_journal(sys.stderr))
            uploader = stack.enter_context(Uploader(folder, upload_settings(**registry), log=log))

        def begin(info_bytes: int) -> Sink:
            if to_stdout:
                return SamplePrinter()
            missing = missing_columns(info_bytes, has_acks=acks)
            return ObservationWriter(folder, facts=facts, missing=missing, keep_bytes=keep)

        diag = Diag(ports=ports)
        stack.callback(diag.close)
        source = Acks(share=share, most_per_s=most_acks, every_s=every_ms / 1000, ports=ports) if acks else None
        if source is not None:
            stack.callback(source.close)
        status = _Status(is_shown=sys.stderr.isatty() and not to_stdout)
        sampler = Sampler(
            sampling, diag=diag, begin=begin, on_sample=lambda: status.show(sampler),
            on_finished=uploader.wake if uploader else lambda: None, acks=source,
        )  # fmt: skip
        _sample(sampler, "the output" if to_stdout else str(folder), seconds=seconds)
        status.clear()
    _print_result(sampler, None if to_stdout else folder, as_json=as_json)


def _sample(sampler: Sampler, place: str, *, seconds: float | None) -> None:
    """Sample until a signal, or for so many seconds. place: where samples are written. Raises ObserveError."""
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    timer = threading.Timer(seconds, stop.set) if seconds is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        sampler.run(stop)
        sampler.close()
    except BrokenPipeError:
        # Who read the output of --stdout has seen enough.
        sys.stdout = open(os.devnull, "w", encoding="ascii")  # noqa: SIM115, PTH123
    except OSError as error:
        raise ObserveError(f"{place}: expected to write there, got {error.strerror or error}") from error


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """Create the folder, and hold its lock. Raises ObserveError."""
    descriptor = -1
    try:
        require_own_path(folder)
        folder = folder.resolve()
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        require_own_folder(folder)
        descriptor = open_lock(folder / "lock")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise ObserveError(f"{folder}: expected a folder of its own, got one that another `observe` uses") from error
    except SharedFolderError as error:
        raise ObserveError(f"folder: {error}") from error
    except OSError as error:
        raise ObserveError(f"{folder}: expected a folder to write to, got {error.strerror}; set --folder") from error
    try:
        yield folder
    finally:
        os.close(descriptor)


class _Status:
    """A line on the terminal that is written over each second."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._begun_s = self._shown_s = time.monotonic()
        self._spent_s = time.process_time()

    def show(self, sampler: Sampler) -> None:
        now_s = time.monotonic()
        if not self._is_shown or now_s - self._shown_s < _STATUS_EVERY_S:
            return
        self._shown_s = now_s
        counts = sampler.counts
        percent = 100 * (time.process_time() - self._spent_s) / (now_s - self._begun_s)
        text = (
            f"{counts.present} of {counted(counts.matching, 'connection')} sampled, {counts.samples} samples, "
            f"{percent:.1f} % of a core; Ctrl-C ends it"
        )
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _print_result(sampler: Sampler, folder: Path | None, *, as_json: bool) -> None:
    counts = sampler.counts
    if as_json:
        echo(json.dumps({**asdict(counts), "folder": None if folder is None else str(folder)}))
        return
    kept = ""
    if folder is not None:
        files = files_in(folder)
        size_mib = sum(path.stat().st_size for path in files) / (1 << 20)
        kept = visible(f"; {folder} holds {counted(len(files), 'file')}, {size_mib:.1f} MiB")
    acks = f", {counted(counts.acks, 'sample')} of ACKs" if counts.acks else ""
    echo(f"{counted(counts.flows, 'connection')} sampled, {counted(counts.samples, 'sample')}{acks}{kept}", err=True)
    if counts.acks_over_limit or counts.acks_lost:
        echo(
            f"{counted(counts.acks_over_limit, 'ACK')} beyond --most-acks, and {counts.acks_lost} that came faster "
            "than they were read, were not sampled; lower --share, or raise --most-acks",
            err=True,
        )
    if counts.opened:
        echo(
            f"{counted(counts.opened, 'connection')} began on this server meanwhile, and {counts.new} of them were "
            "found; connections shorter than --find-s, or not matching the options, are missing",
            err=True,
        )
    if not counts.flows:
        echo(
            "no connection was sampled; a larger --share samples more, and --loopback adds local connections", err=True
        )
    if counts.left_out:
        echo(
            f"{counted(counts.left_out, 'connection')} more matched at the end and were not sampled; raise --most",
            err=True,
        )
