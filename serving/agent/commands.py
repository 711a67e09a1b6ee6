# SPDX-License-Identifier: MIT
"""What an operator does on the agent's server: status, clients, resume, forget, unit, enable and disable."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kmod.terminal import echo, visible
from serving.agent.errors import DamagedFileError, StateDirError
from serving.agent.settings import DEFAULT_STATE_DIR, prefix_bits
from serving.agent.state import IN_FORCE
from serving.agent.store import STATE, Request, Store
from serving.agent.switch import DEFAULT_ENABLED_FILE, LOAD_VIAS, LoadVia, Switch

# A state that was not confirmed for this many of its intervals is stale.
_MISSED_CONFIRMATIONS = 3
# How often `status --within-s` looks at the reports.
_LOOK_AGAIN_S = 0.2
_UNIT = "ccatune-agent.service"
_UNIT_OF_BPF = "ccatune-agent-bpf.service"
_VIA = "Load its module, or load it in BPF; auto: in BPF only if the module cannot be loaded."
_PREFIXES = "24,56"
_CCA_NAME = re.compile(r"[a-z0-9_]{1,15}")


def _store_of(ctx: click.Context, state_dir: Path | None) -> Store:
    """Return the store of the subcommand's --state-dir, else of the state folder set for `ccatune-agent`."""
    if state_dir is None and ctx.parent is not None:
        state_dir = ctx.parent.params.get("state_dir")
    return Store(state_dir or DEFAULT_STATE_DIR)


_state_dir_option = click.option("--state-dir", type=click.Path(path_type=Path), help="State folder of the agent.")


@click.command()
@_state_dir_option
@click.option("--within-s", type=click.FloatRange(0, 3600), default=0, help="Wait so many seconds for the status 0.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(ctx: click.Context, *, state_dir: Path | None, within_s: float, as_json: bool) -> None:
    """Show the agent's last reports, and their ages.

    The exit status is 0 if the agent runs and every algorithm is InSync or Unsigned, else 1. The last line, and `why`
    in the JSON, then say what falls short. A running agent confirms its reports regularly. A report that it did not
    confirm is shown as stale, for example because the disk is full.

    \b
    Example:
      ccatune-agent status --json
      ccatune-agent status --within-s 60
    """
    store = _store_of(ctx, state_dir)
    deadline_s = time.monotonic() + within_s
    running, states, why = _standing(store)
    while why and time.monotonic() < deadline_s:
        time.sleep(_LOOK_AGAIN_S)
        running, states, why = _standing(store)
    if as_json:
        echo(json.dumps({"running": running, "states": states, "why": why}))
    else:
        for state in states:
            echo(state_line(state))
        echo(f"agent on {store.root}: {'running' if running else 'not running'}")
        if why:
            echo(visible(f"falls short: {', '.join(why)}"))
    ctx.exit(1 if why else 0)


@click.command()
@click.option("--prefixes", metavar="V4,V6", help="Lengths of the prefixes.  [default: rtcp_prefixes, else 24,56]")
@click.option("--most", type=click.IntRange(1, 65_536), default=20, show_default=True, help="Prefixes to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def clients(ctx: click.Context, *, prefixes: str | None, most: int, as_json: bool) -> None:
    """Show the clients of R-TCP by prefix of their addresses, and what a cap would save.

    For each prefix: the clients in the kernel's table, the limited ones, the median, least and largest R and B of
    these, all segments, the segments sent and retransmitted to clients while these were limited, and the share of all
    segments that a cap can save. In BPF each live connection counts as a client. The prefixes where a cap saves most
    come first.

    \b
    Examples:
      ccatune-agent clients
      ccatune-agent clients --prefixes 16,32 --most 100 --json
    """
    from serving.agent.prefixes import RTCP, read_prefixes, table_lines

    set_for_agent = ctx.parent.params.get("rtcp_prefixes") if ctx.parent is not None else None
    bits = prefix_bits(set_for_agent or _PREFIXES) if prefixes is None else prefix_bits(prefixes, name="--prefixes")
    found = read_prefixes(ctx.obj(), RTCP, bits=bits, most=most)
    for line in [json.dumps(found)] if as_json else table_lines(found):
        echo(line)


@click.command()
@_state_dir_option
@click.option("--cca", multiple=True, help="Only this algorithm; may be given several times.")
@click.pass_context
def resume(ctx: click.Context, *, state_dir: Path | None, cca: tuple[str, ...]) -> None:
    """Return tables that were changed by hand to the agent's control.

    The agent replaces the table in force by the one that the channel offers. If the offered serial is older, it
    clears the table in force first. It does this at its next check, or, if it is not running, when it starts.

    \b
    Example:
      ccatune-agent resume --cca gr
    """
    for name in _request("resume", cca, store=_store_of(ctx, state_dir)):
        echo(f"{name}: resume is requested")


@click.command()
@_state_dir_option
@click.option("--cca", multiple=True, help="Only this algorithm; may be given several times.")
@click.pass_context
def forget(ctx: click.Context, *, state_dir: Path | None, cca: tuple[str, ...]) -> None:
    """Make the agent accept serials that are older than those it has seen.

    The agent refuses a deployment with an older serial than the highest that the registry ever offered it. This is
    right unless the registry was restored from a backup or made anew. The agent forgets at its next check, or, if it
    is not running, when it starts. Where the kernel holds a newer serial, too, `resume` clears it.

    \b
    Example:
      ccatune-agent forget --cca gr
    """
    for name in _request("forget", cca, store=_store_of(ctx, state_dir)):
        echo(f"{name}: forgetting the serials is requested; if the kernel then refuses with ESTALE, resume, too")


@click.command()
@click.option("--bpf", is_flag=True, help="Add the rights that an algorithm in BPF needs.")
def unit(*, bpf: bool) -> None:
    """Print the systemd unit that starts the agent at boot, before the network is configured.

    \b
    Examples:
      ccatune-agent unit > /etc/systemd/system/ccatune-agent.service
      ccatune-agent unit --bpf > /etc/systemd/system/ccatune-agent.service
    """
    from importlib import resources

    for name in (_UNIT, _UNIT_OF_BPF) if bpf else (_UNIT,):
        echo(resources.files("serving.agent").joinpath(name).read_text(encoding="utf-8").rstrip("\n"))


_state_option = click.option(
    "--state-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT_ENABLED_FILE,
    show_default=True,
    help="File with the previous settings.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")


def _print_done(done: list[str], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps({"done": done}))
        return
    for line in done:
        echo(line)


@click.command()
@click.argument("cca", default="gr")
@click.option("--allow-only", is_flag=True, help="Leave the default alone: only let programs choose it.")
@click.option("--via", type=click.Choice(LOAD_VIAS), default="auto", show_default=True, help=_VIA)
@_state_option
@_json_option
def enable(*, cca: str, allow_only: bool, via: LoadVia, state_file: Path, as_json: bool) -> None:
    """Make the algorithm CCA the default of new connections in this network namespace. CCA defaults to gr.

    Loads the algorithm, lets every program on this machine choose it (also in containers), and makes it the default.
    Without this, only programs with CAP_NET_ADMIN may choose it. The earlier settings are saved once, and `disable`
    restores them. Existing connections keep their algorithm.

    All of them also run in BPF, on a kernel without the modules. This needs the program ccatune-bpf. vegas runs in BPF
    only. The names of cubic, bbr, bbr3 and vegas begin with ccatune_, because the kernel may have algorithms of these
    names itself.

    \b
    Examples:
      ccatune-agent enable gr
      ccatune-agent enable gr --allow-only
      ccatune-agent enable gr --via bpf
    """
    if not _CCA_NAME.fullmatch(cca):
        raise click.UsageError(f"CCA: expected the name of an algorithm, e.g. gr, got {cca!r}")
    _print_done(Switch(state_file).enable(cca, as_default=not allow_only, via=via), as_json=as_json)


@click.command()
@_state_option
@_json_option
@click.pass_context
def disable(ctx: click.Context, *, state_file: Path, as_json: bool) -> None:
    """Restore every setting that `enable` changed, and unload what it loaded.

    The exit status is 1 if a module is still in use. The settings are then restored; run `disable` again later to
    unload the module. What was loaded in BPF is unloaded at once, and connections that use it keep it.

    \b
    Example:
      ccatune-agent disable
    """
    done, left = Switch(state_file).disable()
    _print_done([*done, left] if left else done, as_json=as_json)
    ctx.exit(1 if left else 0)


def _request(request: Request, ccas: tuple[str, ...], *, store: Store) -> Sequence[str]:
    """Leave a request for the agent, and return the algorithms. Raises StateDirError for an unknown one."""
    known = store.ccas()
    unknown = [name for name in ccas if name not in known]
    if unknown or not known:
        raise StateDirError(
            f"state folder {store.root}: expected {', '.join(unknown) or 'at least one algorithm'} in it, "
            f"it holds {', '.join(known) or 'none'}; set --state-dir to the agent's"
        )
    for name in ccas or known:
        store.leave_request(request, name)
    return ccas or known


def _state_of(store: Store, cca: str, *, running: bool) -> dict[str, Any]:
    """Return the stored report of one algorithm, with `age_s` (None if unknown) and `stale`."""
    try:
        state = store.load(cca, STATE, dict) or {}
    except DamagedFileError as error:
        state = {"cca": cca, "state": "unknown", "error": str(error)}
    age_s = store.age_s(cca, STATE, now_s=time.time())
    every_s = state.pop("confirmed_every_s", None)
    stale = isinstance(every_s, int | float) and (age_s is None or age_s > _MISSED_CONFIRMATIONS * every_s)
    return {**state, "age_s": None if age_s is None else round(age_s, 1), "stale": running and stale}


def _standing(store: Store) -> tuple[bool, list[dict[str, Any]], list[str]]:
    """Return whether the agent runs, the report of each algorithm, and what falls short."""
    running = store.is_held()
    states = [_state_of(store, cca, running=running) for cca in store.ccas()]
    return running, states, _shortfalls(states, running=running)


def _shortfalls(states: Sequence[dict[str, Any]], *, running: bool) -> list[str]:
    """Return why the exit status of `status` is 1, in words that scripts can compare; nothing where it is 0."""
    why = [] if running else ["not running"]
    why += [] if states else ["no algorithm"]
    why += [f"{state.get('cca')} {state.get('state')}" for state in states if state.get("state") not in IN_FORCE]
    return why + [f"{state.get('cca')} stale" for state in states if state["stale"]]


def _age_in_words(state: dict[str, Any]) -> str:
    if "stale" not in state:
        return ""
    age = f"{state['age_s']:.0f} s old" if state["age_s"] is not None else "of unknown age: was the clock set back?"
    return f"; stale, {age}; is the agent stopped, or the disk full?" if state["stale"] else f"; {age}"


def state_line(state: dict[str, Any]) -> str:
    """Return the line about the report of one algorithm."""
    line = (
        f"{state.get('cca')}: {state.get('state')}; offered serial {state.get('offered_serial', 0)}, "
        f"in force serial {state.get('effective_serial', 0)}{' urgent' if state.get('effective_urgent') else ''} "
        f"({state.get('effective_digest') or 'no table'})"
    )
    return visible(line + (f"; {state['error']}" if state.get("error") else "") + _age_in_words(state))
