# SPDX-License-Identifier: MIT
"""The command `ccatune rollout`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from kmod.tables import Column
from kmod.terminal import echo
from kmod.yaml12 import load_yaml
from serving.client_requests import Json
from serving.client_rollouts import ChannelRollouts
from serving.commands.documents import document_of
from serving.commands.options import FILE, connect, json_option, registry_options
from serving.commands.printing import (
    Cells,
    print_answer,
    print_filled,
    print_reasons,
    print_table,
    short_digest,
    time_in_words,
)
from serving.errors import SettingsError
from serving.rollouts.plan import JUDGE, Plan
from serving.rollouts.shadow import Shadow


def _step_of(row: Json) -> str:
    # A registry of an earlier version has no blocks.
    if row.get("block") is not None:
        return f"block {row['block']}, {row['arm']}"
    return f"{row['step']} of {row['n_steps']}"


_ROLLOUTS: Cells = {
    Column("roll-out", "right"): lambda row: str(row["id"]),
    Column("state"): lambda row: str(row["state"]),
    Column("step"): _step_of,
    Column("candidates", "right"): lambda row: f"{row['n_candidates']} of {row['n_servers']}",
    Column("table"): lambda row: short_digest(row["digest"]),
    Column("looks", "right"): lambda row: str(row["n_looks"]),
    Column("started (UTC)"): lambda row: time_in_words(row["started_at"]),
    Column("ended (UTC)"): lambda row: "" if row["ended_at"] is None else time_in_words(row["ended_at"]),
    Column("note", least=8, cut="end"): lambda row: str(row["note"]),
}
_note_option = click.option("--note", default="", help="Why, for those who read the record.")
_number_option = click.option(
    "--number", type=click.IntRange(min=1), help="Number of the roll-out.  [default: the newest of the channel]"
)


@click.group()
def rollout() -> None:
    """Move a channel to an ensemble in steps, of which each must show no harm.

    \b
    Example:
      ccatune rollout start gr champion sha256:0123... --note "trained on March"
      ccatune rollout explain gr champion
    """


@rollout.command()
@click.argument("cca")
@click.argument("name")
@click.argument("digest")
@click.option("--plan", "plan_file", type=FILE, help="Steps, limits and times (YAML).  [default: docs/rollouts.md]")
@click.option("--hold-back-permille", type=click.IntRange(0, 1000), default=0, show_default=True,
              help="Share of the candidate's flows that do not use it.")  # fmt: skip
@click.option(
    "--urgent/--no-urgent", default=False, show_default=True, help="Running flows take the candidate at once."
)
@click.option("--if-serial", type=click.IntRange(min=1), help="Only where the channel stands at this serial.")
@click.option(
    "--shadow", "shadow_file", type=FILE, help="Baseline and candidate in the simulator: `evaluate --baseline --json`."
)
@click.option("--force", default="", metavar="REASON", help="Begin although the simulator speaks against it.")
@click.option("--dry-run", is_flag=True, help="Begin nothing; judge the plan on the figures of the last two days.")
@_note_option
@registry_options
@json_option
def start(
    *, cca: str, name: str, digest: str, plan_file: Path | None, hold_back_permille: int, urgent: bool,
    if_serial: int | None, shadow_file: Path | None, force: str, dry_run: bool, note: str,
) -> None:  # fmt: skip
    """Begin to move channel NAME of algorithm CCA to the published ensemble DIGEST.

    With --dry-run each step is judged for a candidate without any effect. A step that pauses there has too few servers
    or samples for its margins.

    \b
    Example:
      ccatune rollout start gr champion sha256:0123... --dry-run
      ccatune rollout start gr champion sha256:0123... --plan careful.yaml --shadow shadow.json
    """
    plan = _plan_of(plan_file).model_dump(mode="json")
    shadow = None if shadow_file is None else _shadow_of(shadow_file)
    with connect() as client:
        whole = client.whole_digest(digest, cca=cca)
        rollouts = ChannelRollouts(client, cca, name)
        if dry_run:
            steps = rollouts.rehearse(plan)
            print_answer(steps, lambda: _print_rehearsal(steps))
            return
        begun = rollouts.start(
            whole, plan=plan, hold_back_permille=hold_back_permille, urgent=urgent, note=note, if_serial=if_serial,
            shadow=shadow, force=force,
        )  # fmt: skip
    print_answer(begun, lambda: _print_standing(begun))


@rollout.command()
@click.argument("cca")
@click.argument("name")
@registry_options
@json_option
def status(*, cca: str, name: str) -> None:
    """List the channel's roll-outs, newest first.

    \b
    Example:
      ccatune rollout status gr champion
    """
    with connect() as client:
        print_table(ChannelRollouts(client, cca, name).all(), _ROLLOUTS)


@rollout.command()
@click.argument("cca")
@click.argument("name")
@_number_option
@registry_options
@json_option
def explain(*, cca: str, name: str, number: int | None) -> None:
    """Print what was done in a roll-out and why, oldest first. With --json also the figures of each decision.

    \b
    Example:
      ccatune rollout explain gr champion
    """
    with connect() as client:
        rollouts = ChannelRollouts(client, cca, name)
        found = rollouts.find(number)
        events = list(rollouts.events(found["id"]))[::-1]
    print_answer({**found, "events": events}, lambda: _print_record(found, events))


def _add(action: str, help_text: str) -> None:
    @rollout.command(action, help=f"{help_text}\n\n\b\nExample:\n  ccatune rollout {action} gr champion")
    @click.argument("cca")
    @click.argument("name")
    @_number_option
    @_note_option
    @registry_options
    @json_option
    def change(*, cca: str, name: str, number: int | None, note: str) -> None:
        with connect() as client:
            rollouts = ChannelRollouts(client, cca, name)
            changed = rollouts.change(rollouts.find(number)["id"], action, note=note)
        print_answer(changed, lambda: _print_standing(changed))


_add("pause", "Begin no further step. The roll-out is still judged, and can abort.")
_add("resume", "Go on after a pause. The time limit of the step begins anew.")
_add("abort", "Point the whole channel back to the baseline at once, urgently.")
_add("promote", "Point the whole channel to the candidate at once, whatever the figures are.")


def _plan_of(path: Path | None) -> Plan:
    return Plan() if path is None else document_of(Plan, load_yaml(path, what="plan"), path=path)


def _shadow_of(path: Path) -> Json:
    expected = "expected what `ccatune evaluate --baseline --json` prints"
    try:
        data = json.loads(path.read_bytes())
    except ValueError as error:
        raise SettingsError(f"{path}: {expected}: {error}") from error
    return document_of(Shadow, data, path=path, expected=expected).model_dump(mode="json")


_BLOCKS = {
    "running": "It is running in block {block}: all {n_servers} servers are offered the {arm}.",
    "paused": "It is paused after block {block} until someone resumes, aborts or promotes it: all {n_servers} "
    "servers are offered the baseline.",
    "aborted": "It was aborted in block {block}. All servers are offered the baseline, and have it once `ccatune "
    "agents list` shows that they have applied it.",
    "promoted": "It was promoted after block {block}: all servers are offered the candidate.",
}
_SHARES = "{n_candidates} of {n_servers} servers are offered the candidate, the others the baseline."
_NOW = {
    "running": f"It is running in step {{step}} of {{n_steps}}: {_SHARES}",
    "paused": f"It is paused in step {{step}} of {{n_steps}} until someone resumes, aborts or promotes it: {_SHARES}",
    "aborted": "It was aborted in step {step} of {n_steps}, with the candidate on {n_candidates} of {n_servers} "
    "servers. All are offered the baseline again, and have it once `ccatune agents list` shows that they have "
    "applied it.",
    "promoted": "It was promoted after step {step} of {n_steps}: all servers are offered the candidate.",
}


def _print_standing(found: Json) -> None:
    echo(
        f"Roll-out {found['id']} of the channel {found['cca']}/{found['channel']} to the ensemble "
        f"{short_digest(found['digest'])}, the candidate"
    )
    words = _NOW if found.get("block") is None else _BLOCKS
    print_filled(words[found["state"]].format_map(found))


def _print_record(found: Json, events: Sequence[Json]) -> None:
    _print_standing(found)
    for event in events:
        by = "the registry itself" if event["actor"] == JUDGE else event["actor"]
        echo(f"\n{time_in_words(event['at'])} UTC: {event['action']}, by {by}")
        print_reasons(event["reasons"])


def _print_rehearsal(steps: Sequence[Json]) -> None:
    for step in steps:
        echo(f"step {step['step']}, {step['n_candidates']} servers: {step['action']}")
        print_reasons(step["reasons"])
