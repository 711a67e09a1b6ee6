#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LEDBAT (RFC 6817) as the uTP of libtorrent: ledbat.py VERB ... (verbs: _scheme.py).

The sender seeds a torrent of 64 GiB of zeros over uTP, and the receiver downloads it. Both ends make the same torrent
without a tracker, and everything that finds other peers is off. The torrent's file is a link to /dev/zero, which reads
as zeros and discards what is written, so that no disk limits the transfer. The queueing delay that uTP aims at is
100 ms, the library's default.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulation.pantheon.wrappers import _scheme
else:
    import _scheme

NAME = "libtorrent-ledbat"
VERSION = "2.1.1"
PURPOSE = f"libtorrent {VERSION}"

DATA = "data"
FILE_NAME = "zeros"
PIECE_BYTES = 4 << 20
PIECES = 16 << 10
BLOCK_BYTES = 16 << 10
# The receiver may request this much in advance, and the sender may hold it ready, so that neither limits the rate.
WINDOW_BYTES = 64 << 20
CONNECT_TIMEOUT_MS = 1000
TEN_MINUTES_S = 600
ERRORS = 1  # of the library's kinds of alert

SETTINGS = {
    "alert_mask": ERRORS,
    "peer_dscp": 0,
    "enable_dht": False,
    "enable_lsd": False,
    "enable_upnp": False,
    "enable_natpmp": False,
    "enable_incoming_tcp": False,
    "enable_outgoing_tcp": False,
    "in_enc_policy": 2,
    "out_enc_policy": 2,  # plain text
    "disable_hash_checks": True,
    "unchoke_slots_limit": -1,
    "seed_choking_algorithm": 0,
    "close_redundant_connections": False,
    "inactivity_timeout": TEN_MINUTES_S,
    "peer_timeout": TEN_MINUTES_S,
    "request_timeout": TEN_MINUTES_S,
    "piece_timeout": TEN_MINUTES_S,
    # A first packet that comes before the receiver listens is repeated soon.
    "utp_connect_timeout": CONNECT_TIMEOUT_MS,
    "utp_syn_resends": 10,
    "min_reconnect_time": 1,
    "max_failcount": TEN_MINUTES_S,
    "max_out_request_queue": WINDOW_BYTES // BLOCK_BYTES,
    "max_allowed_in_request_queue": WINDOW_BYTES // BLOCK_BYTES,
    "send_buffer_watermark": WINDOW_BYTES,
    "max_queued_disk_bytes": 4 * WINDOW_BYTES,
}


def target() -> Path:
    """The folder of the library. Its binary depends on the version of Python."""
    parts = (VERSION, f"{DATA}/{FILE_NAME}", str(sys.implementation.cache_tag))
    return _scheme.place("libtorrent", *(part.encode() for part in parts))


def packages() -> list[str]:
    """The Debian package of pip, unless this interpreter has pip."""
    return [] if importlib.util.find_spec("pip") else ["python3-pip"]


def make(work: Path, result: Path) -> None:
    """Install the library into the folder of the result, and put the torrent's file beside it."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    command += ["--root-user-action", "ignore", "--only-binary", ":all:", "--target", str(result)]
    _scheme.run([*command, f"libtorrent=={VERSION}"], folder=work, purpose=PURPOSE)
    (result / DATA).mkdir()
    (result / DATA / FILE_NAME).symlink_to("/dev/zero")


def require() -> None:
    """End with a message unless this interpreter has pip."""
    if packages():
        _scheme.fail(f"expected pip in {sys.executable} to install {PURPOSE}, found none; install python3-pip")


def bencoded(value: object) -> bytes:
    """The encoding of torrents. Mappings are given with sorted keys."""
    match value:
        case int():
            return b"i%de" % value
        case bytes():
            return b"%d:%s" % (len(value), value)
        case dict():
            return b"d" + b"".join(bencoded(part) for item in value.items() for part in item) + b"e"
    raise TypeError(f"expected a number, bytes or a mapping, got {value!r}")


def torrent() -> bytes:
    """The torrent: one file of zeros."""
    digest = hashlib.sha1(bytes(PIECE_BYTES), usedforsecurity=False).digest()
    info = {
        b"length": PIECE_BYTES * PIECES,
        b"name": FILE_NAME.encode(),
        b"piece length": PIECE_BYTES,
        b"pieces": digest * PIECES,
    }
    return bencoded({b"info": info})


def start(library: Any, port: int, folder: Path, *, seed: bool) -> tuple[Any, Any]:
    """A session that listens on the port, and its torrent, whose file is in the folder."""
    parameters = library.session_params()
    parameters.settings = {**SETTINGS, "listen_interfaces": f"0.0.0.0:{port}"}
    # The other kinds of disk access map the file into memory, which /dev/zero does not allow.
    parameters.disk_io_constructor = "posix_disk_io_constructor"
    session = library.session(parameters)
    added = library.load_torrent_buffer(torrent())
    added.save_path = str(folder)
    kinds = library.torrent_flags
    # /dev/zero does not have the size of the file.
    added.flags = kinds.no_verify_files | (kinds.seed_mode if seed else kinds.sequential_download)
    return session, session.add_torrent(added)


def transfer(port: int, peer: tuple[str, int] | None) -> None:
    """Seed to the peer, or download from whoever connects, until this process is killed."""
    build = _scheme.built(target(), scheme=NAME)
    sys.path.insert(0, str(build))
    library = importlib.import_module("libtorrent")
    session, handle = start(library, port, build / DATA, seed=peer is not None)
    while True:
        for alert in session.pop_alerts():
            if alert.category() & ERRORS:
                sys.stderr.write(f"{alert.message()}\n")
                sys.stderr.flush()
        if peer is not None and not handle.get_peer_info():
            handle.connect_peer(peer)
        time.sleep(1)


def main(arguments: Sequence[str]) -> None:
    """Do what a verb requires."""
    scheme = _scheme.Scheme(
        name=NAME,
        packages=packages,
        require=require,
        target=target,
        make=make,
        receive=lambda port: transfer(port, None),
        send=lambda address, port: transfer(0, (address, port)),
    )
    _scheme.main(scheme, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
