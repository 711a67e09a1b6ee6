# SPDX-License-Identifier: MIT
"""The table of files of observations (kmod/observations.py), which `ccatune observe` uploads.

Rows are deleted by age, and the oldest ones beyond a number of bytes (serving/observations/service.py).
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Float, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from serving.database.models import DIGEST_CHARS, Base
from serving.database.types import BigId


class ObservationRow(Base):
    """A file. digest: of its content. start_s: when it begins, in seconds since 1970, by the server's clock."""

    __tablename__ = "observations"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    digest: Mapped[str] = mapped_column(String(DIGEST_CHARS), unique=True)
    agent_id: Mapped[str] = mapped_column(String(128), index=True)
    start_s: Mapped[float] = mapped_column(Float)
    size_bytes: Mapped[int]
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True, deferred_raiseload=True)
    received_at: Mapped[datetime] = mapped_column(index=True)
