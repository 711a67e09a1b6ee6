# SPDX-License-Identifier: MIT
"""Inserts a row of which another transaction may insert the same at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

__all__ = ["insert_or_find"]

Row = TypeVar("Row")


def insert_or_find(session: Session, row: Row, *, find: Callable[[], Row | None]) -> tuple[Row, bool]:
    """Insert the row unless `find` returns one. Return the stored row, and whether it was inserted."""
    known = find()
    if known is not None:
        return known, False
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        # Another transaction has inserted it after the query above, and has committed.
        known = find()
        if known is None:
            raise
        return known, False
    return row, True
