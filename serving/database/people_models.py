# SPDX-License-Identifier: MIT
"""The tables of people who log in to the registry's pages (serving/people).

    people      the account of a principal of kind human: role and password
    passkeys    the public keys with which people log in
    sessions    each log-in: which browser belongs to which person
    one_time    random words that are used once: set-up links, challenges of passkeys, states of a provider's log-in

Of random words the registry keeps the SHA-256 alone. A session that has ended stays for some time, because its browser
is then known as one of the person's. Rows of `one_time` are deleted when they are used.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from serving.database.models import ADDRESS_CHARS, Base, PrincipalRow
from serving.database.types import BigId

HASH_CHARS = 64
USER_AGENT_CHARS = 200
PASSKEY_NAME_CHARS = 63


class PersonRow(Base):
    """The account of a person.

    handle: random hexadecimal digits by which passkeys name the person, because a name could be private.
    password_hash: by argon2, with its parameters; None where the person has no password.
    must_change: the password was chosen by an administrator, and serves only to choose another one.
    subject: issuer and subject at the provider of OpenID Connect, with a space between; None for a local account.
    """

    __tablename__ = "people"

    principal_id: Mapped[int] = mapped_column(BigId, ForeignKey(PrincipalRow.id), primary_key=True, autoincrement=False)
    handle: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    password_hash: Mapped[str | None] = mapped_column(Text)
    must_change: Mapped[bool]
    subject: Mapped[str | None] = mapped_column(Text, unique=True)
    created_at: Mapped[datetime]
    logged_in_at: Mapped[datetime | None]

    principal: Mapped[PrincipalRow] = relationship(lazy="raise")


class PasskeyRow(Base):
    """A passkey. credential_id and public_key (COSE) are in hexadecimal digits."""

    __tablename__ = "passkeys"
    __table_args__ = (Index(None, "principal_id"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    principal_id: Mapped[int] = mapped_column(BigId, ForeignKey(PersonRow.principal_id))
    credential_id: Mapped[str] = mapped_column(Text, unique=True)
    public_key: Mapped[str] = mapped_column(Text)
    sign_count: Mapped[int] = mapped_column(BigInteger)
    name: Mapped[str] = mapped_column(String(PASSKEY_NAME_CHARS))
    created_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class SessionRow(Base):
    """A log-in of a person.

    digest, device_digest: SHA-256 of the words in the browser's two cookies, in hexadecimal digits. The second cookie
    stays when the session ends.
    csrf_token: what each form of the session must repeat.
    """

    __tablename__ = "sessions"
    __table_args__ = (Index(None, "principal_id"), Index(None, "device_digest"), Index(None, "expires_at"))

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    digest: Mapped[str] = mapped_column(String(HASH_CHARS), unique=True)
    device_digest: Mapped[str] = mapped_column(String(HASH_CHARS))
    principal_id: Mapped[int] = mapped_column(BigId, ForeignKey(PersonRow.principal_id))
    csrf_token: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    address: Mapped[str | None] = mapped_column(String(ADDRESS_CHARS))
    user_agent: Mapped[str] = mapped_column(String(USER_AGENT_CHARS))


class OneTimeRow(Base):
    """A word that is used once. kind: what for. details: as JSON."""

    __tablename__ = "one_time"
    __table_args__ = (Index(None, "principal_id"), Index(None, "expires_at"))

    digest: Mapped[str] = mapped_column(String(HASH_CHARS), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    principal_id: Mapped[int | None] = mapped_column(BigId, ForeignKey(PersonRow.principal_id))
    details: Mapped[str] = mapped_column(Text)
    expires_at: Mapped[datetime]
