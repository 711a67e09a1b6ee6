# SPDX-License-Identifier: MIT
"""Turns a registry's answer into a table, after all checks that the agent makes itself.

The answer contains the registry's name, the CCA, the channel, the serial, the share of flows that do not use the
ensemble, and the whole ensemble. It may also mark the deployment as urgent. The ensemble's content must have the
digest that the answer states. The argument `check` adds the check of the signatures (trust.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kmod.ensemble import Deployment, Ensemble, EnsembleError
from serving.agent.errors import OfferRefusedError
from serving.agent.table import Table

# A further check of an offer. Its arguments are the answer as JSON data and the table made from it, and it returns the
# table to use. It is called after structure, ranges and digest were checked. Raises OfferRefusedError.
OfferCheck = Callable[[dict[str, Any], Table], Table]


def parse_offer(body: bytes, *, cca: str, channel: str, check: OfferCheck | None = None) -> Table:
    """Return the table that the registry offers for `cca` on `channel`. Raises OfferRefusedError."""
    answer = _json_object(body)
    try:
        ensemble = Ensemble.from_json(answer.get("ensemble"))
        deployment = Deployment(
            registry=_field(answer, "registry", str),
            channel=_field(answer, "channel", str),
            serial=_field(answer, "serial", int),
            hold_back_permille=_field(answer, "hold_back_permille", int),
            # A registry older than the mark `urgent` does not send it.
            urgent=answer.get("urgent", False),
        )
        table = Table(ensemble=ensemble, deployment=deployment)
    except EnsembleError as error:
        raise OfferRefusedError(f"the registry's offer is refused: {error}") from error
    except (RecursionError, TypeError) as error:
        raise OfferRefusedError(f"the registry's offer is refused: no ensemble ({error})") from error
    _require_same("cca", cca, _field(answer, "cca", str))
    _require_same("the ensemble's cca", cca, ensemble.cca)
    _require_same("channel", channel, deployment.channel)
    _require_same("digest", ensemble.digest, _field(answer, "digest", str))
    return table if check is None else check(answer, table)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise OfferRefusedError(
            f"the registry's answer is refused: expected JSON, got {body[:60]!r} ({error})"
        ) from error
    if not isinstance(answer, dict):
        raise OfferRefusedError(f"the registry's answer is refused: expected an object, got {type(answer).__name__}")
    return answer


def _field(answer: dict[str, Any], name: str, kind: type) -> Any:
    value = answer.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise OfferRefusedError(
            f"the registry's answer is refused: expected {name} as {kind.__name__}, got {value!r:.100}"
        )
    return value


def _require_same(what: str, expected: str, came: str) -> None:
    if came != expected:
        raise OfferRefusedError(f"the registry's offer is refused: expected {what} {expected}, got {came!r:.100}")
