# SPDX-License-Identifier: MIT
"""The clients of tests/prove/kill_service.py, and the ledger of the answers that they received.

publisher   publishes new ensembles, most of them signed
mover       moves the channel and rolls it back, and tries to move it to unsigned ensembles
reader      compares the channel's serial with the acknowledged ones
poller      polls the channel and reports, as an agent does
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from kmod.ensemble import Ensemble
from serving.client import RegistryClient
from serving.errors import RegistryClientError
from tests.prove.guarded import Guarded, make_ensemble

CCA, CHANNEL = "gr", "champion"


@dataclass
class Ledger:
    """The answers that the clients received, for all threads. `failures` holds each thing that must not happen."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    offered: set[str] = field(default_factory=set)
    signed: dict[str, Ensemble] = field(default_factory=dict)
    unsigned: set[str] = field(default_factory=set)
    moves: dict[int, dict[str, Any]] = field(default_factory=dict)
    reports: dict[str, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    refused_moves: int = 0
    cut: int = 0
    failures: list[str] = field(default_factory=list)

    def fail(self, words: str) -> None:
        """Keep a failure."""
        with self.lock:
            self.failures.append(words)


class Worker(threading.Thread):
    """Repeats one kind of work until it is stopped. A request that a kill cuts off is counted, and work goes on."""

    def __init__(self, work: Callable[[], None], ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._ledger = ledger
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End after the current request."""
        self._stopping.set()

    def run(self) -> None:
        """Work until stopped."""
        while not self._stopping.is_set():
            try:
                self._work()
            except RegistryClientError as error:
                with self._ledger.lock:
                    self._ledger.cut += 1
                    if not any(words in str(error) for words in ("expected an answer", "503", "409")):
                        self._ledger.failures.append(f"a request was refused: {error}")
                self._stopping.wait(0.05)
            except Exception as error:
                self._ledger.fail(f"a client ended: {error!r}")
                raise


def publisher(service: Guarded, client: RegistryClient, ledger: Ledger, chance: random.Random) -> Callable[[], None]:
    """Publish new ensembles: most of them signed."""

    def work() -> None:
        ensemble = make_ensemble(chance.getrandbits(60))
        with ledger.lock:
            ledger.offered.add(ensemble.digest)
        if chance.random() < 0.3:
            client.publish(ensemble)
            with ledger.lock:
                ledger.unsigned.add(ensemble.digest)
        else:
            service.publish(client, ensemble)
            with ledger.lock:
                ledger.signed[ensemble.digest] = ensemble
        time.sleep(chance.uniform(0, 0.05))

    return work


def mover(client: RegistryClient, ledger: Ledger, chance: random.Random, name: str) -> Callable[[], None]:
    """Move the channel to signed ensembles and back, and try to move it to unsigned ones."""
    number = 0

    def work() -> None:
        nonlocal number
        number += 1
        note = f"{name}-{number}"
        with ledger.lock:
            signed, unsigned = sorted(ledger.signed), sorted(ledger.unsigned)
            ledger.asked.add(note)
        if unsigned and chance.random() < 0.1:
            try_unsigned(client, chance.choice(unsigned), ledger)
            return
        if not signed:
            return
        # Until a move was acknowledged there may be nothing to roll back.
        if chance.random() < 0.15 and ledger.moves:
            moved = client.roll_back(CCA, CHANNEL, note=note)
        else:
            moved = client.move(CCA, CHANNEL, digest=chance.choice(signed), note=note)
        moved.pop("created", None)  # the history does not tell it
        with ledger.lock:
            if moved["serial"] in ledger.moves:
                ledger.failures.append(f"serial {moved['serial']} was acknowledged twice")
            ledger.moves[moved["serial"]] = moved
        time.sleep(chance.uniform(0, 0.05))

    return work


def reader(client: RegistryClient, ledger: Ledger, chance: random.Random) -> Callable[[], None]:
    """Read the channel. Its serial must not be lower than one that was acknowledged before the request."""

    def work() -> None:
        with ledger.lock:
            known = max(ledger.moves, default=0)
        if known > 0 and (serial := client.channel(CCA, CHANNEL)["serial"]) < known:
            ledger.fail(f"the channel stands at {serial}, {known} was acknowledged before")
        time.sleep(chance.uniform(0, 0.05))

    return work


def try_unsigned(client: RegistryClient, digest: str, ledger: Ledger) -> None:
    """A move to an unsigned ensemble must be refused."""
    try:
        client.move(CCA, CHANNEL, digest=digest, note="unsigned")
    except RegistryClientError as error:
        if "409" not in str(error):
            raise
        with ledger.lock:
            ledger.refused_moves += 1
    else:
        ledger.fail(f"a move to the unsigned {digest} succeeded")


def poller(http: httpx.Client, ledger: Ledger, name: str, chance: random.Random) -> Callable[[], None]:
    """Poll the channel as an agent does, and report what it offers."""
    etag = ""

    def work() -> None:
        nonlocal etag
        try:
            known = {"If-None-Match": etag} if etag else {}
            answer = http.get(f"/v1/channels/{CCA}/{CHANNEL}", params={"wait": "1"}, headers=known)
            if answer.status_code == 200:
                etag = answer.headers["etag"]
                serial = int(answer.json()["serial"])
                report = {"cca": CCA, "channel": CHANNEL, "state": "InSync", "effective_serial": serial}
                if http.post(f"/v1/agents/{name}/reports", json=report).status_code == 204:
                    with ledger.lock:
                        ledger.reports[name] = serial
            elif answer.status_code not in {304, 404, 503}:
                ledger.fail(f"{name}: {answer.status_code} {answer.text[:200]}")
        except httpx.HTTPError:
            time.sleep(0.1)
        time.sleep(chance.uniform(0, 0.2))

    return work
