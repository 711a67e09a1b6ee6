# SPDX-License-Identifier: MIT
"""The table of what runners have said of their datasets.

    datasets    figures of the recordings under a name: one row for each content that a runner has had

A row is deleted some time after the last runner has said that it has this content.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from serving.database.jobs import RUNNER_CHARS
from serving.database.models import NAME_CHARS, Base
from serving.database.types import BigId

CONTENT_CHARS = 64


class DatasetRow(Base):
    """The recordings under a name. content: a digest over them. runner: the one that said so last. facts: as JSON."""

    __tablename__ = "datasets"
    __table_args__ = (UniqueConstraint("name", "content"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_CHARS))
    content: Mapped[str] = mapped_column(String(CONTENT_CHARS))
    runner: Mapped[str] = mapped_column(String(RUNNER_CHARS))
    facts: Mapped[str] = mapped_column(Text)
    said_at: Mapped[datetime]
