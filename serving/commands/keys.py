# SPDX-License-Identifier: MIT
"""The commands `ccatune keys` and `ccatune sign` (docs/signatures.md). `ccatune root` is in root.py."""

from __future__ import annotations

from pathlib import Path

import click

from kmod.ensemble import Ensemble
from kmod.terminal import echo
from serving.commands.key_files import load_key, make_key, new_passphrase, passphrase_option, public_key, public_path
from serving.commands.options import FILE, json_option
from serving.commands.printing import print_answer, print_facts
from serving.commands.signed_files import read_signature, signature_path, write_envelope
from serving.signatures import EnsembleStatement, sign_ensemble


@click.group()
def keys() -> None:
    """Make and show Ed25519 keys for signatures.

    \b
    Example:
      ccatune keys new publisher.pem --ask-passphrase
      ccatune keys show publisher.pem.pub
    """


@keys.command()
@click.argument("file", type=FILE)
@click.option(
    "--passphrase-file", metavar="FILE", help="File whose first line is the passphrase; - reads standard input."
)
@click.option("--ask-passphrase", is_flag=True, help="Ask for a passphrase on the terminal.")
@json_option
def new(*, file: Path, passphrase_file: str | None, ask_passphrase: bool) -> None:
    """Make a private key FILE, and its public key FILE.pub. Files that exist are not replaced.

    With a passphrase the private key is encrypted. The registry's own key needs none, because the registry starts
    without a person.

    \b
    Example:
      ccatune keys new publisher.pem --ask-passphrase
      ccatune keys new registry.pem
    """
    if ask_passphrase and passphrase_file is not None:
        raise click.UsageError("--ask-passphrase, --passphrase-file: expected one of them")
    passphrase = new_passphrase(passphrase_file, is_asked=ask_passphrase)
    made = make_key(file, passphrase=passphrase)
    facts = {
        "file": str(file),
        "public_file": str(public_path(file)),
        "id": made.public.key_id,
        "public": made.public.text,
        "encrypted": passphrase is not None,
    }
    print_facts(facts)


@keys.command()
@click.argument("key_word", metavar="KEY")
@passphrase_option
@json_option
def show(*, key_word: str, passphrase_file: str | None) -> None:
    """Show a key's id and public key. KEY is a file of `ccatune keys new`, or a public key in base64.

    \b
    Example:
      ccatune keys show publisher.pem.pub
    """
    found = public_key(key_word, passphrase_file=passphrase_file)
    print_facts({"id": found.key_id, "public": found.text})


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option(
    "--key",
    "key_files",
    multiple=True,
    required=True,
    type=FILE,
    help="Private key of a publisher; may be repeated.",
)
@passphrase_option
@json_option
def sign(*, files: tuple[Path, ...], key_files: tuple[Path, ...], passphrase_file: str | None) -> None:
    """Sign ensembles as a publisher. The signatures of FILE are in FILE.sig, which `ccatune publish` sends, too.

    Further keys add their signatures to a FILE.sig of the same ensemble.

    \b
    Example:
      ccatune sign gr.json --key publisher.pem
    """
    # All files are read before the first one is written, so that a mistake changes none.
    ensembles = [Ensemble.load(path) for path in files]
    existing = [read_signature(path, ensemble) for path, ensemble in zip(files, ensembles, strict=True)]
    keys = [load_key(path, passphrase_file=passphrase_file) for path in key_files]
    results = []
    for path, ensemble, before in zip(files, ensembles, existing, strict=True):
        statement = EnsembleStatement(ensemble.cca, ensemble.digest)
        envelope = sign_ensemble(statement, keys) if before is None else before.with_signatures(keys)
        write_envelope(signature_path(path), envelope)
        results.append(
            {
                "file": str(signature_path(path)),
                "digest": ensemble.digest,
                "signed_by": sorted({one.public.key_id for one in keys}),
                "key_ids": sorted(envelope.signatures),
            }
        )
    lines = [f"{one['file']}: signed {one['digest']} with {', '.join(one['signed_by'])}" for one in results]
    print_answer(results, lambda: echo("\n".join(lines)))
