# SPDX-License-Identifier: MIT
"""Makes addresses unrecognisable before they are written: cut to a prefix, or hashed with a salt.

A salt is random, and stands in a file that its owner alone may read. Without it nobody can try all addresses against
a hash. Equal addresses have equal hashes as long as the salt is the same, and no two networks are known to be near.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from serving.agent.settings import read_secret

_SALT = "salt"
_SALT_BYTES = 32
_HASH_BYTES = 8


def cut(address: bytes, *, bits_v4: int, bits_v6: int) -> str:
    """Return the network of an address of 4 or 16 bytes, such as 192.0.2.0/24."""
    bits = bits_v4 if len(address) == 4 else bits_v6
    network = int.from_bytes(address, "big") >> (8 * len(address) - bits) << (8 * len(address) - bits)
    return f"{ipaddress.ip_address(network.to_bytes(len(address), 'big'))}/{bits}"


def hashed(address: bytes, *, salt: bytes) -> str:
    """Return a text of 16 digits that the address and the salt determine."""
    return hashlib.blake2b(address, key=salt, digest_size=_HASH_BYTES).hexdigest()


def salt_of(folder: Path) -> bytes:
    """Return the salt of a folder, which is made if there is none. Raises SecretError where others may read it."""
    path = folder / _SALT
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SALT_BYTES))
    return read_secret("salt", path, max_bytes=_SALT_BYTES)


def hiding(*, salt: bytes | None, bits_v4: int, bits_v6: int) -> tuple[Callable[[bytes], str], str]:
    """Return the function that makes an address unrecognisable, and words for what it does."""
    if salt is not None:
        return lambda address: hashed(address, salt=salt), "hashed with a salt"
    return lambda address: cut(address, bits_v4=bits_v4, bits_v6=bits_v6), f"cut to /{bits_v4} and /{bits_v6}"


def is_of_this_machine(address: bytes) -> bool:
    """Whether it is a loopback address."""
    return address[0] == 127 if len(address) == 4 else address == bytes(15) + b"\x01"
