# SPDX-License-Identifier: MIT
"""The command `ccatune retrain`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import click

from kmod.tables import Column
from kmod.terminal import echo
from kmod.yaml12 import load_yaml
from serving.client_requests import Json
from serving.client_retraining import ChannelRetraining, Step
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
from serving.retraining import ACTOR

_RETRAININGS: Cells = {
    Column("retraining", "right"): lambda row: str(row["id"]),
    Column("state"): lambda row: str(row["state"]),
    Column("job", "right"): lambda row: str(row["job_id"] or ""),
    Column("table"): lambda row: short_digest(row["candidate"]),
    Column("roll-out", "right"): lambda row: str(row["rollout_id"] or ""),
    Column("by", least=8): lambda row: str(row["started_by"]),
    Column("started (UTC)"): lambda row: time_in_words(row["started_at"]),
    Column("ended (UTC)"): lambda row: time_in_words(row["ended_at"]),
    Column("reason", least=12, cut="end"): lambda row: str(row["reasons"][0]),
}
_note_option = click.option("--note", default="", help="Why, for those who read the record.")
_number_option = click.option(
    "--number", type=click.IntRange(min=1), help="Number of the retraining.  [default: the newest of the channel]"
)


@click.group()
def retrain() -> None:
    """Train a channel's ensemble anew when its flows drift, and roll the new one out.

    Each step waits for a person, unless the channel's policy is automatic.

    \b
    Example:
      ccatune retrain set gr champion --policy retraining.yaml
      ccatune retrain show gr champion
      ccatune retrain approve gr champion training --note "recordings of May are there"
    """


@retrain.command("set")
@click.argument("cca")
@click.argument("name")
@click.option("--policy", "policy_file", type=FILE, required=True, help="Study, datasets, plan (YAML).")
@click.option("--automatic/--by-hand", default=None, help="Instead of `automatic` of the file.")
@registry_options
@json_option
def set_policy(*, cca: str, name: str, policy_file: Path, automatic: bool | None) -> None:
    """Set how channel NAME of algorithm CCA is trained anew. docs/retraining.md shows the file.

    This needs the scope roll-out, and for an automatic policy the scope train, too.

    \b
    Example:
      ccatune retrain set gr champion --policy retraining.yaml
      ccatune retrain set gr champion --policy retraining.yaml --automatic
    """
    policy = _policy_of(policy_file, automatic=automatic)
    with connect() as client:
        found = ChannelRetraining(client, cca, name).set_policy(policy)
    print_answer(found, lambda: _print_policy(found))


@retrain.command()
@click.argument("cca")
@click.argument("name")
@registry_options
@json_option
def show(*, cca: str, name: str) -> None:
    """Show the policy, where the newest retraining stands and why, and what to do next.

    \b
    Example:
      ccatune retrain show gr champion
    """
    with connect() as client:
        channel = ChannelRetraining(client, cca, name)
        policy, newest = channel.policy(), channel.newest()

    def print_all() -> None:
        _print_policy(policy)
        if newest is None:
            echo("It never had a retraining. One is proposed when its flows drift.")
        else:
            echo("")
            _print_standing(newest, automatic=policy["automatic"])
            _print_rest(newest["ended_at"], rest_hours=policy["rest_hours"])

    print_answer({"policy": policy, "newest": newest}, print_all)


@retrain.command()
@click.argument("cca")
@click.argument("name")
@registry_options
@json_option
def remove(*, cca: str, name: str) -> None:
    """Remove the policy, so that nothing is proposed any more. Retrainings that have ended stay in the list.

    \b
    Example:
      ccatune retrain remove gr champion
    """
    with connect() as client:
        ChannelRetraining(client, cca, name).remove_policy()
    print_answer({"removed": f"{cca}/{name}"}, lambda: echo(f"{cca}/{name}: the policy is removed"))


@retrain.command()
@click.argument("cca")
@click.argument("name")
@_note_option
@registry_options
@json_option
def start(*, cca: str, name: str, note: str) -> None:
    """Begin a retraining without a drift. Its training is queued at once. This needs the scope train.

    \b
    Example:
      ccatune retrain start gr champion --note "new uplink"
    """
    with connect() as client:
        found = ChannelRetraining(client, cca, name).start(note=note)
    print_answer(found, lambda: _print_standing(found))


@retrain.command("list")
@click.argument("cca")
@click.argument("name")
@registry_options
@json_option
def list_retrainings(*, cca: str, name: str) -> None:
    """List the channel's retrainings, newest first.

    \b
    Example:
      ccatune retrain list gr champion
    """
    with connect() as client:
        print_table(ChannelRetraining(client, cca, name).all(), _RETRAININGS)


@retrain.command()
@click.argument("cca")
@click.argument("name")
@click.argument("step", type=click.Choice(["training", "roll-out"]))
@click.option("--force", default="", metavar="REASON", help="Begin the roll-out although there are objections.")
@_number_option
@_note_option
@registry_options
@json_option
def approve(*, cca: str, name: str, step: str, force: str, number: int | None, note: str) -> None:
    """Approve STEP, which begins at once: the training (scope train) or the roll-out (scope roll-out).

    \b
    Example:
      ccatune retrain approve gr champion training
      ccatune retrain approve gr champion roll-out --force "the path model is older than the uplink"
    """
    if force and step == "training":
        raise click.UsageError("--force: expected it with roll-out")
    with connect() as client:
        channel = ChannelRetraining(client, cca, name)
        found = channel.approve(channel.find(number)["id"], cast("Step", step), note=note, force=force)
    print_answer(found, lambda: _print_standing(found))


@retrain.command()
@click.argument("cca")
@click.argument("name")
@_number_option
@_note_option
@registry_options
@json_option
def dismiss(*, cca: str, name: str, number: int | None, note: str) -> None:
    """End a retraining before its roll-out, and cancel its job. This needs the scope train.

    \b
    Example:
      ccatune retrain dismiss gr champion --note "one day of maintenance"
    """
    with connect() as client:
        channel = ChannelRetraining(client, cca, name)
        found = channel.dismiss(channel.find(number)["id"], note=note)
    print_answer(found, lambda: _print_standing(found))


def _policy_of(path: Path, *, automatic: bool | None) -> Json:
    # This import loads the database. The help needs none.
    from serving.retraining.schemas import RetrainingPolicy

    data = load_yaml(path, what="policy")
    if isinstance(data, dict) and automatic is not None:
        data["automatic"] = automatic
    return document_of(RetrainingPolicy, data, path=path).model_dump(mode="json")


_STANDING = {
    "proposed": "A training is proposed. Approved, a job trains and compares; no server changes before the roll-out.",
    "training": "Job {job_id} trains a new ensemble and compares it with the baseline.",
    "trained": "The ensemble {candidate} is trained. Approved, a roll-out gives it to servers, step by step.",
    "rolling-out": "Roll-out {rollout_id} moves the channel to the ensemble {candidate}.",
}
_BY_ITSELF = {
    "proposed": "The policy is automatic, so the training begins with the next round.",
    "trained": "The policy is automatic, so the roll-out begins with the next round.",
}
_NEXT = {
    "proposed": ["ccatune retrain approve {cca} {channel} training", "ccatune retrain dismiss {cca} {channel}"],
    "training": ["ccatune jobs show {job_id} --watch"],
    "trained": ["ccatune retrain approve {cca} {channel} roll-out", "ccatune retrain dismiss {cca} {channel}"],
    "rolling-out": ["ccatune rollout explain {cca} {channel}"],
    "failed": ["ccatune jobs logs {job_id}"],
    "aborted": ["ccatune rollout explain {cca} {channel} --number {rollout_id}"],
}


def _print_policy(policy: Json) -> None:
    compare = policy["compare"]
    by = "the registry does this by itself" if policy["automatic"] else "training and roll-out each wait for a person"
    over = f" with the path model {compare['paths']}" if compare["paths"] else ""
    trained = f" on {' '.join(policy['datasets'])}" if policy["datasets"] else ""
    print_filled(
        f"Policy of {policy['cca']}/{policy['channel']}: when its flows drift, train {policy['study']}{trained}, "
        f"compare both ensembles on {' '.join(compare['datasets'])}{over}, and roll out by a plan of "
        f"{len(policy['plan']['steps'])} steps; {by}."
    )


def _print_rest(ended_at: str | None, *, rest_hours: float) -> None:
    """Say until when a drift proposes no retraining. ended_at: of the newest one; None before its end."""
    if ended_at is None:
        return
    until = datetime.fromisoformat(ended_at) + timedelta(hours=rest_hours)
    if until > datetime.now(tz=UTC):
        print_filled(
            f"Until {time_in_words(until.isoformat())} UTC no retraining is proposed, even if the flows drift: the "
            f"policy rests for {rest_hours:g} hours after each one (rest_hours). `ccatune retrain start` does not wait."
        )


def _print_standing(found: Json, *, automatic: bool = False) -> None:
    state = found["state"]
    said = {**found, "candidate": short_digest(found["candidate"])}
    who = "the registry itself" if found["started_by"] == ACTOR else found["started_by"]
    began = f"{time_in_words(found['started_at'])} UTC by {who}"
    echo(f"Retraining {found['id']} of {found['cca']}/{found['channel']}: {state}")
    echo(f"Begun {began}")
    print_reasons(found["reasons"])
    if found["ended_at"] is not None:
        print_filled(f"It ended {time_in_words(found['ended_at'])} UTC as {state}. {found['outcome']}")
    else:
        print_filled(_STANDING[state].format_map(said))
    is_by_itself = automatic and not found["objections"] and state in _BY_ITSELF
    if found["objections"] and state == "trained":
        echo("Objections, against which a roll-out needs a person and a reason:")
        print_reasons(found["objections"])
    if found["obstacle"]:
        print_filled(f"The next step could not be done yet, and is tried again: {found['obstacle']}")
    elif is_by_itself:
        print_filled(_BY_ITSELF[state])
    force = ' --force "REASON"' if found["objections"] and state == "trained" else ""
    for number, line in enumerate(() if is_by_itself else _NEXT.get(state, ())):
        echo(f"{'next:' if number == 0 else 'or:  '} {line.format_map(said)}{force if number == 0 else ''}")
