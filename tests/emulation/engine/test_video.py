# SPDX-License-Identifier: MIT
"""Video in the engine: what is chosen against worked values, a player's books, and flows that play.

Of three bitrates, 1, 2 and 4 Mbit/s, BOLA's utilities are 0, ln 2 and ln 4; with gamma p = 5 the worths are V times 5,
5.6931 and 6.3863, and the levels up to which the lower of two neighbours wins V (5 x 2 - 5.6931) / 1 = 4.3069 V and
V (5.6931 x 4 - 6.3863 x 2) / 2 = 5 V chunks.
"""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation import LinkSpec, QoS, Scenario, VideoFlowQoS, VideoQoS, VideoSpec, _engine, simulate
from emulation.scenario.model import FlowSpec
from emulation.scenario.path import Policer
from emulation.scenario.video import Abr
from tests.emulation.engine.links import fixed, run
from tests.prove.scenarios import draw, load

NEVER_NS = 2**63 - 1
TOP = 5 + math.log(4)
ABRS: tuple[Abr, ...] = ("fixed", "bola", "mpc", "robust-mpc", "fast-mpc")


def video(
    abr: str, *, kbps: tuple[int, ...] = (1000, 2000, 4000), chunks: int = 12, chunk_s: float = 4,
    buffer_s: float = 60, first: int = 0, page: int = 0,
) -> _engine.Video:  # fmt: skip
    sizes = [round(rate * 125 * chunk_s) for rate in kbps] * chunks
    return _engine.Video(abr, list(kbps), sizes, chunk_s, buffer_s, first, page)


# --- BOLA ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "following", "most_chunks"),
    # Of a short video, or near an end, 3 chunks; in the middle of a long one all that the buffer holds.
    [(12, 1, 3.0), (12, 6, 3.0), (1000, 1, 3.0), (1000, 100, 15.0)],
)
def test_bola_switches_where_two_bitrates_have_the_same_score(chunks: int, following: int, most_chunks: float) -> None:
    played = video("bola", chunks=chunks)
    v = (most_chunks - 1) / TOP
    for lower, level in ((0, (5 - math.log(2)) * v), (1, 5 * v)):
        at = [played.choose(following, 4 * level + off, 0, [99.0])[0] for off in (-1e-6, 1e-6)]
        assert at == [lower, lower + 1]
    bitrate, wait_for_s = played.choose(following, 0.0, 0, [99.0])
    assert bitrate == 0
    assert wait_for_s == pytest.approx(4 * (most_chunks - 1))


def test_bola_holds_half_of_the_time_to_the_nearer_end() -> None:
    # 20 and 15 chunks of a thousand are played or left: 40 s and 30 s, a chunk less when the request goes.
    assert video("bola", chunks=1000).choose(20, 0.0, 0, [99.0]) == (0, 36.0)
    assert video("bola", chunks=1000).choose(985, 0.0, 0, [99.0]) == (0, 26.0)


def test_bola_fills_its_buffer_with_the_top_bitrate_and_no_more() -> None:
    # Q_D is 3: with more than 2 chunks no score is above 0, and the top one is the highest.
    assert video("bola").choose(3, 11.9, 2, [9.0]) == (2, 8.0)
    # A buffer of two chunks holds the second when the first has room beside it.
    assert video("bola", buffer_s=8).choose(3, 8, 2, [9.0])[1] == 4.0


@pytest.mark.parametrize(
    ("last", "mbps", "bitrate", "wait_for_s"),
    [
        (0, 5.0, 2, 8.0),
        (0, 2.5, 1, 4 * 5 * 2 / TOP),  # what is sustained waits until it is the best
        (0, 1.5, 0, 4 * (5 - math.log(2)) * 2 / TOP),
        (0, 0.1, 0, 4 * (5 - math.log(2)) * 2 / TOP),
        (1, 0.1, 1, 8.0),  # less than the last one's: that stays
        (2, 0.1, 2, 8.0),  # the best is no higher than the last one
    ],
)
def test_bola_goes_up_as_far_as_the_throughput_sustains(
    last: int, mbps: float, bitrate: int, wait_for_s: float
) -> None:
    found = video("bola").choose(2, 7.0, last, [9.0, mbps])
    assert found == (bitrate, pytest.approx(wait_for_s, abs=1e-8))


def test_bola_goes_down_at_once() -> None:
    assert video("bola").choose(2, 1.0, 2, [9.0, 9.0])[0] == 0


# --- MPC -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("buffer_s", "last", "mbps", "bitrate"),
    [
        (2.0, 1, 2.0, 1),  # takes its 2 s: 2 against 1 - 1
        (2.0, 0, 2.0, 0),  # 2 - 1 against 1: of equal ones the lowest
        (2.0, 1, 1.9, 1),  # 0.105 s of no picture: 2 - 0.45
        (2.0, 1, 1.5, 0),  # 0.667 s: 2 - 2.87
        (3.9, 1, 1.0, 1),  # 0.1 s of its 4: 2 - 0.43
    ],
)
def test_mpc_weighs_bitrate_change_and_rebuffering(buffer_s: float, last: int, mbps: float, bitrate: int) -> None:
    played = video("mpc", kbps=(1000, 2000), chunks=2, chunk_s=2, buffer_s=10)
    assert played.choose(1, buffer_s, last, [mbps]) == (bitrate, 8.0)


def test_robust_mpc_takes_the_throughput_at_its_lower_bound() -> None:
    # Of 2 and 1 it is 4/3; the prediction before was off by 100 %, so 2/3: 4 Mbit take 3 s of 3.5, or 6 s.
    for abr, bitrate in (("mpc", 1), ("robust-mpc", 0)):
        played = video(abr, kbps=(1000, 2000), chunks=3, chunk_s=2, buffer_s=10)
        assert played.choose(2, 3.5, 1, [2.0, 1.0])[0] == bitrate


def test_mpc_remembers_five_chunks_and_five_errors() -> None:
    played = video("robust-mpc", kbps=(1000, 2000), chunks=20, chunk_s=2, buffer_s=10)

    def chosen(measured: list[float]) -> list[int]:
        return [played.choose(len(measured), level / 4, 1, measured)[0] for level in range(33)]

    # The last five predictions come from the five chunks before each: what is ten chunks back counts for nothing.
    assert chosen([100.0, *[1.7] * 10]) == chosen([1.7] * 10)
    assert chosen([100.0, *[1.7] * 9]) != chosen([1.7] * 10)
    assert 0 < sum(chosen([1.7] * 10)) < 33


Kbps = st.lists(st.sampled_from([300, 750, 1200, 1850, 2850]), min_size=1, max_size=3, unique=True).map(sorted)


@settings(deadline=None, max_examples=60)
@given(
    kbps=Kbps,
    left=st.integers(1, 7),
    buffer_s=st.floats(0, 12),
    measured=st.lists(st.floats(0.2, 6), min_size=1, max_size=8),
    is_robust=st.booleans(),
)
def test_mpc_is_the_best_of_all_ways(
    kbps: list[int], left: int, buffer_s: float, measured: list[float], is_robust: bool
) -> None:
    """Against a search of all sequences, written down from the paper's equations."""
    following, p, room_s = len(measured), 4.0, 8.0
    last = len(kbps) - 1
    played = video("robust-mpc" if is_robust else "mpc", kbps=tuple(kbps), chunks=following + left, buffer_s=room_s + p)

    def mean(values: list[float]) -> float:
        return len(values) / sum(1 / value for value in values)

    rate = mean(measured[-5:])
    errors = [abs(mean(measured[max(0, i - 5) : i]) - measured[i]) / measured[i] for i in range(1, following)]
    rate /= 1 + max(errors[-5:], default=0) if is_robust else 1

    def qoe(choices: tuple[int, ...]) -> float:
        total, before, level_s = 0.0, last, min(buffer_s, room_s)
        for m in choices:
            takes_s = kbps[m] * p / 1000 / rate
            total += kbps[m] / 1000 - 4.3 * max(0, takes_s - level_s) - abs(kbps[m] - kbps[before]) / 1000
            level_s = min(max(level_s - takes_s, 0) + p, room_s)
            before = m
        return total

    best: dict[int, float] = {}
    for choices in product(range(len(kbps)), repeat=min(left, 5)):
        best[choices[0]] = max(best.get(choices[0], -math.inf), qoe(choices))
    found, wait_for_s = played.choose(following, buffer_s, last, measured)
    assert wait_for_s == room_s
    assert best[found] >= max(best.values()) - 1e-6


# --- FastMPC ---------------------------------------------------------------------------------------------------------


def planned(abr: Abr, *, larger: int = 1) -> _engine.Video:
    """Room for 20 s, and a top bitrate of 1.85 Mbit/s. With these penalties no two plans are equally good."""
    kbps = (300, 750, 1850)
    sizes = [larger * rate * 500 for rate in kbps] * 12
    return _engine.Video(abr, kbps, sizes, 4.0, 24.0, rebuffer_penalty_mbps=3.917, switch_penalty=0.873)


def test_fast_mpc_is_mpc_on_the_grid_of_its_table() -> None:
    """A step of the table is 0.2 s of buffer, or 18.5 kbit/s of throughput."""
    exact, table = planned("mpc"), planned("fast-mpc")
    chosen = {
        (last, level, rate): (
            exact.choose(1, 0.2 * level, last, [0.0185 * rate]), table.choose(1, 0.2 * level, last, [0.0185 * rate])
        )
        for last in range(3) for level in range(0, 101, 4) for rate in range(1, 101, 3)
    }  # fmt: skip
    assert [at for at, (one, other) in chosen.items() if one != other] == []
    assert {choice for (choice, _), _ in chosen.values()} == {0, 1, 2}


def test_fast_mpc_takes_the_nearest_point_of_its_table_and_knows_no_sizes() -> None:
    exact, table = planned("mpc"), planned("fast-mpc")
    draws = random.Random(1)
    for _ in range(300):
        level, rate, last = draws.randrange(101), draws.randrange(1, 101), draws.randrange(3)
        off_s, off_mbps = 0.2 * draws.uniform(-0.49, 0.49), 0.0185 * draws.uniform(-0.49, 0.49)
        near = table.choose(1, max(0.2 * level + off_s, 0), last, [0.0185 * rate + off_mbps])
        assert near == exact.choose(1, 0.2 * level, last, [0.0185 * rate])
    # More throughput than the table has counts as its top, less as its lowest, and more buffer than room as room.
    assert table.choose(1, 9, 0, [99.0]) == table.choose(1, 9, 0, [1.85])
    assert table.choose(1, 9, 0, [1e-5]) == table.choose(1, 9, 0, [0.0185])
    assert table.choose(1, 99, 0, [0.9]) == table.choose(1, 20, 0, [0.9])
    # The last chunk of a video, and one that is a hundred times as large as its bitrate says, have the same entry.
    large = planned("fast-mpc", larger=100)
    for at in (1, 11):
        assert large.choose(at, 10, 1, [0.9]) == table.choose(1, 10, 1, [0.9])


# --- players ---------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(
    of=st.fixed_dictionaries({
        "abr": st.sampled_from(ABRS), "kbps": Kbps.map(tuple), "chunks": st.integers(1, 15),
        "chunk_s": st.floats(0.1, 6), "page": st.sampled_from([0, 1000]),
    }),
    more_s=st.floats(0, 30),
    takes_s=st.lists(st.floats(1e-6, 20), min_size=16, max_size=16),
)  # fmt: skip
def test_a_players_books_balance(of: dict[str, Any], more_s: float, takes_s: list[float]) -> None:
    """In whole nanoseconds: the buffer is never negative nor above its limit, and time played, rebuffering and start-up
    are the time that has passed, whatever the downloads take."""
    chunk_s, page = of["chunk_s"], of["page"]
    sizes = [page, *(round(kbps * 125 * chunk_s) for kbps in of["kbps"])]
    played = video(**of, buffer_s=chunk_s + more_s)
    player = _engine.LonePlayer(played)
    chunk_ns, most_ns = round(chunk_s * 1e9), round((chunk_s + more_s) * 1e9)
    now_ns = start_ns = 5_000_000_000
    for took_s in takes_s:
        if player.is_over:
            break
        size = player.begin(now_ns)
        assert size in sizes
        now_ns += round(took_s * 1e9)
        next_ns = player.complete(now_ns)
        assert next_ns >= now_ns
        if player.chunks:
            last = player.chunks[-1]
            buffer_ns = last["buffer_ns"] - (next_ns - now_ns if next_ns != NEVER_NS else 0)
            assert 0 <= buffer_ns <= last["buffer_ns"] <= most_ns
            startup_ns = player.chunks[0]["complete_ns"] - start_ns
            stood_ns = sum(chunk["rebuffer_ns"] for chunk in player.chunks)
            came_ns = len(player.chunks) * chunk_ns
            assert startup_ns + stood_ns + came_ns - last["buffer_ns"] == now_ns - start_ns
        now_ns = next_ns
    assert player.is_over
    assert next_ns == NEVER_NS


def test_a_player_waits_for_room_and_plays_meanwhile() -> None:
    """Chunks of 1 s that take 0.1 s, a buffer of 3 s: after three chunks one a second."""
    player = _engine.LonePlayer(video("fixed", chunks=6, chunk_s=1, buffer_s=3))
    now_ms = 0
    starts = []
    while not player.is_over:
        starts.append(now_ms)
        player.begin(now_ms * 1_000_000)
        now_ms = player.complete((now_ms + 100) * 1_000_000) // 1_000_000
    assert starts == [0, 100, 200, 1100, 2100, 3100]
    assert [chunk["buffer_ns"] / 1e9 for chunk in player.chunks] == [1.0, 1.9, 2.8, 2.9, 2.9, 2.9]


def test_a_player_stands_still_while_it_has_nothing() -> None:
    player = _engine.LonePlayer(video("fixed", chunks=3, chunk_s=1, page=5))
    player.begin(0)
    assert player.chunks == []
    assert player.complete(400) == 400
    for came_ns in (2_000_000_000, 4_500_000_000, 5_000_000_000):
        player.begin(player.chunks[-1]["complete_ns"] if player.chunks else 400)
        player.complete(came_ns)
    # The start-up is no rebuffering; 2.5 s for a chunk of 1 s is 1.5 s of it.
    assert [chunk["rebuffer_ns"] / 1e9 for chunk in player.chunks] == [0, 1.5, 0]
    assert [chunk["buffer_ns"] / 1e9 for chunk in player.chunks] == [1, 1, 1.5]


def test_what_is_no_video_is_refused() -> None:
    for arguments in (
        ("odd", [1], [1], 1.0, 1.0), ("bola", [], [], 1.0, 1.0), ("bola", [1, 2], [1], 1.0, 1.0),
        ("bola", [1], [1], 1.0, 0.5), ("bola", [1], [1], 0.0, 0.5), ("bola", [1], [1], 1.0, 1.0, 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="expected"):
            _engine.Video(*arguments)
    with pytest.raises(ValueError, match="after the first"):
        video("bola").choose(0, 1.0, 0, [1.0])


# --- flows -----------------------------------------------------------------------------------------------------------

# Ten segments, which are one round of a window of ten: 100 ms and ten packets of 0.6 ms.
TOOK_S = 0.1 + 10 * 0.0006
SMALL = VideoSpec(abr="fixed", bitrates_kbps=(116, 232), sizes_bytes=((14_480, 28_960),) * 5, chunks=5, chunk_s=1,
                  buffer_s=3)  # fmt: skip


def played_by(flow: FlowSpec, **more: float) -> VideoQoS:
    found = run(flow, duration_s=more.pop("duration_s", 20), **more).flows[0]
    assert isinstance(found, VideoFlowQoS)
    return found.video


def test_a_flow_plays_chunk_by_chunk() -> None:
    """Without gaps until the buffer is full, a request at once with the last ACK; then a chunk a second."""
    video = played_by(fixed(10, video=SMALL, start_s=0.5))
    starts_s = [0.5, 0.5 + TOOK_S, 0.5 + 2 * TOOK_S, 1.5 + TOOK_S, 2.5 + TOOK_S]
    assert [chunk.start_s for chunk in video.chunks] == pytest.approx(starts_s)
    assert [chunk.download_s for chunk in video.chunks] == pytest.approx([TOOK_S] * 5)
    assert [chunk.buffer_s for chunk in video.chunks] == pytest.approx(
        [1, 2 - TOOK_S, 3 - 2 * TOOK_S] + [3 - TOOK_S] * 2
    )
    assert (video.start_s, video.startup_s) == pytest.approx((0.5, TOOK_S))
    assert (video.rebuffer_s, video.interruptions, video.switches) == (0, 0, 0)
    assert (video.qoe, video.mean_kbps) == pytest.approx((0.116, 116))


def test_a_slow_link_stops_the_picture() -> None:
    """Chunks that take 0.106 s and play 0.1 s: 6 ms without a picture for each behind the first."""
    video = played_by(fixed(10, video=SMALL.model_copy(update={"chunk_s": 0.1})))
    assert [chunk.rebuffer_s for chunk in video.chunks] == pytest.approx([0, *[TOOK_S - 0.1] * 4])
    assert video.interruptions == 4
    assert video.qoe == pytest.approx(0.116 - 4.3 * 4 * (TOOK_S - 0.1) / 5)


def test_a_page_comes_first_and_what_waits_for_a_video_begins_behind_its_last_chunk() -> None:
    first = fixed(10, video=SMALL.model_copy(update={"page_bytes": 14_480}))
    qos = run(first, fixed(10, size_bytes=14_480, after=0, start_s=1), duration_s=20)
    flow = qos.flows[0]
    assert isinstance(flow, VideoFlowQoS)
    assert [t.size_bytes for t in flow.transfers] == [14_480] * 6
    assert flow.video.startup_s == pytest.approx(2 * TOOK_S)
    assert flow.video.chunks[0].start_s == pytest.approx(TOOK_S)
    assert flow.complete_s == pytest.approx(flow.video.chunks[-1].complete_s)
    assert qos.flows[1].transfers[0].start_s == pytest.approx(flow.complete_s + 1)


def audited(*flows: FlowSpec) -> QoS:
    return simulate(Scenario(link=LinkSpec(rate_mbps=20), flows=flows, duration_s=20), audit=True)


def test_the_connections_of_a_video_take_turns_and_one_that_waits_for_it_begins_after_the_last_chunk() -> None:
    """Five chunks over three connections, of which each request finds a round of ten segments as with one."""
    sizes = tuple((14_480 + 1000 * number, 28_960) for number in range(5))
    spec = SMALL.model_copy(update={"sizes_bytes": sizes, "page_bytes": 9})
    others = [fixed(11, video_of=0) for _ in range(2)]
    flows = (fixed(11, video=spec, start_s=1), *others, fixed(11, size_bytes=9, after=0))
    qos = audited(*flows)
    video = qos.flows[0]
    assert isinstance(video, VideoFlowQoS)
    alone = run(flows[0], duration_s=20).flows[0]
    assert isinstance(alone, VideoFlowQoS)
    assert [chunk.start_s for chunk in video.video.chunks] == pytest.approx(
        [chunk.start_s for chunk in alone.video.chunks]
    )
    of_each = [[sent.size_bytes for sent in flow.transfers] for flow in qos.flows]
    assert of_each == [[9, 14_480, 17_480], [15_480, 18_480], [16_480], [9]]
    starts = [sent.start_s for flow in qos.flows[:3] for sent in flow.transfers][1:]
    assert sorted(starts) == pytest.approx([chunk.start_s for chunk in video.video.chunks])
    last_s = video.video.chunks[-1].complete_s
    assert [flow.complete_s for flow in qos.flows[:3]] == [last_s] * 3
    assert qos.flows[3].transfers[0].start_s == pytest.approx(last_s)
    assert all(len(flow.limits) == 0 for flow in qos.flows)


def test_a_connection_that_has_no_turn_never_opens() -> None:
    short = SMALL.model_copy(update={"chunks": 1, "sizes_bytes": ((9, 99),)})
    qos = audited(fixed(10, video=short), fixed(10, video_of=0))
    assert [len(flow.transfers) for flow in qos.flows] == [1, 0]
    assert qos.flows[1].complete_s is None


def test_a_video_that_is_cut_has_the_chunks_that_came() -> None:
    for video in (played_by(fixed(10, video=SMALL), duration_s=1.25), played_by(fixed(10, video=SMALL, stop_s=1.25))):
        came = [chunk.complete_s is not None for chunk in video.chunks]
        assert came[:4] == [True] * 4
        assert len(came) == 4
    assert played_by(fixed(10, video=SMALL), duration_s=0.01).qoe is None
    assert played_by(fixed(10, video=SMALL, start_s=5), duration_s=1).chunks == ()


def limited(cca: str, abr: Abr, *, seed: int = 0) -> Scenario:
    policer = Policer(rate_mbps=1.3, bucket_bytes=385_000)
    flow = FlowSpec.model_validate({"cca": cca, "video": VideoSpec(abr=abr, chunks=8, page_bytes=200_000)})
    later = flow.model_copy(update={"after": 0, "start_s": 5.0})
    link = LinkSpec(rate_mbps=50, rtt_ms=18, before=(policer,))
    return Scenario(link=link, flows=(flow, later), duration_s=400, seed=seed)


@pytest.mark.parametrize("abr", ABRS)
def test_played_rebuffered_and_waited_add_up_in_a_run(abr: Abr) -> None:
    for flow in simulate(limited("cubic", abr)).flows:
        assert isinstance(flow, VideoFlowQoS)
        video = flow.video
        assert len(video.played) == 8
        assert video.startup_s is not None
        stood_s = 0.0
        for number, chunk in enumerate(video.chunks, start=1):
            assert chunk.complete_s is not None
            stood_s += chunk.rebuffer_s
            assert 0 <= chunk.buffer_s <= 30
            passed_s = chunk.complete_s - video.start_s
            assert video.startup_s + stood_s + 4 * number - chunk.buffer_s == pytest.approx(passed_s)


def test_videos_on_any_path_pass_the_audit_and_come_whole() -> None:
    """On drawn links, with every element of the path and every algorithm."""
    for number in range(24):
        scenario = load(draw(number))
        rng = random.Random(number)
        flows = [
            FlowSpec.model_validate({
                **{name: getattr(flow, name) for name in ("cca", "params", "start_s", "client", "receiver")},
                "video": VideoSpec(abr=rng.choice(ABRS), bitrates_kbps=(100, 400, 900), chunks=rng.randint(1, 6),
                                   chunk_s=rng.choice((0.5, 2)), buffer_s=rng.choice((2, 6)),
                                   page_bytes=rng.choice((0, 50_000))),
            })
            for flow in scenario.flows
        ]  # fmt: skip
        further = FlowSpec(cca=flows[0].cca, params=flows[0].params, client=flows[0].client, video_of=0)
        qos = simulate(scenario.model_copy(update={"flows": (*flows, further)}), audit=True)
        assert all(sent.complete_s is not None for sent in qos.flows[-1].transfers)
        assert len(qos.flows[-1].transfers) == (flows[0].video.chunks // 2 if flows[0].video else None)
        for spec, flow in zip(flows, qos.flows[:-1], strict=True):
            assert isinstance(flow, VideoFlowQoS)
            assert spec.video is not None
            assert len(flow.video.played) == spec.video.chunks
            assert all(0 <= chunk.buffer_s <= spec.video.buffer_s for chunk in flow.video.chunks)
            assert flow.complete_s == flow.video.chunks[-1].complete_s
