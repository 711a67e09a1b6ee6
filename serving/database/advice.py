# SPDX-License-Identifier: MIT
"""The table of advices.

advices    the newest advice of each channel: which algorithm suits the links that its flows showed
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from serving.database.models import PRINCIPAL_CHARS, Base, ChannelRow
from serving.database.types import BigId


class AdviceRow(Base):
    """The advice of a channel. report: as JSON (serving/advice/schemas.py)."""

    __tablename__ = "advices"

    channel_id: Mapped[int] = mapped_column(BigId, ForeignKey(ChannelRow.id), primary_key=True, autoincrement=False)
    report: Mapped[str] = mapped_column(Text)
    set_by: Mapped[str] = mapped_column(String(PRINCIPAL_CHARS))
    set_at: Mapped[datetime]
