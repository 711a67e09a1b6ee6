# SPDX-License-Identifier: MIT
"""What an administrator does with accounts, over the API and on the page: first the hash, then one transaction."""

from __future__ import annotations

from pydantic import SecretStr
from sqlalchemy.orm import Session

from serving.access.grants import Caller
from serving.context import Context
from serving.database import PersonRow
from serving.people import service
from serving.people.passwords import Passwords, require_good
from serving.people.schemas import PersonCreate, PersonRead, PersonReset, PersonWithLink


async def create(context: Context, wanted: PersonCreate, *, by: Caller) -> PersonWithLink:
    """Make an account.

    Raises:
        PasswordRefusedError: the password is easy to guess.
        PersonExistsError, PrincipalConflictError: the name is not free.
    """
    now = context.clock()
    password_hash = await _hash(context, wanted.password, name=wanted.name)

    def make(session: Session) -> tuple[PersonRow, str | None]:
        row = service.add_person(session, wanted.name, wanted.role, password_hash=password_hash, by=by, now=now)
        return row, None if password_hash is not None else service.set_up_word(session, row, now=now)

    return _with_link(*await context.write(make))


async def reset(context: Context, name: str, wanted: PersonReset, *, by: Caller) -> PersonWithLink:
    """Let a person set the password anew. Raises as `service.reset`, and PasswordRefusedError."""
    password_hash = await _hash(context, wanted.password, name=name)
    found = await context.write(service.reset, name, password_hash=password_hash, by=by, now=context.clock())
    return _with_link(*found)


async def _hash(context: Context, password: SecretStr | None, *, name: str) -> str | None:
    if password is None:
        return None
    require_good(password.get_secret_value(), name=name)
    return await context.part(Passwords).hash(password.get_secret_value())


def _with_link(row: PersonRow, word: str | None) -> PersonWithLink:
    path = None if word is None else f"ui/set-up?word={word}"
    return PersonWithLink(**PersonRead.of(row).model_dump(), set_up_path=path)
