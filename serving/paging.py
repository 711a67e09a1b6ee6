# SPDX-License-Identifier: MIT
"""Lists are given a page at a time: `next_cursor` of one answer is `cursor` of the next request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Cursor", "Limit", "Page", "cursor_position", "page_of"]

Item = TypeVar("Item")
Row = TypeVar("Row")

MAX_PAGE_ITEMS = 200

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_ITEMS, description="Items on this page, at most.")]
Cursor = Annotated[
    str | None,
    Query(pattern=r"^[0-9]{1,18}$", description="`next_cursor` of the page before; leave out for the first page."),
]


class Page(BaseModel, Generic[Item]):
    """One page of a list."""

    model_config = ConfigDict(frozen=True)

    items: list[Item] = Field(description="The items of this page.")
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")


def cursor_position(cursor: str | None) -> int | None:
    """The row that the last page ended with."""
    return None if cursor is None else int(cursor)


def page_of(rows: Sequence[Row], *, limit: int) -> tuple[Sequence[Row], Row | None]:
    """Cut rows, asked for one beyond the limit, to a page; the second is its last row where more follow."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], rows[limit - 1]
