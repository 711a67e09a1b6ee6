# SPDX-License-Identifier: MIT
"""Documents of users, such as plans and policies, as the models of the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from serving.errors import SettingsError
from serving.names import in_words

Document = TypeVar("Document", bound=BaseModel)


def document_of(model: type[Document], data: Any, *, path: Path, expected: str = "") -> Document:
    """Return the data of a file as the model.

    expected: what the file should be, for the error. Raises SettingsError, which names the file and the place.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        is_unknown = first["type"] == "extra_forbidden" and len(first["loc"]) == 1
        said = f"expected one of {', '.join(model.model_fields)}" if is_unknown else in_words(first, shows_input=True)
        places = [expected, ".".join(map(str, first["loc"])), said]
        raise SettingsError(": ".join([str(path), *filter(None, places)])) from error
