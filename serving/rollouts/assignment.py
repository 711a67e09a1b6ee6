# SPDX-License-Identifier: MIT
"""Assigns servers, or blocks of time, to the candidate.

    h(server)   = SHA-256(roll-out, server), which also decides the order within a stratum
    place       = (rank of the server in its stratum + 1/2) / servers of the stratum
    order       all servers by (place, h)
    candidates  the first ceil(share * servers) of the order

Each stratum has its share of the candidates, up to one server. A larger share only adds servers, so that a server of
an earlier step keeps the candidate. The order depends on the list of servers, so it is drawn once, at the start.

By switchback each pair of blocks draws which of its two has the candidate.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from math import ceil

from serving.rollouts.statistics import Arm


def drawn(rollout_id: str, name: str) -> bytes:
    """Return 32 bytes that are random but the same for the same roll-out and name."""
    return hashlib.sha256(f"{rollout_id}\n{name}".encode()).digest()


def order_of(rollout_id: str, stratum_of: Mapping[str, str]) -> list[str]:
    """Return the servers in the order in which they get the candidate. stratum_of: each server's stratum."""
    strata: dict[str, list[str]] = defaultdict(list)
    for server, stratum in stratum_of.items():
        strata[stratum].append(server)
    placed = []
    for servers in strata.values():
        ranked = sorted(servers, key=lambda server: drawn(rollout_id, server))
        placed += [
            ((rank + 0.5) / len(ranked), drawn(rollout_id, server), server) for rank, server in enumerate(ranked)
        ]
    return [server for _, _, server in sorted(placed)]


def n_candidates(share: float, *, n_servers: int, least_servers: int) -> int:
    """Return how many servers have the candidate in a step: their share, but at least `least_servers`."""
    # The tolerance keeps 0.07 * 100 = 7.000000000000001 from becoming 8.
    return min(n_servers, max(least_servers, ceil(share * n_servers - 1e-9)))


def arm_of_block(rollout_id: str, block: int) -> Arm:
    """Return the table of a block of time by switchback. Blocks are counted from 0; two of them are a pair."""
    candidate_first = drawn(rollout_id, f"pair {block // 2}")[0] % 2 == 0
    return "candidate" if candidate_first == (block % 2 == 0) else "baseline"
