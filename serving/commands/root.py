# SPDX-License-Identifier: MIT
"""The command `ccatune root`: makes, signs, shows and publishes root documents (docs/signatures.md)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from kmod.tables import Column
from kmod.terminal import counted, echo
from serving.commands.key_files import load_key, passphrase_option, public_key
from serving.commands.options import FILE, connect, json_option, registry_options
from serving.commands.printing import Cells, print_answer, print_facts, print_table, short_digest, yes_or_no
from serving.commands.root_documents import first_root, next_root, require_previous, require_signed, status_of
from serving.commands.signed_files import read_root, write_envelope, write_new_envelope
from serving.signatures import ROLES, Envelope, PublicKey, RoleName, Root, SignatureError
from serving.signatures.root import ROOT_TYPE

Json = dict[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])

_DURATION = re.compile(r"([1-9][0-9]{0,5})([hd])")
_COUNT = re.compile(r"[1-9][0-9]?")
_SECONDS = {"h": 3600, "d": 86_400}
_MAX_VALIDITY_S = 20 * 365 * 86_400

_KEYS: Cells = {
    Column("role"): lambda row: str(row["role"]),
    Column("key"): lambda row: short_digest(row["key_id"]),
    Column("public key", least=12): lambda row: str(row["public"]),
    Column("signed"): lambda row: "" if row["signed"] is None else yes_or_no(row["signed"]),
}

_document_argument = click.argument("document", type=FILE)
_out_option = click.option("-o", "--out", type=FILE, required=True, help="The new document's file.")
_previous_option = click.option("--previous", type=FILE, help="The document of the version before.")


def _expiry(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Return the time in seconds since 1970: `365d` or `12h` from now, or `2027-11-26T00:00:00Z`."""
    now_s = int(time.time())
    if found := _DURATION.fullmatch(value):
        expires_s = now_s + int(found[1]) * _SECONDS[found[2]]
    else:
        try:
            expires_s = int(datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())
        except ValueError as error:
            raise click.BadParameter(
                f"expected such as 365d, 12h or 2027-11-26T00:00:00Z, got {value!r:.100}", ctx, param
            ) from error
    if not now_s < expires_s <= now_s + _MAX_VALIDITY_S:
        raise click.BadParameter(f"expected a time within the next 20 years, got {value!r:.100}", ctx, param)
    return expires_s


def _thresholds(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[RoleName, int]:
    found: dict[RoleName, int] = {}
    for value in values:
        name, _, number = value.partition("=")
        role = next((one for one in ROLES if one == name), None)
        if role is None or role in found or not _COUNT.fullmatch(number):
            expected = f"each role once, such as publisher=2 (roles {', '.join(ROLES)})"
            raise click.BadParameter(f"expected {expected}, got {value!r:.100}", ctx, param)
        found[role] = int(number)
    return found


_expires_option = click.option(
    "--expires",
    callback=_expiry,
    default="365d",
    show_default=True,
    help="Such as 365d, 12h or 2027-11-26T00:00:00Z.",
)
_threshold_option = click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    callback=_thresholds,
    metavar="ROLE=N",
    help="How many keys of a role must sign.",
)


def _keys_option(option: str, name: str, text: str) -> Callable[[Command], Command]:
    return click.option(option, name, multiple=True, metavar="KEY", help=text)


@click.group()
def root() -> None:
    """Make, sign, show and publish root documents, which name the keys of each role.

    \b
    Example:
      ccatune root make --registry-name lab --root alice.pem.pub --publisher bob.pem.pub \\
        --registry-key registry.pem.pub -o root.json
      ccatune root sign root.json --key alice.pem
      ccatune root publish root.json
    """


@root.command()
@click.option("--registry-name", "registry", required=True, help="Name of the registry.")
@_keys_option("--root", "roots", "Key that signs root documents; may be repeated.")
@_keys_option("--publisher", "publishers", "Key that signs ensembles; may be repeated.")
@_keys_option("--registry-key", "registry_keys", "Key with which the registry signs deployments; may be repeated.")
@_threshold_option
@_expires_option
@_out_option
@json_option
def make(
    *,
    registry: str,
    roots: tuple[str, ...],
    publishers: tuple[str, ...],
    registry_keys: tuple[str, ...],
    thresholds: dict[RoleName, int],
    expires: int,
    out: Path,
) -> None:
    """Make version 1 of a registry's root document, without signatures.

    A KEY is a public key in base64, a file FILE.pub of `ccatune keys new`, or a private key's file, of which only the
    public part is used. A threshold is 1 where --threshold does not name the role.

    \b
    Example:
      ccatune root make --registry-name lab --root a.pem.pub --root b.pem.pub --root c.pem.pub --threshold root=2 \\
        --publisher bob.pem.pub --registry-key registry.pem.pub --expires 365d -o root.json
    """
    keys: dict[RoleName, list[PublicKey]] = {
        "root": _public_keys(roots),
        "publisher": _public_keys(publishers),
        "registry": _public_keys(registry_keys),
    }
    for name, its in keys.items():
        if len(its) < (threshold := thresholds.get(name, 1)):
            echo(f"warning: role {name} has {counted(len(its), 'key')} of {threshold} that must sign; agents with this "
                 "document accept nothing until a next version has them (ccatune root next)", err=True)  # fmt: skip
    made = first_root(registry, keys, thresholds=thresholds, expires_s=expires)
    _write_new(out, made, previous=None)


@root.command("next")
@_document_argument
@_keys_option("--add-root", "add_roots", "New root key; may be repeated, as the options below.")
@_keys_option("--add-publisher", "add_publishers", "New publisher's key.")
@_keys_option("--add-registry-key", "add_registry_keys", "New key of the registry.")
@click.option("--remove-root", "remove_roots", multiple=True, metavar="ID", help="Root key to remove.")
@click.option("--remove-publisher", "remove_publishers", multiple=True, metavar="ID", help="Publisher's key to remove.")
@click.option(
    "--remove-registry-key", "remove_registry_keys", multiple=True, metavar="ID", help="Registry's key to remove."
)
@_threshold_option
@_expires_option
@_out_option
@json_option
def next_(
    *,
    document: Path,
    add_roots: tuple[str, ...],
    add_publishers: tuple[str, ...],
    add_registry_keys: tuple[str, ...],
    remove_roots: tuple[str, ...],
    remove_publishers: tuple[str, ...],
    remove_registry_keys: tuple[str, ...],
    thresholds: dict[RoleName, int],
    expires: int,
    out: Path,
) -> None:
    """Make the version after DOCUMENT, without signatures. The options change keys and thresholds; the others stay.

    A KEY is as in `ccatune root make`. An ID is the beginning of a key's id, at least 8 digits.

    \b
    Example:
      ccatune root next root.json --add-publisher carol.pem.pub --remove-publisher 3f9a01c2 -o root-2.json
    """
    _, envelope = read_root(document)
    old = require_signed(envelope)
    made = next_root(
        old,
        added={
            "root": _public_keys(add_roots),
            "publisher": _public_keys(add_publishers),
            "registry": _public_keys(add_registry_keys),
        },
        removed={"root": remove_roots, "publisher": remove_publishers, "registry": remove_registry_keys},
        thresholds=thresholds,
        expires_s=expires,
    )
    _write_new(out, made, previous=old)


@root.command()
@_document_argument
@click.option("--key", "key_files", multiple=True, required=True, type=FILE, help="Private root key; may be repeated.")
@_previous_option
@passphrase_option
@json_option
def sign(*, document: Path, key_files: tuple[Path, ...], previous: Path | None, passphrase_file: str | None) -> None:
    """Add the signatures of root keys to DOCUMENT. Each owner of a root key does this on a machine of their own.

    From version 2 on, enough root keys of the version before must sign, too. Name it with --previous to sign with a key
    that DOCUMENT removes.

    \b
    Example:
      ccatune root sign root.json --key alice.pem
      ccatune root sign root-2.json --key alice.pem --previous root.json
    """
    content, envelope = read_root(document)
    before = _previous(previous, content)
    keys = [load_key(path, passphrase_file=passphrase_file) for path in key_files]
    allowed = content.keys_of("root").keys() | (before.keys_of("root").keys() if before else set())
    for path, key in zip(key_files, keys, strict=True):
        if key.public.key_id not in allowed:
            raise SignatureError(
                f"key {path}: expected a root key of {document}, got {key.public.key_id[:16]}; name the version before "
                "with --previous if it is a root key of that one"
            )
    envelope = envelope.with_signatures(keys)
    write_envelope(document, envelope)
    _print_status(content, envelope, previous=before)


@root.command()
@_document_argument
@_previous_option
@json_option
def show(*, document: Path, previous: Path | None) -> None:
    """Show DOCUMENT: its keys, which of them have signed it, and whether these signatures are enough.

    \b
    Example:
      ccatune root show root.json
      ccatune root show root-2.json --previous root.json
    """
    content, envelope = read_root(document)
    _print_status(content, envelope, previous=_previous(previous, content))


@root.command()
@_document_argument
@registry_options
@json_option
def publish(*, document: Path) -> None:
    """Upload DOCUMENT to its registry. Agents fetch it from there.

    \b
    Example:
      ccatune root publish root.json
    """
    _, envelope = read_root(document)
    require_signed(envelope)
    with connect() as client:
        answer = client.publish_root(envelope)
    state = "published" if answer["created"] else "published before"
    line = f"{document}: {state} as version {answer['version']} of {answer['registry']}"
    print_answer(answer, lambda: echo(line))


@root.command()
@click.option("--version", type=click.IntRange(min=1), help="Version of the document.  [default: the newest]")
@_out_option
@registry_options
@json_option
def fetch(*, version: int | None, out: Path) -> None:
    """Write a root document of the registry to a file.

    Use it to make the next version. Compare the ids of its root keys with those that their owners know, before you give
    it to an agent.

    \b
    Example:
      ccatune root fetch --version 1 -o root.json
    """
    with connect() as client:
        envelope = client.root(version)
    content = require_signed(envelope)
    write_new_envelope(out, envelope)
    _print_status(content, envelope, previous=None)


def _public_keys(words: tuple[str, ...]) -> list[PublicKey]:
    return [public_key(word) for word in words]


def _previous(path: Path | None, content: Root) -> Root | None:
    if path is None:
        return None
    _, envelope = read_root(path)
    before = require_signed(envelope)
    require_previous(content, before)
    return before


def _write_new(out: Path, made: Root, *, previous: Root | None) -> None:
    envelope = Envelope(ROOT_TYPE, made.to_payload(), {})
    write_new_envelope(out, envelope)
    _print_status(made, envelope, previous=previous)


def _print_status(content: Root, envelope: Envelope, *, previous: Root | None) -> None:
    status = status_of(content, envelope, previous=previous, now_s=time.time())
    print_answer(status, lambda: _status_in_words(status, has_previous=previous is not None))


def _status_in_words(status: Json, *, has_previous: bool) -> None:
    facts = {name: status[name] for name in ("registry", "version")}
    facts["expires"] = f"{status['expires']}{' (expired)' if status['is_expired'] else ''}"
    facts |= {f"{name} keys": _of_role(status, name) for name in ROLES}
    for need in status["needs"]:
        enough = "enough" if need["is_met"] else "not enough"
        facts[f"signed by v{need['version']}"] = (
            f"{len(need['key_ids'])} of {need['needed']} needed root keys: {enough}"
        )
    if status["version"] > 1 and not has_previous:
        facts[f"signed by v{status['version'] - 1}"] = "unknown; name this version with --previous"
    print_facts(facts)
    print_table(status["keys"], _KEYS)


def _of_role(status: Json, name: RoleName) -> str:
    n_keys = sum(row["role"] == name for row in status["keys"])
    return f"{status['thresholds'][name]} of {n_keys} must sign"
