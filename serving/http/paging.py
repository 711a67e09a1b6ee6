# SPDX-License-Identifier: MIT
"""Pages of lists. `next_cursor` in one answer is `cursor` in the next request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import Field

from serving.schemas import Schema

Item = TypeVar("Item")
Row = TypeVar("Row")

MAX_PAGE_ITEMS = 200

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_ITEMS, description="Items on this page, at most.")]
Cursor = Annotated[
    str | None,
    Query(pattern=r"^[0-9]{1,18}$", description="`next_cursor` of the page before; leave out for the first page."),
]


class Page(Schema, Generic[Item]):
    """One page of a list."""

    items: list[Item] = Field(description="The items of this page.")
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")


def cursor_position(cursor: str | None) -> int | None:
    """Return the position (an id or a serial) at which the last page ended, or None for the first page."""
    return None if cursor is None else int(cursor)


def page_of(
    rows: Sequence[Row], *, limit: int, item: Callable[[Row], Item], position: Callable[[Row], int]
) -> Page[Item]:
    """Return the page of the first `limit` rows. The query must have requested one row more.

    item: makes the item of a row. position: the id or serial by which the next page continues after a row.
    """
    shown = rows[:limit]
    next_cursor = str(position(shown[-1])) if len(rows) > limit else None
    return Page(items=[item(row) for row in shown], next_cursor=next_cursor)
