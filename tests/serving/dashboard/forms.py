# SPDX-License-Identifier: MIT
"""Pages and their forms without a socket, on an open registry."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import httpx

from serving.registry.app import create_app
from tests.serving.api import Api

_HIDDEN = re.compile(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">')


def opened(api: Api, **settings: Any) -> Api:
    """An open registry on the same database, with further settings."""
    changed = api.app.state.context.settings.model_copy(update={"open": True, **settings})
    # Its pages send forms as those of a session, which it does not look at.
    return replace(api, app=create_app(api.database, changed, clock=api.clock), token=None, session="")


def hidden(page: httpx.Response) -> dict[str, str]:
    """The hidden fields of the forms of a page."""
    assert page.status_code == 200, page.text
    return dict(_HIDDEN.findall(page.text))


def send(api: Api, page: str, action: str, **fields: Any) -> httpx.Response:
    """Load a page, and send a form to an action, as by its button."""
    return api.request("POST", action, data={**hidden(api.get(page)), **fields})
