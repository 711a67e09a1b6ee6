# SPDX-License-Identifier: MIT
"""A token-bucket policer of a namespace, by nftables: what exceeds it is dropped at once; the standard library alone.

    a packet of L bytes passes when the bucket holds L tokens, which it then takes;
    tokens come at rate_bytes_per_s; the bucket holds at most bucket_bytes, and is full at first

DEVIATION: nftables' bucket for `limit rate over R bytes/second burst M bytes` holds R + M bytes and not M (measured:
110,000 bytes of a sudden 1,000,000 pass R = 100,000 and M = 10,000), so that M = bucket_bytes - R is written, and a
bucket that holds less than a second's tokens cannot be had.

Bytes are IP's. The rule goes with the namespace that it was made in.
"""

from __future__ import annotations

import subprocess

_RULES = """\
add table ip {table}
add chain ip {table} police {{ type filter hook input priority 0; }}
add rule ip {table} police {match} limit rate over {rate} bytes/second burst {burst} bytes counter drop
"""
_LEAST_BURST_BYTES = 1


def policer_rules(
    *, rate_bytes_per_s: int, bucket_bytes: int, match: str = "meta l4proto tcp", table: str = "ccatune"
) -> str:
    """The text for `nft -f -`, policing what comes to the namespace's own sockets.

    Raises:
        ValueError: a rate below 1, or a bucket that nftables cannot make.
    """
    if rate_bytes_per_s < 1:
        raise ValueError(f"policer: expected a rate of at least 1 byte per second, got {rate_bytes_per_s}")
    burst = bucket_bytes - rate_bytes_per_s
    if burst < _LEAST_BURST_BYTES:
        raise ValueError(
            f"policer: expected a bucket larger than a second's tokens ({rate_bytes_per_s} bytes), "
            f"which is the least that nftables can make, got {bucket_bytes} bytes"
        )
    return _RULES.format(table=table, match=match, rate=rate_bytes_per_s, burst=burst)


def police(
    *, rate_bytes_per_s: int, bucket_bytes: int, match: str = "meta l4proto tcp", within: tuple[str, ...] = ()
) -> None:
    """Police this namespace, or the one that the words `within` lead a command to.

    Raises:
        ValueError: as policer_rules.
        RuntimeError: nft is not there or refuses.
    """
    rules = policer_rules(rate_bytes_per_s=rate_bytes_per_s, bucket_bytes=bucket_bytes, match=match)
    try:
        done = subprocess.run([*within, "nft", "-f", "-"], input=rules, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RuntimeError(f"nft: {error.strerror}; install nftables") from error
    if done.returncode:
        raise RuntimeError(f"nft: expected it to take the policer, it said: {done.stderr.strip()}")
