# SPDX-License-Identifier: MIT
"""Signed offers for tests of the agent, with the keys of tests/serving/signatures/keyring.py at its time NOW_S."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from serving.agent.store import Store
from serving.agent.table import Table
from serving.agent.trust import Trust
from serving.signatures import (
    DeploymentStatement,
    EnsembleStatement,
    Envelope,
    Root,
    sign_ensemble,
)
from serving.signatures.statements import DEPLOYMENT_TYPE
from tests.serving.agent.fakes import answer, log_to, table
from tests.serving.signatures.keyring import DAY_S, NOW_S, keys, signed

SEVEN = table(7, registry="lab")


def statement_of(offered: Table, **changed: object) -> DeploymentStatement:
    """What the registry signs of this offer: a minute ago, for a week. `changed` replaces fields."""
    fields = {
        **asdict(offered.deployment),
        "cca": offered.ensemble.cca,
        "digest": offered.ensemble.digest,
        "issued_s": NOW_S - 60,
        "expires_s": NOW_S + 7 * DAY_S,
    }
    return DeploymentStatement(**{**fields, **changed})


def signatures(
    offered: Table = SEVEN, *, registry: str = "s1", publishers: str = "p1", root_version: int = 1, **changed: object
) -> dict[str, Any]:
    """The part `signatures` of an answer, by the keys of these names. `changed` replaces fields of the deployment."""
    deployment = Envelope.sign(DEPLOYMENT_TYPE, statement_of(offered, **changed).to_payload(), keys(registry))
    ensemble = EnsembleStatement(offered.ensemble.cca, offered.ensemble.digest)
    return {
        "deployment": deployment.to_json(),
        "ensemble": [sign_ensemble(ensemble, [one]).to_json() for one in keys(publishers)],
        "root_version": root_version,
    }


def signed_answer(offered: Table = SEVEN, **how: Any) -> dict[str, Any]:
    """A registry's answer with signatures, as JSON data. how: see `signatures`."""
    return dict(json.loads(answer(offered, signatures=signatures(offered, **how))))


def root_bytes(root: Root, names: str = "r1") -> bytes:
    """A root document in a file or an answer, signed by the root keys of these names."""
    return json.dumps(signed(root, names).to_json()).encode("ascii")


def root_file(folder: Path, root: Root, names: str = "r1") -> Path:
    """A root document in a file that its owner alone may write to."""
    path = folder / "root.json"
    path.write_bytes(root_bytes(root, names))
    path.chmod(0o644)
    return path


class Chain:
    """The root documents that a registry gives, and the versions that were requested."""

    def __init__(self, *documents: Root, names: str = "r1") -> None:
        self.envelopes = {one.version: root_bytes(one, names) for one in documents}
        self.requested: list[int] = []

    def __call__(self, version: int) -> bytes | None:
        """Return a version, or None."""
        self.requested.append(version)
        return self.envelopes.get(version)


def trust_in(path: Path, folder: Path, *, now_s: float = NOW_S, writes: bool = True) -> Trust:
    """An agent's trust in a pinned file, with its state in this folder."""
    folder.mkdir(exist_ok=True)
    return Trust(path, store=Store(folder), log=log_to(), writes=writes, now_s=lambda: now_s)
