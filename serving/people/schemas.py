# SPDX-License-Identifier: MIT
"""API schemas of people, and the fields of forms about them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field, SecretStr

from serving.access.grants import Role
from serving.access.schemas import PrincipalName
from serving.database import PASSKEY_NAME_CHARS, PersonRow
from serving.names import PlainText
from serving.schemas import Schema, StrictSchema

_ROLE = "What it permits: `viewer`, `operator` or `admin`."

PasskeyName = Annotated[PlainText, Field(min_length=1, max_length=PASSKEY_NAME_CHARS)]


class PasskeyForm(BaseModel):
    """The name of a passkey."""

    name: PasskeyName


class PersonReset(StrictSchema):
    """How the person of a new or reset account sets its password."""

    password: SecretStr | None = Field(
        default=None,
        description="A password that serves only to choose another one at the first log-in. Without it, the answer has "
        "a set-up link.",
    )


class PersonCreate(PersonReset):
    """A request for an account."""

    name: PrincipalName
    role: Role = Field(description=_ROLE, examples=["operator"])


class RoleChange(StrictSchema):
    """Another role of a person."""

    role: Role = Field(description=_ROLE, examples=["viewer"])


class PersonRead(Schema):
    """A person."""

    name: str = Field(description="The name, which is that of a principal of kind `human`.", examples=["alice"])
    role: Role = Field(description=_ROLE, examples=["operator"])
    by_provider: bool = Field(description="Whether the person logs in by the provider of OpenID Connect.")
    is_set_up: bool = Field(description="Whether the person has logged in, or has chosen a password.")
    created_at: datetime = Field(description="When the account was made (UTC).")
    logged_in_at: datetime | None = Field(description="When the person last logged in (UTC); null for never.")
    disabled_at: datetime | None = Field(
        description="When the person was disabled (UTC); null if not.", examples=[None]
    )

    @classmethod
    def of(cls, row: PersonRow) -> PersonRead:
        """Build it from the row. The row's principal must be loaded."""
        return cls.model_validate(
            {
                "name": row.principal.name,
                "role": row.role,
                "by_provider": row.subject is not None,
                "is_set_up": row.subject is not None or (row.password_hash is not None and not row.must_change),
                "created_at": row.created_at,
                "logged_in_at": row.logged_in_at,
                "disabled_at": row.principal.disabled_at,
            }
        )


class PersonWithLink(PersonRead):
    """A person whose account was made or reset."""

    set_up_path: str | None = Field(
        description="Link for the person, relative to the registry's address. It works once, for three days, and is in "
        "no later answer. Null with a password.",
        examples=["ui/set-up?word=x"],
    )
