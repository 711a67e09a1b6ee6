# SPDX-License-Identifier: MIT
"""The command line `ccatune-agent`: the agent, and what an operator does on the server on which it runs."""

from __future__ import annotations

import json
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

import click
from click.core import ParameterSource

from kmod.errors import CcatuneError
from kmod.terminal import echo, visible
from serving.agent.errors import SettingsError
from serving.agent.kernel import DEFAULT_PROC_ROOT, VIAS, Tree, Via, make_tree, read_boot_id
from serving.agent.log import EventLog, is_journal
from serving.agent.loop import Agent, notify_systemd, plan
from serving.agent.settings import (
    CREDENTIAL,
    DEFAULT_CONFIG,
    DEFAULT_STATE_DIR,
    LOG_FORMS,
    SECONDS,
    AgentSettings,
    credential_file,
    labels_of,
    read_config,
)
from serving.agent.state import IN_FORCE, agent_version

EXIT_FALLS_SHORT = 1
EXIT_USAGE = 2
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130
_STOP_WITHIN_S = 5.0

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _tree_of(ctx: click.Context, stand_in: Path | None, *, via: Via, proc_root: Path, dry_run: bool) -> Tree:
    """Return the tree of --via, or the stand-in in the folder of --stand-in.

    With --dry-run the stand-in is a copy that is deleted when the command ends, because a stand-in makes its files.
    Raises SettingsError where the stand-in is not installed, click.UsageError where another tree is set, too.
    """
    if stand_in is None:
        return make_tree(via, proc_root=proc_root)
    given = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    for name in ("via", "proc_root"):
        if ctx.get_parameter_source(name) in given:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"expected either --stand-in or {option}, got both; leave {option} out")
    try:
        # The stand-in needs the simulator's engine. The agent's own package has neither, and needs neither otherwise.
        standin = import_module("emulation.standin")
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"stand_in: expected the module {error.name}, which this installation leaves out; install ccatune whole, "
            "or leave --stand-in out"
        ) from error
    if dry_run:
        import shutil
        import tempfile

        copy = ctx.with_resource(tempfile.TemporaryDirectory(prefix="ccatune-dry-run-"))
        if stand_in.is_dir():
            shutil.copytree(stand_in, copy, dirs_exist_ok=True)
        stand_in = Path(copy)
    tree: Tree = standin.StandInTree(stand_in)
    return tree


def _print_version(ctx: click.Context, _parameter: click.Parameter, is_requested: bool) -> None:  # noqa: FBT001 (click)
    if is_requested:
        echo(f"ccatune-agent, version {agent_version() or 'unknown'}")
        ctx.exit()


def _take_config(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Use the file's keys as defaults. Environment and command line take precedence."""
    del parameter
    found = read_config(path or DEFAULT_CONFIG, required=path is not None)
    if isinstance(found.get("cca"), str):
        found["cca"] = [found["cca"]]
    if "labels" in found:
        found["labels"] = [f"{name}={value}" for name, value in found["labels"].items()]
    ctx.default_map = {**found, **(ctx.default_map or {})}
    return path


def _option(name: str, text: str, *, key: str = "", **how: Any) -> Callable[[_Function], _Function]:
    """Make an option that the variable CCATUNE_AGENT_KEY sets too. key: its name in the settings file."""
    key = key or name.removeprefix("--").replace("-", "_")
    shows_default = "[default:" not in text and how.get("default") is not None
    how = {"envvar": f"CCATUNE_AGENT_{key.upper()}", "show_envvar": True, "show_default": shows_default, **how}
    return click.option(name, key, help=text, **how)


def _settings_options(function: _Function) -> _Function:
    path = click.Path(path_type=Path)
    via = "Where the algorithms run: in the module (proc), or in BPF; auto: the module where it is loaded."
    config = f"TOML file with these settings.  [default: {DEFAULT_CONFIG} where it exists]"
    label = "What the server is, for roll-outs within it, e.g. site=fra1; may be given several times."
    own_id = "Name in reports.  [default: the token's, or else a random one, which the agent keeps]"
    token = f"File with the token for the registry.  [default: systemd's credential {CREDENTIAL}, if it exists]"
    root = "Root document that names the keys; tables without their signatures are refused.  [default: none]"
    registry = "Name that the registry must have; its tables alone are applied.  [default: any]"
    stand_in = "Write to a stand-in for the module's tree, kept in this folder, behind the same parser."
    textfile = "Write figures to this file, NAME.prom, for the textfile collector of Prometheus' node exporter."
    prefixes = "Sum the clients of R-TCP in --textfile by prefixes of these lengths, such as 24,56.  [default: off]"
    url = ["CCATUNE_AGENT_URL", "CCATUNE_REGISTRY_URL"]
    options = [
        _option("--config", config, type=path, is_eager=True, expose_value=False, callback=_take_config,
                show_envvar=False),
        _option("--url", "Address of the registry: http(s)://HOST[:PORT][/PATH].", envvar=url),
        _option("--registry-name", registry, default=""),
        _option("--root", root, type=path),
        _option("--channel", "Channel to follow.", default="champion"),
        _option("--cca", "Algorithm to keep, e.g. gr; may be given several times.", multiple=True),
        _option("--state-dir", "Folder of its state.", type=path, default=DEFAULT_STATE_DIR),
        _option("--via", via, type=click.Choice(VIAS), default="auto"),
        click.option("--stand-in", type=click.Path(file_okay=False, path_type=Path), help=stand_in),
        _option("--proc-root", "The module's tree.", type=path, default=DEFAULT_PROC_ROOT),
        _option("--agent-id", own_id, default=""),
        _option("--label", label, key="labels", multiple=True, metavar="NAME=VALUE"),
        _option("--ca-file", "Certificates (PEM) to trust for https, instead of the system's."),
        _option("--token-file", token, default=credential_file),
        _option("--client-cert-file", "Certificate (PEM) to show to the registry."),
        _option("--client-key-file", "Its key (PEM), if that is in a file of its own."),
        _option("--textfile", textfile, type=path),
        _option("--rtcp-prefixes", prefixes, default="", metavar="V4,V6"),
        _option("--log", "Form of the log on stderr.", type=click.Choice(LOG_FORMS), default="text"),
        _option("--insecure-http", "Send the token by http, where others may read it.", is_flag=True),
    ]  # fmt: skip
    for key, (_, default, _, meaning) in SECONDS.items():
        name = "--" + key.removesuffix("_s").replace("_", "-")
        options.append(_option(name, f"Seconds {meaning}.", key=key, type=float, default=default))
    for option in reversed(options):
        function = option(function)
    return function


class _AgentGroup(click.Group):
    """The agent's commands. They are imported only when one is used."""

    _NAMES = ("clients", "disable", "enable", "forget", "observe", "resume", "status", "unit")
    _MODULES: ClassVar = {"observe": "serving.agent.observe.command"}

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self._NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self._NAMES:
            return None
        command: click.Command = getattr(import_module(self._MODULES.get(cmd_name, "serving.agent.commands")), cmd_name)
        return command


@click.group(
    name="ccatune-agent",
    cls=_AgentGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
@_settings_options
@click.option("--once", is_flag=True, help="Fetch and apply the offer once, report, and exit.")
@click.option("--dry-run", is_flag=True, help="Print what would be done and why; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Results, and the lines of the log, as JSON.")
@click.pass_context
def agent(
    ctx: click.Context,
    /,
    *,
    once: bool,
    dry_run: bool,
    as_json: bool,
    cca: tuple[str, ...],
    url: str | None,
    labels: tuple[str, ...],
    stand_in: Path | None,
    **values: Any,
) -> None:
    """Apply the tables that a channel of a registry offers to this server's kernel.

    When it starts, the agent applies the last table that the kernel accepted, before it contacts the registry.
    The table stays in force when the registry is unreachable and when the agent ends. If an operator changes a
    table, the agent leaves it alone until `resume`.

    \b
    Exit status:
      0    ended by SIGTERM or Ctrl-C; --once and --dry-run: every algorithm has the offered table
      1    --once and --dry-run: an algorithm does not have it, or --once could not report; a line says why
      2    it cannot run: the command line, a setting or the state folder is wrong, or another agent runs
      70   a fault of the agent, with its traceback
      130  Ctrl-C before it ran

    \b
    Examples:
      ccatune-agent --url http://127.0.0.1:8640 --cca gr --dry-run
      ccatune-agent --url http://127.0.0.1:8640 --channel champion --cca gr --token-file web-1.token
      ccatune-agent --url http://127.0.0.1:8640 --cca gr --via bpf
      ccatune-agent status
    """
    make = partial(_tree_of, ctx, stand_in, via=values["via"], proc_root=values["proc_root"])
    if ctx.invoked_subcommand is not None:
        # A subcommand only reads, and a stand-in makes its files.
        ctx.obj = partial(make, dry_run=True)
        return
    settings = AgentSettings(ccas=cca, url=url or "", labels=labels_of(labels), **values)
    tree = make(dry_run=dry_run)
    if dry_run:
        ctx.exit(_dry_run(settings, tree, as_json=as_json))
    log_is_json = settings.log == "json"
    # What collects lines as JSON expects the time in them.
    log = EventLog(as_json=as_json or log_is_json, has_times=log_is_json or not is_journal(sys.stderr))
    running = Agent(settings, tree=tree, log=log, boot_id=read_boot_id())
    if once:
        ctx.exit(_once(running, as_json=as_json))
    _install_signals(running)
    running.run(on_ready=notify_systemd)


def _dry_run(settings: AgentSettings, tree: Tree, *, as_json: bool) -> int:
    plans = plan(settings, tree=tree, boot_id=read_boot_id())
    if as_json:
        echo(json.dumps([asdict(one) for one in plans]))
    else:
        for one in plans:
            for message in one.damaged:
                echo(visible(f"{one.cca}: {message}"))
            answer = f"registry {one.registry}" if one.registry == "answers" else one.registry
            echo(visible(f"{one.cca}: {answer}"))
            blocked = f" [{one.blocked}]" if one.blocked else ""
            echo(visible(f"{one.cca}: would do: {one.would}; why: {one.why}{blocked}"))
    return 0 if all(one.blocked is None for one in plans) else EXIT_FALLS_SHORT


def _once(running: Agent, *, as_json: bool) -> int:
    from serving.agent.commands import state_line

    reports, unsent = running.run_once()
    if as_json:
        echo(json.dumps([{**asdict(report), "not_reported": unsent.get(report.cca)} for report in reports]))
    else:
        for report in reports:
            echo(state_line(asdict(report)))
        for cca, error in unsent.items():
            echo(f"{cca}: not reported: {error}")
    return 0 if not unsent and all(report.state in IN_FORCE for report in reports) else EXIT_FALLS_SHORT


def _install_signals(running: Agent) -> None:
    if threading.current_thread() is not threading.main_thread():
        return

    def stop(*_: object) -> None:
        # The agent may wait for another program, e.g. ccatune-bpf. It may be ended at any moment without harm.
        if signal.getitimer(signal.ITIMER_REAL)[0] == 0:
            signal.setitimer(signal.ITIMER_REAL, _STOP_WITHIN_S)
        running.stop()

    signal.signal(signal.SIGALRM, lambda *_: sys.exit(0))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, lambda *_: running.resume())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line of `ccatune-agent` and return its exit status."""
    try:
        result = agent.main(arguments, prog_name="ccatune-agent", standalone_mode=False)
    except click.ClickException as error:
        message = error.format_message()
    except click.Abort:
        return EXIT_INTERRUPTED
    except CcatuneError as error:
        message = str(error)
    except OSError as error:
        if error.filename is None:
            raise
        message = f"{error.filename}: cannot be used ({error.strerror or error})"
    else:
        return result if isinstance(result, int) else 0
    echo(f"ccatune-agent: {message}".expandtabs(4), err=True)
    return EXIT_USAGE


def main() -> NoReturn:
    """Entry point of `ccatune-agent`. The exit statuses are those of `ccatune`."""
    try:
        status = run()
    except Exception:
        echo(traceback.format_exc().rstrip(), err=True)
        status = EXIT_FAULT
    sys.exit(status)
