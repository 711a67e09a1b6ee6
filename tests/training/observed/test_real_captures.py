# SPDX-License-Identifier: MIT
"""A capture of this machine's kernel behind a policer of its own, in a network namespace."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.bpf.link import GO_FIRST
from training.observed.captures import read_capture
from training.observed.policing import limits_of, segments_of

pytestmark = pytest.mark.mahimahi

RATE_MBPS = 625 * 1024 * 8 / 1e6  # nft's kbytes
# If others delay it, its bucket fills in each pause, and the losses say little of the rate.
TRANSFER = """
    import socket, threading
    listener = socket.create_server(("127.0.0.1", 5001))
    def serve():
        connection, _ = listener.accept()
        for _ in range(2):
            connection.recv(8)
            connection.sendall(bytes(1_500_000))
    threading.Thread(target=serve, daemon=True).start()
    client = socket.create_connection(("127.0.0.1", 5001))
    for _ in range(2):
        client.sendall(bytes(8))
        left = 1_500_000
        while left:
            left -= len(client.recv(min(left, 65_536)))
    client.sendall(b"the end.")
"""
# Each packet is a packet of its own: the loopback's own ones would be 64 kB. A tcpdump that is killed loses the packets
# that it has not read yet, on a busy machine hundreds, so that the last one has to be in the file before.
COMMANDS = """
    ip link set lo mtu 1500 gso_max_segs 1 up
    nft 'table ip t { chain c { type filter hook input priority 0; }; }'
    nft 'add rule ip t c tcp sport 5001 limit rate over 625 kbytes/second burst 60 kbytes drop'
    tcpdump -q -U --immediate-mode -i lo -s 128 -w "$1" tcp 2>"$1.log" & capturing=$!
    for try in $(seq 200); do grep -q 'listening on' "$1.log" && break; sleep 0.1; done
    "$2" -c "$3"
    for try in $(seq 200); do grep -q 'the end' "$1" && break; sleep 0.1; done
    kill $capturing && wait $capturing || true
"""


@pytest.mark.skipif(
    not all(map(shutil.which, ("tcpdump", "nft", "unshare"))), reason="not installed: tcpdump, nftables"
)
def test_a_policer_of_this_kernel_is_found_in_a_real_capture(tmp_path: Path) -> None:
    path = tmp_path / "real.pcap"
    tmp_path.chmod(0o777)  # tcpdump gives up its rights
    command = ["unshare", "-n", "sh", "-ec", textwrap.dedent(COMMANDS), "sh"]
    subprocess.run([*command, str(path), sys.executable, GO_FIRST + textwrap.dedent(TRANSFER)], check=True, timeout=60)
    (flow,) = read_capture(path).flows
    (limit,) = limits_of([flow])
    assert limit is not None
    assert limit.rate_mbps == pytest.approx(RATE_MBPS, rel=0.05)
    assert [row["policed"] for row in segments_of([flow])] == [True, True]
    for segment in flow.segments():
        assert segment.sends is not None
        passed_bytes = segment.sends["bytes"][~segment.sends["lost"]].sum()
        assert 1_500_000 <= passed_bytes <= 1.1 * 1_500_000  # some were retransmitted needlessly
