# SPDX-License-Identifier: MIT
"""A table: one ensemble and its deployment. The registry offers it, the agent stores it and writes it to the kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kmod.ensemble import Deployment, Ensemble, EnsembleError, table_text, without_urgent_mark
from serving.agent.kernel import text_sha256
from serving.agent.signed import Signed


@dataclass(frozen=True)
class Table:
    """An ensemble and the deployment that it belongs to.

    The constructor also makes the text, and raises EnsembleError where the text would exceed 256 KiB.
    signed: the verified signatures; None if the agent has no root document. They do not make it another table.
    """

    ensemble: Ensemble
    deployment: Deployment
    signed: Signed | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _ = self.text

    @cached_property
    def text(self) -> str:
        """The text that is written to the kernel, and that the kernel must read back."""
        return table_text(self.ensemble, self.deployment)

    @cached_property
    def text_sha256(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return text_sha256(self.text)

    @cached_property
    def unmarked_text(self) -> str:
        """The text without the mark `urgent`."""
        return without_urgent_mark(self.text)

    @cached_property
    def unmarked_text_sha256(self) -> str:
        """SHA-256 of the text without the mark, in hexadecimal."""
        return text_sha256(self.unmarked_text)

    @property
    def name(self) -> str:
        """A description of the table, e.g. `local/champion serial 3 (sha256:0123456789ab)`."""
        deployment = self.deployment
        return f"{deployment.registry}/{deployment.channel} serial {deployment.serial} ({self.ensemble.digest[:19]})"

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON data; the inverse of from_json."""
        signatures = {} if self.signed is None else {"signed": self.signed.to_json()}
        return {
            **signatures,
            "ensemble": self.ensemble.to_json(),
            "deployment": {
                "registry": self.deployment.registry,
                "channel": self.deployment.channel,
                "serial": self.deployment.serial,
                "hold_back_permille": self.deployment.hold_back_permille,
                "urgent": self.deployment.urgent,
            },
        }

    @staticmethod
    def from_json(data: object) -> Table:
        """Build a table from JSON data. Raises EnsembleError where structure, a range or the digest is wrong."""
        if not isinstance(data, dict) or not isinstance(data.get("deployment"), dict):
            raise EnsembleError("table: expected an object with `ensemble` and `deployment`, got something else")
        deployment = data["deployment"]
        try:
            return Table(
                ensemble=Ensemble.from_json(data.get("ensemble")),
                deployment=Deployment(
                    registry=deployment["registry"],
                    channel=deployment["channel"],
                    serial=deployment["serial"],
                    hold_back_permille=deployment.get("hold_back_permille", 0),
                    # A file older than the mark `urgent` does not contain it.
                    urgent=deployment.get("urgent", False),
                ),
                signed=Signed.from_json(data["signed"]) if "signed" in data else None,
            )
        except KeyError as error:
            raise EnsembleError(f"table: expected {error.args[0]} in its deployment, got none") from error
        except RecursionError as error:
            raise EnsembleError("table: expected flat data, got JSON nested too deeply") from error
