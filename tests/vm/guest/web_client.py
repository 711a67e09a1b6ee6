# SPDX-License-Identifier: MIT
"""A web client: python -I -S web_client.py HOST PORT WORDS, words as JSON.

    {"connections": n, "objects": of each, "bytes": of an object, "pause_s": between two of a connection}

Loads them over so many persistent connections at a time, and prints for each how many objects came whole, how long
they took with their pauses, and whether the connection was one and the same from the first to the last.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from typing import Any


def body(number: int, size: int) -> bytes:
    """The object of this number: no two are alike, nor two of its parts."""
    return b"".join(f"{number}:{at:013d}\n".encode() for at in range(0, size, 16))[:size]


def load(host: str, port: int, number: int, words: dict[str, Any], found: list[dict[str, Any]]) -> None:
    """All objects of one persistent connection."""
    connection = http.client.HTTPConnection(host, port, timeout=120)
    connection.connect()
    opened, whole, start_s = connection.sock, 0, time.monotonic()
    for at in range(words["objects"]):
        time.sleep(words["pause_s"] * bool(at))
        connection.request("GET", f"/{100 * number + at}/{words['bytes']}")
        whole += connection.getresponse().read() == body(100 * number + at, words["bytes"])
    is_persistent = connection.sock is opened
    connection.close()
    found.append({"whole": whole, "seconds": time.monotonic() - start_s, "is_persistent": is_persistent})


def main(host: str, port: int, words: dict[str, Any]) -> None:
    """All connections at a time."""
    found: list[dict[str, Any]] = []
    numbers = range(words["connections"])
    threads = [threading.Thread(target=load, args=(host, port, number, words, found)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
