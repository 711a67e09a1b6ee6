# SPDX-License-Identifier: MIT
"""Fleets whose flows share bottlenecks, with a candidate that changes nothing once all flows have it (pool.py).

own       the eight flows of a server share a link, and all of them have the server's table
between   each of the eight flows of a link belongs to another server, drawn anew for each epoch

The naive comparison holds back half of the flows of each server, and compares them with the other half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.rollouts.fleet import sums_of
from experiments.rollouts.pool import N_FLOWS, Epochs
from serving.rollouts.statistics import METRICS, Harm, Unit, harm_within

EPOCHS_PER_REPORT = 6


class SharedFleet:
    """The servers of one seed. n_servers: a multiple of eight."""

    def __init__(self, epochs: Epochs, *, seed: int, n_servers: int) -> None:
        self._epochs = epochs
        self._rng = np.random.default_rng(seed)
        self._n = n_servers

    def own(self, treated: NDArray[np.bool_], _time_s: float) -> NDArray[np.float64]:
        """Return the sums of each server if its flows share links among themselves alone."""
        number = self._links(self._n)
        arm = treated[:, None].astype(int)
        found: NDArray[np.float64] = self._epochs[number, N_FLOWS * arm, arm]
        total: NDArray[np.float64] = N_FLOWS * found.sum(1)
        return total

    def between(self, treated: NDArray[np.bool_], _time_s: float) -> NDArray[np.float64]:
        """Return the sums of each server if its flows share links with those of other servers."""
        sums = np.zeros((self._n, self._epochs.shape[-1]))
        for _ in range(EPOCHS_PER_REPORT):
            groups = self._rng.permutation(self._n).reshape(-1, N_FLOWS)
            arms = treated[groups].astype(int)
            number = self._rng.integers(len(self._epochs), size=(len(groups), 1))
            sums[groups] += self._epochs[number, arms.sum(1, keepdims=True), arms]
        return sums

    def naive(self, *, alpha: float) -> Harm:
        """Compare the treated half of the flows of each server with the other half, in one report's epochs."""
        number = self._links(self._n)
        halves = [self._epochs[number, N_FLOWS // 2, arm].sum(1) for arm in (0, 1)]
        units = [
            Unit(f"server {server}", "candidate" if arm else "baseline", sums_of(half[server]), pair=server)
            for arm, half in enumerate(halves)
            for server in range(self._n)
        ]
        found = harm_within(units, METRICS["goodput"], margin=0.05, alpha=alpha, least_samples=1)
        assert found is not None  # noqa: S101 - there is a pair for each server
        return found

    def _links(self, n: int) -> NDArray[np.int64]:
        return self._rng.integers(len(self._epochs), size=(n, EPOCHS_PER_REPORT))
