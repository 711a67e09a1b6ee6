# SPDX-License-Identifier: MIT
"""Real policers and transfers: buckets to the packet, and the same path in the simulator beside."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulation.mahimahi.namespace.policer import rules
from emulation.run.qos import QoS
from emulation.run.simulator import simulate
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario, Transfer
from tests.emulation.real_links.quiet import least_disturbed

# 1000 packets with data, and as many without, as fast as they can be sent to a bucket of this namespace.
BLAST = """\
import json, socket, subprocess, sys, time
from emulation.mahimahi.namespace import policer
plan, text = json.loads(sys.argv[1]), sys.stdin.read()
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
giver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
giver.bind(("127.0.0.1", plan["port"]))
start_s = time.monotonic()
for _ in range(1000):
    giver.sendto(b"x" * 1472, ("127.0.0.1", 9))
    giver.sendto(b"x", ("127.0.0.1", 9))
took_s = time.monotonic() - start_s
print(json.dumps({"took_s": took_s, "packets": policer.Counters().read()}))
"""


@pytest.mark.mahimahi
@pytest.mark.parametrize("bucket_pkts", [1, 20, 488])
def test_a_policer_passes_its_bucket_and_no_more(bucket_pkts: int, repository: Path) -> None:
    # Two policers, the wider one first; 10 packets a second.
    policers: list[dict[str, object]] = [
        {"at": at, "rate_pkts_per_day": 864_000, "bucket_pkts": holds, "buckets": [[0]]}
        for at, holds in enumerate((bucket_pkts + 100, bucket_pkts))
    ]
    text = rules(policers, hook="input", port=5000).replace("tcp sport", "udp sport")
    words = ["unshare", "--net", "--", sys.executable, "-c", BLAST, json.dumps({"port": 5000})]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True, cwd=repository)
    told = json.loads(done.stdout)
    counted, meanwhile = told["packets"], 10 * told["took_s"] + 1
    assert counted["in_0_0"] == 1000
    assert bucket_pkts + 100 <= counted["out_0_0"] <= bucket_pkts + 100 + meanwhile
    assert counted["in_1_0"] == counted["out_0_0"]
    assert bucket_pkts <= counted["out_1_0"] <= bucket_pkts + meanwhile


@dataclass(frozen=True)
class Policed:
    """What policed runs were on real links, with what the simulator says of them; slack: of quiet.Runs."""

    pairs: dict[str, tuple[QoS, QoS]]
    slack: float


@pytest.fixture(scope="module")
def policed() -> Policed:
    """One of each kind."""
    op1 = {"kind": "policer", "rate_mbps": 2.07, "bucket_bytes": 733_000}
    small = {"kind": "policer", "rate_mbps": 0.12, "bucket_bytes": 150_000, "per": "flow"}
    fast = {"rate_mbps": 50, "rtt_ms": 40, "buffer_pkts": 1000}
    objects = (
        Transfer(size_bytes=300_000, gap_s=0.5, count=2),
        Transfer(size_bytes=600_000, gap_s=1),
        Transfer(size_bytes=9),
    )
    flows = {
        "before": (FlowSpec(cca="reno"),),
        "behind": (FlowSpec(cca="reno"),),
        "shared": tuple(FlowSpec(cca="reno", client=client) for client in "aab"),
        "sizes": (FlowSpec(cca="reno", size_bytes=95 * 1448), FlowSpec(cca="reno", size_bytes=130 * 1448)),
        "objects": (FlowSpec(cca="reno", transfers=objects),),
    }
    links = {
        "before": {**fast, "before": (op1,)},
        "behind": {**fast, "behind": (op1,)},
        "shared": {**fast, "rate_mbps": 12, "before": ({**op1, "bucket_bytes": 150_000},)},
        "sizes": {**fast, "rate_mbps": 12, "before": (small,)},
        "objects": {**fast, "rate_mbps": 12, "behind": ({**op1, "bucket_bytes": 450_000},)},
    }
    runs = [
        Scenario(name=name, link=LinkSpec.model_validate(links[name]), flows=flows[name], duration_s=6)
        for name in flows
    ]
    real = least_disturbed(*runs, series_every_s=0.1)
    pairs = zip(real.qos, (simulate(run) for run in runs), strict=True)
    return Policed(dict(zip(flows, pairs, strict=True)), slack=real.slack)


@pytest.mark.mahimahi
@pytest.mark.parametrize(
    ("name", "buckets", "bucket_pkts"), [("before", 1, 488), ("behind", 1, 488), ("shared", 2, 100)]
)
def test_a_bucket_and_its_tokens_are_all_that_passes(
    policed: Policed, name: str, buckets: int, bucket_pkts: int
) -> None:
    real, said = policed.pairs[name]
    (bucket,), (of_simulator,) = ([e for e in qos.elements if e.name == "policer"] for qos in (real, said))
    most = buckets * (bucket_pkts + 172.5 * 6)
    assert (1 - 0.1 * policed.slack) * most <= bucket.passed <= most + buckets
    assert bucket.passed == pytest.approx(of_simulator.passed, rel=0.03 * policed.slack)
    assert bucket.dropped > 50
    assert bucket.entered == bucket.passed + bucket.dropped


@pytest.mark.mahimahi
def test_drops_of_a_real_policer_are_resent_and_not_the_link_s(policed: Policed) -> None:
    for name in ("before", "behind"):
        real, _ = policed.pairs[name]
        rows = {element.name: element for element in real.elements}
        assert list(rows) == (["policer", "link"] if name == "before" else ["link", "policer"])
        assert rows["link"].dropped == real.dropped == 0
        assert real.retransmission_rate == pytest.approx(rows["policer"].dropped / real.sent, abs=0.03 * policed.slack)
        assert real.element_series is not None
        dropped = dict(zip(rows, real.element_series.dropped.sum(axis=0).tolist(), strict=True))
        assert dropped["policer"] == pytest.approx(rows["policer"].dropped, abs=2)
        # What it drops behind the link has crossed that; what it drops in front has not.
        crossed = rows["policer"].entered if name == "behind" else rows["policer"].passed
        assert real.simulated_packets == pytest.approx(crossed, abs=60)
        assert real.flows[0].throughput_mbps == pytest.approx(crossed * 1500 * 8e-6 / 6, rel=0.05)


@pytest.mark.mahimahi
def test_flows_of_one_client_share_a_real_bucket(policed: Policed) -> None:
    of_a, also_of_a, of_b = (flow.goodput_mbps for flow in policed.pairs["shared"][0].flows)
    assert of_a + also_of_a == pytest.approx(of_b, rel=0.1 * policed.slack)


@pytest.mark.mahimahi
def test_a_file_that_a_real_bucket_holds_meets_no_drop(policed: Policed) -> None:
    within, beyond = policed.pairs["sizes"][0].flows
    # In a pause of the machine a sender may probe for a lost tail, which was not dropped; no more than the one or two.
    assert within.retransmission_rate <= 2 / 95
    # 130 packets from a bucket of 100 and 10 tokens a second.
    assert beyond.retransmission_rate > 20 / 200
    assert policed.pairs["sizes"][0].elements[0].dropped >= 20


@pytest.mark.mahimahi
def test_real_transfers_begin_a_gap_behind_what_was_acknowledged(policed: Policed) -> None:
    of_run, of_simulator = policed.pairs["objects"]
    real, said = of_run.flows[0], of_simulator.flows[0]
    assert (
        [t.size_bytes for t in real.transfers]
        == [t.size_bytes for t in said.transfers]
        == [300_000, 300_000, 600_000, 9]
    )
    ends_s = [t.complete_s or 0.0 for t in real.transfers]
    # A pause of the machine makes the sender begin later, never earlier.
    gaps_s = [after.start_s - end_s for after, end_s in zip(real.transfers[1:], ends_s, strict=False)]
    for gap_s, asked_s in zip(gaps_s, (0.5, 0.5, 1.0), strict=True):
        assert asked_s - 1e-6 <= gap_s <= asked_s + 0.25
    assert real.complete_s == ends_s[-1]
    # The bucket holds the first and refills in the gap; the third transfer goes by its tokens.
    quickest_s = said.transfers[0].complete_s
    assert quickest_s is not None
    assert quickest_s - 0.05 <= ends_s[0] <= quickest_s + 0.5
    series, names = of_run.element_series, [element.name for element in of_run.elements]
    assert series is not None
    dropped = series.dropped[:, names.index("policer")]
    third = real.transfers[2].start_s < series.time_s
    assert dropped[~third].sum() == 0
    assert dropped[third].sum() > 0
    assert real.goodput_mbps == pytest.approx(1_200_009 * 8e-6 / 6, rel=0.001)
