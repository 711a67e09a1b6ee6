# SPDX-License-Identifier: MIT
"""Verifies the signatures of offers under a root document that the operator has pinned (docs/signatures.md).

    pinned file -> version in the state folder, if it descends from this file -> versions of the registry, one by one

An offer is accepted if all of this holds:

    - the root document has not expired;
    - a key of its role `registry` signed a deployment that equals the offer in every field, and has not expired;
    - enough keys of its role `publisher` signed the ensemble's digest.

The agent looks for a newer version when an offer names one, when its own has expired, or when a signature does not
hold. It never goes back to an older version. Another pinned file begins anew.
Where the file in the state folder is damaged, it begins anew, too, and the registry must give the versions once more:
offers are refused until it has reached the version under which the stored tables were verified.

serving.signatures and the package `cryptography` are imported with the first verification. The last known good table
is in force by then.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kmod.folders import OTHERS_MAY_WRITE
from serving.agent.errors import (
    DamagedFileError,
    OfferExpiredError,
    OfferRefusedError,
    RegistryUnavailableError,
    SettingsError,
    StateDirError,
)
from serving.agent.settings import read_guarded
from serving.agent.store import NO_CCA, ROOT, CcaFiles
from serving.agent.table import Signed

if TYPE_CHECKING:
    from pathlib import Path

    from serving.agent.log import EventLog
    from serving.agent.store import Store
    from serving.agent.table import Table
    from serving.signatures import Root, SignatureError, SignedRoot

# Returns the envelope of a version of the root document, or None if the registry has none. May raise
# RegistryUnavailableError.
Fetch = Callable[[int], bytes | None]

_MAX_FILE_BYTES = 128 * 1024
# Bounds how long one answer of the registry can keep the agent busy. The next answer continues.
_MAX_VERSIONS_AT_ONCE = 16


class Trust:
    """The root document that the agent trusts. All threads of the agent may use it.

    store: where newer versions are kept. writes: False for a trial, which keeps them in memory.
    """

    def __init__(
        self, path: Path, *, store: Store, log: EventLog, writes: bool = True, now_s: Callable[[], float] = time.time
    ) -> None:
        """Read the pinned file, without verifying it. Raises SettingsError, also where nothing could verify it."""
        _require_cryptography()
        self._path = path
        self._store = store
        self._log = log
        self._writes = writes
        self._now_s = now_s
        self._content = read_guarded(
            "root",
            path,
            max_bytes=_MAX_FILE_BYTES,
            forbidden=OTHERS_MAY_WRITE,
            advice="expected a file that its owner alone may write to, got the mode {mode:04o}; whoever writes to it "
            "chooses the keys that this server trusts",
        )
        self.pinned_sha256 = hashlib.sha256(self._content).hexdigest()
        self._lock = threading.RLock()
        self._trusted: SignedRoot | None = None
        self._files = CcaFiles(NO_CCA, store=store, log=log)
        # The newest version under which a stored table was verified.
        self._lowest_version = 0

    def load(self) -> Root:
        """Return the newest version that is known. The first call verifies the files. Raises SettingsError."""
        # A thread that fetches versions holds the lock for as long as the registry takes. This does not wait for it.
        if self._trusted is None:
            with self._lock:
                self._trusted = self._trusted or self._newest_known()
        return self._trusted.root

    def check(self, answer: dict[str, Any], table: Table, *, fetch: Fetch) -> Table:
        """Return the table with its verified signatures.

        answer: the registry's offer as JSON data.
        Raises OfferRefusedError (OfferExpiredError), and what `fetch` raises.
        """
        from serving.signatures import ExpiredError, SignatureError

        try:
            with self._lock:
                root = self.load()
                version = _signatures_of(answer).get("root_version")
                is_newer = isinstance(version, int) and version > root.version
                if is_newer or root.version < self._lowest_version or root.is_expired(now_s=self._now_s()):
                    root = self._advance(fetch)
                try:
                    return self._verified(root, answer, table, now_s=self._now_s())
                except ExpiredError:
                    raise
                except SignatureError as error:
                    newer = self._advance_after(error, fetch)
                    if newer.version == root.version:
                        raise
                    return self._verified(newer, answer, table, now_s=self._now_s())
                finally:
                    if self._files.is_unsaved():
                        self._keep()
        except ExpiredError as error:
            raise OfferExpiredError(f"the registry's offer is not applied: {error}") from error
        except SignatureError as error:
            raise OfferRefusedError(f"the registry's offer is refused: {error}") from error

    def vouches_for(self, table: Table) -> bool:
        """Whether the signatures that are stored with a table were, or can be, verified under the pinned document.

        They may have expired since. A key that a newer version removed may still vouch for a table from before.
        """
        if table.signed is None:
            return False
        if table.signed.pinned_sha256 == self.pinned_sha256:
            self._lowest_version = max(self._lowest_version, table.signed.root_version)
            return True
        from serving.signatures import SignatureError

        offered = {"signatures": {"deployment": table.signed.deployment, "ensemble": list(table.signed.ensemble)}}
        try:
            root = self.load()
            self._verified(root, offered, table, now_s=min(table.signed.expires_s, root.expires_s) - 1)
        except (SignatureError, SettingsError):
            return False
        return True

    def require(self, table: Table) -> None:
        """Raise OfferRefusedError unless the table was verified, and its key was not removed in the meantime."""
        if table.signed is None or table.signed.pinned_sha256 != self.pinned_sha256:
            raise OfferRefusedError("the registry's offer is refused: expected verified signatures, it has none")
        if self.has_removed(table.signed.key_id):
            raise OfferRefusedError(
                f"the registry's offer is refused: expected the signature of a key in version {self.load().version} of "
                f"the root document, got one of {table.signed.key_id[:16]}, which was removed"
            )

    def registry_key_ids(self) -> frozenset[str]:
        """Return the ids of the registry's keys in the trusted document."""
        return self.load().roles["registry"].key_ids

    def has_removed(self, key_id: str) -> bool:
        """Whether the trusted document does not name this key as the registry's."""
        return key_id not in self.registry_key_ids()

    def why_stale(self, table: Table | None) -> str | None:
        """Return why nothing vouches any more that a table in force is the current one, or None."""
        now_s, root = self._now_s(), self.load()
        if root.is_expired(now_s=now_s):
            return _expired(root)
        if table is not None and table.signed is not None and now_s >= table.signed.expires_s:
            return (
                f"the signature of {table.name} expired at {_time_text(table.signed.expires_s)}, and the registry gave "
                "no newer one; is it cut off, or does it sign no more?"
            )
        return None

    def _verified(self, root: Root, answer: dict[str, Any], table: Table, *, now_s: float) -> Table:
        from serving.signatures import Envelope, ExpiredError, SignatureError, check_deployment, check_ensemble

        if root.version < self._lowest_version:
            raise SignatureError(
                f"expected version {self._lowest_version} of the root document, for a stored table was verified by it, "
                f"got {root.version}; the file `{ROOT}` of the state folder was lost, and the registry must give the "
                "later versions again"
            )
        if root.is_expired(now_s=now_s):
            raise ExpiredError(_expired(root))
        signatures = _signatures_of(answer)
        deployment, ensemble = signatures.get("deployment"), signatures.get("ensemble")
        if deployment is None:
            raise SignatureError(
                "expected the registry's signature, the offer has none; start the registry with --signing-key-file"
            )
        if not isinstance(ensemble, list):
            raise SignatureError(f"expected a list of publishers' signatures, got {type(ensemble).__name__}")
        statement, key_id = check_deployment(root, Envelope.from_json(deployment), now_s=now_s)
        offered = {**asdict(table.deployment), "cca": table.ensemble.cca, "digest": table.ensemble.digest}
        for name, value in offered.items():
            if (signed_value := getattr(statement, name)) != value:
                raise SignatureError(f"expected {name} {value} in the registry's signature, got {signed_value}")
        envelopes = [Envelope.from_json(one) for one in ensemble]
        check_ensemble(root, envelopes, cca=table.ensemble.cca, digest=table.ensemble.digest)
        signed = Signed(key_id, statement.expires_s, self.pinned_sha256, deployment, tuple(ensemble), root.version)
        return replace(table, signed=signed)

    def _advance(self, fetch: Fetch) -> Root:
        """Follow the registry's chain of versions, and return the newest. Raises SignatureError for an invalid one."""
        from serving.signatures import Envelope

        assert self._trusted is not None  # noqa: S101 - `check` loads it first
        for _ in range(_MAX_VERSIONS_AT_ONCE):
            content = fetch(self._trusted.root.version + 1)
            if content is None:
                break
            self._trusted = self._trusted.next(Envelope.parse(content))
            self._log.event("root", version=self._trusted.root.version, registry=self._trusted.root.registry)
            self._keep()
        return self._trusted.root

    def _advance_after(self, refusal: SignatureError, fetch: Fetch) -> Root:
        try:
            return self._advance(fetch)
        except RegistryUnavailableError as error:
            raise OfferRefusedError(
                f"the registry's offer is refused: {refusal}; whether a newer root document explains it is unknown: "
                f"{error}"
            ) from error

    def _keep(self) -> None:
        """Save the document. What cannot be saved is used all the same, and saved with a later offer."""
        if self._writes and self._trusted is not None:
            envelope = self._trusted.envelope.to_json()
            self._files.save(ROOT, {"pinned_sha256": self.pinned_sha256, "envelope": envelope})

    def _newest_known(self) -> SignedRoot:
        from serving.signatures import Envelope, SignatureError, SignedRoot

        try:
            pinned = SignedRoot.first(Envelope.parse(self._content))
        except SignatureError as error:
            raise SettingsError(f"root {self._path}: expected a signed root document, {error}") from error
        except ImportError as error:
            raise SettingsError(f"root: expected the package cryptography, it cannot be imported ({error})") from error
        try:
            data = self._store.load(NO_CCA, ROOT, dict)
            if data is None or data.get("pinned_sha256") != self.pinned_sha256:
                return pinned
            kept = SignedRoot.first(Envelope.from_json(data.get("envelope")))
        except (SignatureError, DamagedFileError) as error:
            self._log.event("damaged", file=ROOT, error=str(error))
            if self._writes:
                self._files.tidy([ROOT])
            return pinned
        except StateDirError as error:
            raise SettingsError(f"root: expected its newest version in the state folder, {error}") from error
        return kept if kept.root.version > pinned.root.version else pinned


def _require_cryptography() -> None:
    """Raise SettingsError where the package that verifies signatures is not installed. Does not import it."""
    if importlib.util.find_spec("cryptography") is None:
        raise SettingsError(
            "root: expected the package cryptography, which verifies the signatures, it is not installed; install "
            "python3-cryptography or ccatune-agent[signatures], or leave root out"
        )


def _signatures_of(answer: dict[str, Any]) -> dict[str, Any]:
    found = answer.get("signatures")
    return found if isinstance(found, dict) else {}


def _expired(root: Root) -> str:
    return (
        f"version {root.version} of the root document of {root.registry} has expired, and the registry has no newer "
        f"one; its owners must publish the next version; expired {_time_text(root.expires_s)}"
    )


def _time_text(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
