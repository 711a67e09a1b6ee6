# SPDX-License-Identifier: MIT
"""API schemas of files of observations."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from serving.names import AgentId, DigestText
from serving.schemas import RowSchema


class ObservationFile(RowSchema):
    """A file without its content, which is at /v1/observations/{digest}."""

    digest: DigestText
    agent_id: AgentId
    start_s: float = Field(
        description="When it begins, by the server's clock, in seconds since 1970.", examples=[1795891222.1]
    )
    size_bytes: int = Field(description="Size of the file.", examples=[1048576])
    received_at: datetime = Field(description="When it was uploaded (UTC).")
