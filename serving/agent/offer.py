# SPDX-License-Identifier: MIT
"""From what a registry answered to a table that may be written: every check that the agent makes by itself.

The answer names registry, CCA, channel, serial and hold-back share, may mark the
deployment as urgent, and carries the whole ensemble. Its content must have the digest that it claims; a check of
a signature has its place beside that one (`checks`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from kmod.ensemble import Deployment, Ensemble, EnsembleError
from serving.agent.errors import OfferRefusedError
from serving.agent.table import Table

# Raises OfferRefusedError. Called with the answer as JSON data and the table made of it,
# after structure, ranges and digest were found right: the place of an Ed25519 signature.
OfferCheck = Callable[[dict[str, Any], Table], None]


def parse_offer(body: bytes, *, cca: str, channel: str, checks: Sequence[OfferCheck] = ()) -> Table:
    """Return the table that the registry offers for `cca` on `channel`. Raises OfferRefusedError."""
    answer = _json_object(body)
    try:
        ensemble = Ensemble.from_json(answer.get("ensemble"))
        deployment = Deployment(
            registry=_field(answer, "registry", str),
            channel=_field(answer, "channel", str),
            serial=_field(answer, "serial", int),
            hold_back_permille=_field(answer, "hold_back_permille", int),
            # A registry that was made before the mark sends none.
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
    for check in checks:
        check(answer, table)
    return table


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
