# SPDX-License-Identifier: MIT
"""The first token of a registry, and the check of a start that there is one.

Both need the database itself, so they need no token. There is no default token or password.
"""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.exc import IntegrityError

from serving.access import repository, service
from serving.access.grants import local_caller
from serving.access.schemas import PrincipalName
from serving.access.secret_file import new_secret_file
from serving.access.token_text import NewToken, new_token
from serving.database import Database, open_database, registry_name
from serving.errors import SettingsError
from serving.names import in_words
from serving.people import service as people
from serving.settings import ServingSettings

INIT = "init"

_log = logging.getLogger(__name__)


def check_accounts(database: Database, settings: ServingSettings) -> None:
    """Check that a registry with accounts has a principal. Warn if an open one has any.

    Raises:
        SettingsError: there is no principal, so nobody could use the API.
    """
    with database.read() as session:
        has_principal = repository.has_principal(session)
    if settings.open and has_principal:
        _log.warning(
            "open: this registry has accounts, but is served without them: who reaches it on this machine may do "
            "everything"
        )
    if not settings.open and not has_principal:
        raise SettingsError(
            f"database {database.shown_url}: expected a principal, there is none; make the first token with "
            "`ccatune serve --init`, or serve this machine alone without accounts with `ccatune serve --open`"
        )


def require_person_name(name: str) -> str:
    """Return the name of a person. Raises SettingsError where the registry does not accept it."""
    try:
        return TypeAdapter[str](PrincipalName).validate_python(name)
    except ValidationError as error:
        raise SettingsError(f"person: {in_words(error.errors()[0])}, got {name!r:.200}") from error


def make_admin_token(
    settings: ServingSettings,
    *,
    is_first: bool,
    token_file: Path | None,
    person: tuple[str, str] | None = None,
    now: datetime,
) -> tuple[NewToken, str]:
    """Make the schema if necessary, and a token with all rights. Return the token and the registry's name.

    is_first: refuse if there is a principal already. token_file: a new file for the token, mode 0600.
    person: name and hash of the password of a person with the role admin, who is made or gets this password anew.

    Raises:
        SettingsError: there is a principal already, the file exists, or it cannot be written.
        PrincipalConflictError: the person's name is that of an agent or a build system, or is disabled.
        DatabaseError: the database cannot be opened.
    """
    new = new_token()
    database = open_database(settings)
    try:
        registry = registry_name(database, wanted=settings.registry, now=now)
        # The file is complete before the commit, so the token of a committed row is never lost.
        with new_secret_file(token_file) as write, database.write() as session:
            write(new.text)
            if is_first and repository.has_principal(session):
                raise _exists(database)
            service.create_admin_token(session, new, by=local_caller(INIT), now=now)
            if person is not None:
                people.make_admin(session, *person, by=local_caller(INIT), now=now)
    except IntegrityError as error:
        raise _exists(database) from error
    finally:
        database.close()
    return new, registry


def _exists(database: Database) -> SettingsError:
    return SettingsError(
        f"database {database.shown_url}: expected no principal yet, there is one; make further tokens with "
        "`ccatune tokens create`, or, if all tokens are lost, one with all rights "
        "with `ccatune serve --init --again`"
    )
