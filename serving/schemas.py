# SPDX-License-Identifier: MIT
"""The bases of the bodies of requests and answers, and of their parts. All of them are immutable."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Schema(BaseModel):
    """Unknown keys are ignored, because the sender may be newer than the receiver."""

    model_config = ConfigDict(frozen=True)


class StrictSchema(BaseModel):
    """A wish of a person. An unknown key is an error, because it would be silently without effect."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RowSchema(BaseModel):
    """An answer that is made from a row of the database."""

    model_config = ConfigDict(frozen=True, from_attributes=True)
