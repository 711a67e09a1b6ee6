# SPDX-License-Identifier: MIT
"""The command line `ccatune`: a table of commands, each imported when it is called.

Listing the commands imports none of them. `ccatune --help` therefore prints at once, and a machine with one extra
installed can use the commands of that extra. The exit status of every command is

    0     the requirement holds
    1     it does not hold
    2     the command could not run: its usage, its input or the set-up is wrong
    70    a fault of ccatune, with its traceback
    130   interrupted
"""

from __future__ import annotations

import errno
import importlib
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from kmod.errors import CcatuneError
from kmod.terminal import echo

EXIT_USAGE = 2
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130
# What writing to an open file ends with; such an error does not name it.
FULL_OR_BROKEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
OUR_PACKAGES = frozenset({"emulation", "experiments", "kmod", "serving", "training"})

WITH_RESUME = "what is finished is kept: run the same command with --resume to continue"
OF_WORK = "a report that has --work keeps its finished runs: run the same command again to continue"


@dataclass(frozen=True)
class LazyCommand:
    """Where a command is, without importing it.

    target: "module:attribute" of a click command. extra: the extra that its dependencies come with, or ""
    where the base installation is enough. summary: the line that `ccatune --help` shows. resumed: how the command
    goes on after Ctrl-C, if it does.
    """

    target: str
    extra: str
    summary: str
    resumed: str = ""


COMMANDS: dict[str, LazyCommand] = {
    "demo": LazyCommand("serving.commands.demo:demo", "demo", "Everything once: train, publish, apply, show the gain."),
    "traces": LazyCommand("emulation.cli:traces", "emulation", "Check, import, fit, make and show link traces."),
    "observe": LazyCommand("serving.agent.observe.command:observe", "", "Sample this server's TCP connections."),
    "simulate": LazyCommand("emulation.cli:simulate", "emulation", "Run one scenario in the simulator."),
    "emulate": LazyCommand("emulation.cli:emulate", "emulation", "Run scenarios over real links, with real TCP."),
    "pantheon": LazyCommand(
        "emulation.cli:pantheon", "emulation", "Compare schemes by Pantheon's protocol.", WITH_RESUME
    ),
    "bench": LazyCommand("emulation.cli:bench", "emulation", "Measure the simulator's speed."),
    "train": LazyCommand(
        "training.cli:train",
        "training",
        "Search an ensemble, state by state.",
        WITH_RESUME,
    ),
    "evaluate": LazyCommand(
        "training.validation.command:evaluate", "training", "Judge an ensemble on whole recordings."
    ),
    "advise": LazyCommand(
        "training.observed.advise_command:advise", "training", "Say which algorithm suits observed flows, and why."
    ),
    "report": LazyCommand(
        "training.reports.cli:report", "training", "Tables behind the claims: searches, levels.", OF_WORK
    ),
    "quickstart": LazyCommand(
        "serving.commands.quickstart:quickstart", "serving", "Set up a signed service on a new server."
    ),
    "serve": LazyCommand("serving.commands.serve:serve", "serving", "Run the registry and its API."),
    "keys": LazyCommand("serving.commands.keys:keys", "serving", "Make and show keys for signatures."),
    "sign": LazyCommand("serving.commands.keys:sign", "serving", "Sign ensembles as a publisher."),
    "root": LazyCommand("serving.commands.root:root", "serving", "Name the keys of publishers and registry."),
    "publish": LazyCommand("serving.commands.channels:publish", "serving", "Put an ensemble into the registry."),
    "ensembles": LazyCommand(
        "serving.commands.channels:ensembles", "serving", "List the registry's ensembles, or print one."
    ),
    "channels": LazyCommand(
        "serving.commands.channels:channels", "serving", "Move channels, roll them back, and list them."
    ),
    "rollout": LazyCommand("serving.commands.rollouts:rollout", "serving", "Move a channel in steps that do no harm."),
    "agents": LazyCommand("serving.commands.agents:agents", "serving", "List the agents and their last reports."),
    "observations": LazyCommand(
        "serving.commands.observations:observations", "serving", "List and get what servers observed."
    ),
    "qos": LazyCommand("serving.commands.qos:qos", "serving", "Show what the agents report of their flows."),
    "drift": LazyCommand("serving.commands.drift:drift", "serving", "Compare a channel's flows with its training."),
    "retrain": LazyCommand("serving.commands.retrain:retrain", "serving", "Train a channel anew, up to its roll-out."),
    "jobs": LazyCommand("serving.commands.jobs:jobs", "serving", "Train studies as jobs of the registry."),
    "registry": LazyCommand("serving.commands.registry:registry", "serving", "Back up the registry's database."),
    "tokens": LazyCommand("serving.commands.access:tokens", "serving", "Make, list and revoke tokens of the registry."),
    "people": LazyCommand("serving.commands.people:people", "serving", "List and change who logs in to the pages."),
    "audit": LazyCommand("serving.commands.access:audit", "serving", "List who changed what in the registry."),
}


# Subcommands of groups, where the group's package may not import the command's.
SUBCOMMANDS: dict[str, dict[str, LazyCommand]] = {
    "traces": {
        "from-flows": LazyCommand(
            "training.observed.from_flows:from_flows", "training", "Rebuild links from observed flows."
        )
    },
}


class LazyGroup(click.Group):
    """A click group that imports a command when it is called. rows: the commands; heading: of their list."""

    def __init__(self, *, rows: Mapping[str, LazyCommand], heading: str = "Commands", **given: Any) -> None:
        super().__init__(**given)
        self._rows = rows
        self._heading = heading

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table: the order in which a newcomer needs them."""
        del ctx
        return list(self._rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None for a name that the table does not have."""
        del ctx
        row = self._rows.get(cmd_name)
        return None if row is None else load(cmd_name, row)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table's summaries (click's own way would import every command)."""
        del ctx
        with formatter.section(self._heading):
            formatter.write_dl([(name, row.summary) for name, row in self._rows.items()])


def load(name: str, row: LazyCommand) -> click.Command:
    """Import a command.

    Raises click.UsageError where a dependency is not installed, naming the extra that brings it.
    """
    module_name, attribute = row.target.split(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise click.UsageError(missing_module(name, row, error)) from error
    command = getattr(module, attribute)
    if not isinstance(command, click.Command):
        message = f"{row.target}: expected a click command, got {type(command).__name__}"
        raise TypeError(message)
    if isinstance(command, click.Group):
        for added, its in SUBCOMMANDS.get(name, {}).items():
            command.add_command(LazySubcommand(added, its))
    return command


class LazySubcommand(click.Command):
    """A subcommand that is imported when it is called, or its help is shown."""

    def __init__(self, name: str, row: LazyCommand) -> None:
        super().__init__(name, short_help=row.summary)
        self._row = row

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Make the context of the imported command."""
        return load(str(self.name), self._row).make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke the imported command, to which the context belongs."""
        return ctx.command.invoke(ctx)


def missing_module(name: str, row: LazyCommand, error: ModuleNotFoundError) -> str:
    """Say what `name` lacks: a dependency, our own engine, or a package that this installation leaves out."""
    missing = error.name or str(error)
    if missing.endswith("._engine"):
        return f"{name}: expected the engine {missing}, which is not built; run `make build`"
    if missing.split(".")[0] in OUR_PACKAGES:
        return f"{name}: expected module {missing}, which this installation leaves out; install ccatune whole"
    wanted = f"ccatune[{row.extra}]" if row.extra else "ccatune"
    return f"{name}: expected module {missing}, which is not installed; run `pip install '{wanted}'`"


@click.group(cls=LazyGroup, rows=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ccatune")
def cli() -> None:
    """Learn the parameters of congestion control per network state, and apply them per epoch.

    \b
    Example:
      ccatune traces make configs/traces/cellular-4g.json --duration 600 -o made.down
      ccatune train gr
      ccatune evaluate gr.json --json
    """


def fail(message: str) -> int:
    """Print one line for the user and return the exit status."""
    # Texts of libraries may have tabs, which `echo` would print as escapes.
    echo(f"ccatune: {message}".expandtabs(4), err=True)
    return EXIT_USAGE


def _command_of(arguments: Sequence[str] | None) -> str:
    words = sys.argv[1:] if arguments is None else arguments
    return next((word for word in words if word in COMMANDS), "")


def run(arguments: Sequence[str] | None, *, group: click.Group = cli, name: str = "ccatune") -> int:
    """Run one command line of a group and return its exit status; a fault of ours is raised."""
    try:
        status = group.main(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        return EXIT_USAGE
    except click.UsageError as error:
        if error.ctx is not None:
            echo(error.ctx.get_usage(), err=True)
        return fail(error.format_message())
    except click.ClickException as error:
        return fail(error.format_message())
    except click.Abort:
        resumed = COMMANDS[command].resumed if (command := _command_of(arguments)) else ""
        fail(f"interrupted; {resumed}" if resumed else "interrupted")
        return EXIT_INTERRUPTED
    except CcatuneError as error:
        return fail(str(error))
    except OSError as error:
        if error.filename is None and error.errno not in FULL_OR_BROKEN:
            raise
        return fail(f"{error.filename or 'the output'}: cannot be used ({error.strerror or error})")
    except ModuleNotFoundError as error:
        command = _command_of(arguments)
        if not command:
            raise
        return fail(missing_module(command, COMMANDS[command], error))
    return status if isinstance(status, int) else 0


def main(arguments: Sequence[str] | None = None, *, group: click.Group = cli, name: str = "ccatune") -> NoReturn:
    """Entry point: run the command line (sys.argv by default) of a group and exit."""
    try:
        status = run(arguments, group=group, name=name)
    except Exception:  # printed whole, with a status that no result has
        echo(traceback.format_exc().rstrip(), err=True)
        status = EXIT_FAULT
    sys.exit(status)


if __name__ == "__main__":
    main()
