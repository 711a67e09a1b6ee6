# SPDX-License-Identifier: MIT
"""Reads pages as a browser does: their text, and their forms with what these send."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import httpx

from tests.serving.api import Api


@dataclass
class Form:
    """A form: where it goes, and its fields as the page fills them."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.words: list[str] = []
        self._select: str | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.forms.append(Form(given["action"]))
        elif tag == "select":
            self._select = given.get("name")
        elif tag == "option" and self._select and self.forms:
            fields = self.forms[-1].fields
            if self._select not in fields or "selected" in given:
                fields[self._select] = given.get("value", "")
        elif tag in {"input", "textarea"} and self.forms and "name" in given:
            is_sent = given.get("type") != "checkbox" or "checked" in given
            self.forms[-1].fields |= {given["name"]: given.get("value", "")} if is_sent else {}

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        self.words.append(data)


class Page:
    """A page that was loaded, of its registry and its caller."""

    def __init__(self, api: Api, path: str) -> None:
        self.answer = api.get(path)
        self._api, self._path = api, path
        parser = _Parser()
        parser.feed(self.answer.text)
        self.text = " ".join(" ".join(parser.words).split())
        self.forms = parser.forms

    def form(self, end: str) -> Form:
        """The form whose action ends so."""
        return next(form for form in self.forms if form.action.endswith(end))

    def send(self, end: str, *, by: Api | None = None, **typed: Any) -> httpx.Response:
        """Send the form whose action ends so, with these fields typed in."""
        form = self.form(end)
        place = urljoin(f"http://127.0.0.1{self._path}", form.action)
        fields = {name: value for name, value in {**form.fields, **typed}.items() if value is not None}
        return (by or self._api).request("POST", place, data=fields)
