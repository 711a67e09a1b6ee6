# SPDX-License-Identifier: MIT
"""The commands `ccatune tokens` and `ccatune audit`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from kmod.tables import Column
from kmod.terminal import echo
from serving.access.grants import SCOPES, Scope
from serving.access.secret_file import new_secret_file
from serving.commands.options import FILE, connect, json_option, registry_options, seconds_of
from serving.commands.printing import Cells, print_answer, print_facts, print_table, short_digest, time_in_words

Json = dict[str, Any]

_KINDS = ("human", "agent", "ci")
AGENT_SCOPES: tuple[Scope, ...] = ("read", "report")
AGENT_LIFETIME_S = 90 * 86_400
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def _validity(row: Json) -> str:
    if row["state"] != "active":
        return str(row["state"])
    return f"to {time_in_words(row['expires_at'], to='days')}" if row["expires_at"] else "for ever"


def _limits(row: Json) -> str:
    named = [*(row["ccas"] or []), *(row["channels"] or []), *filter(None, [row["agent_id"]])]
    return " ".join(named)


def _action(row: Json) -> str:
    """Return e.g. `create` for `create-token`: the target begins with the word `token`."""
    return str(row["action"]).removesuffix("-" + str(row["target"]).partition(" ")[0])


def _details(details: Json) -> str:
    # The serial stands first, because the end may be cut.
    ordered = sorted(details.items(), key=lambda item: item[0] != "serial")
    said = {name: value for name, value in ordered if value not in (None, "", False, 0)}
    words = (" ".join(map(str, value)) if isinstance(value, list) else value for value in said.values())
    text = ", ".join(f"{name.replace('_', ' ')} {word}" for name, word in zip(said, words, strict=True))
    return _DIGEST.sub(lambda found: short_digest(found[0]), text)


_TOKENS: Cells = {
    Column("id"): lambda row: str(row["id"]),
    Column("of", least=8): lambda row: str(row["principal"]),
    Column("kind"): lambda row: str(row["kind"]),
    Column("valid"): _validity,
    Column("used (UTC)"): lambda row: time_in_words(row["last_used_at"], to="days") or "never",
    Column("scopes", least=9, cut="end"): lambda row: " ".join(row["scopes"]),
    Column("only for", least=8, cut="end"): _limits,
}
_AUDIT: Cells = {
    Column("when (UTC)"): lambda row: time_in_words(row["at"], to="seconds"),
    Column("by", least=9): lambda row: str(row["actor"]),
    Column("action"): _action,
    Column("target", least=22, cut="end"): lambda row: _DIGEST.sub(
        lambda found: short_digest(found[0]), str(row["target"])
    ),
    Column("details", least=10, cut="end"): lambda row: _details(row["details"]),
}


class Lifetime(click.ParamType[int]):
    """A time such as 90d, 12h, 30m or 45s in seconds, or `never`, which is None."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds, or -1 for never: click replaces None by the default."""
        if value == "never":
            return -1
        found = seconds_of(str(value))
        if found is None:
            self.fail(f"expected a time such as 90d, 12h or 30m, or never, got {value!r}", param, ctx)
        return found


@click.group()
def tokens() -> None:
    """Make, list and revoke tokens. This needs a token with the scope admin.

    \b
    Example:
      export CCATUNE_TOKEN_FILE=admin.token
      ccatune tokens create web-1 --kind agent --out web-1.token
      ccatune tokens list
      ccatune tokens revoke 0123456789abcdef
    """


@tokens.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(_KINDS), help="What NAME is; needed for a new one.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    help="May be repeated.  [default of an agent: read and report]",
)
@click.option("--cca", "ccas", multiple=True, help="Only this algorithm; may be repeated.")
@click.option("--channel", "channels", multiple=True, help="Only this channel; may be repeated.")
@click.option(
    "--agent-id", help="Only reports of this agent, and only it in the list of agents.  [default of an agent: NAME]"
)
@click.option(
    "--expires",
    "lifetime_s",
    type=Lifetime(),
    help="After e.g. 90d, 12h or 30m; or never.  [default of an agent: 90d]",
)
@click.option(
    "--out",
    type=FILE,
    help="Write the token to this new file, with mode 0600, instead of printing it.",
)
@registry_options
@json_option
def create(
    *,
    name: str,
    kind: str | None,
    scopes: tuple[str, ...],
    ccas: tuple[str, ...],
    channels: tuple[str, ...],
    agent_id: str | None,
    lifetime_s: int | None,
    out: Path | None,
) -> None:
    """Make a token for NAME, a person, an agent or a build system. It is shown once.

    \b
    Example:
      ccatune tokens create web-1 --kind agent --out web-1.token
      ccatune tokens create builds --kind ci --scope publish --scope move --cca gr --channel canary --expires 30d
    """
    if kind == "agent":
        scopes = scopes or AGENT_SCOPES
        lifetime_s = AGENT_LIFETIME_S if lifetime_s is None else lifetime_s
        agent_id = name if agent_id is None and "admin" not in scopes else agent_id
    if not scopes or lifetime_s is None:
        raise click.UsageError(
            f"{'--expires' if scopes else '--scope'}: expected it for all but agents (--kind agent), got none"
        )
    with connect() as client, new_secret_file(out) as write:
        made = client.create_token(
            name,
            kind=kind,
            scopes=list(scopes),
            ccas=list(ccas) or None,
            channels=list(channels) or None,
            agent_id=agent_id,
            lifetime_s=None if lifetime_s < 0 else lifetime_s,
        )
        if out is not None:
            try:
                write(made.pop("token"))
            except BaseException:
                # Nobody has the token, so it must not stay valid.
                client.revoke_token(made["id"])
                raise
            made["file"] = str(out)
    print_facts(made, shown={name: value for name, value in made.items() if value is not None}, whole="token")


@tokens.command("list")
@click.option("--principal", help="Only tokens of this principal.")
@registry_options
@json_option
def list_tokens(*, principal: str | None) -> None:
    """List the tokens without their texts, newest first.

    \b
    Example:
      ccatune tokens list --principal web-1
    """
    with connect() as client:
        rows = list(client.tokens(principal=principal))
    print_table(rows, _TOKENS)


@tokens.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--principal", help="All tokens of this principal, which is then disabled.")
@registry_options
@json_option
def revoke(*, ids: tuple[str, ...], principal: str | None) -> None:
    """Revoke tokens, for ever. `ccatune tokens list` shows their ids.

    \b
    Example:
      ccatune tokens revoke 0123456789abcdef
      ccatune tokens revoke --principal alice
    """
    if bool(ids) == (principal is not None):
        raise click.UsageError("expected either ids of tokens or --principal")
    with connect() as client:
        if principal is not None:
            print_facts(client.disable_principal(principal))
            return
        revoked = [client.revoke_token(one) for one in ids]
    lines = "\n".join(f"revoked {one['id']} of {one['principal']}" for one in revoked)
    print_answer(revoked, lambda: echo(lines))


@click.command()
@click.option("--actor", help="Only changes by this principal.")
@click.option("--action", help="Only this kind of change, as in --json, such as move or create-token.")
@click.option("--target", help="Only changes of this, such as 'channel gr/champion'.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Entries, at most.")
@registry_options
@json_option
def audit(*, actor: str | None, action: str | None, target: str | None, limit: int) -> None:
    """List the changes, newest first, each with who made it. This needs a token with the scope admin.

    \b
    Example:
      ccatune audit --actor alice
      ccatune audit --target "channel gr/champion" --limit 10
    """
    with connect() as client:
        rows = client.audit(actor=actor, action=action, target=target, limit=limit)
    print_table(rows, _AUDIT)
