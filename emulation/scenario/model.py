# SPDX-License-Identifier: MIT
"""The input of a run: a link, flows and times. The models are immutable and validated. Equal scenarios give equal runs.

link   the bottleneck and the other elements of the path (emulation/scenario/path.py)
flow   an algorithm with its parameters, or with an ensemble that it follows, and the data that its application sends

    sender -> before -> [queue | link] -> (loss) -> behind -> receiver -> acks -> propagation -> sender

A proxy in front of the link splits each flow's connection. The data then come from a server, over another link:

    server -> link of the proxy -> proxy, buffer_bytes -> the path above, with the flow's own algorithm -> client
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from emulation.errors import EmulationError
from emulation.scenario.delays import BaseDelay
from emulation.scenario.path import AckPath, Frozen, PathElement, QueuedLink
from emulation.scenario.video import VideoSpec
from emulation.traces import Trace
from kmod.abi import ALGORITHMS

# The algorithms of kmod/core/params.def, and `fixed`, a window that never changes.
if TYPE_CHECKING:
    Cca = str
else:
    Cca = Literal[(*ALGORITHMS, "fixed")]
MSS_BYTES = 1448
WIRE = 1500 / MSS_BYTES  # a policer's rate counts whole packets, R-TCP's estimate counts their payload
NO_END_PKTS = 2**32 - 1
NO_WINDOW_PKTS = 2**30
MOST_TRANSFERS = 1_000_000
# Fields that a further connection of a video does not have.
OF_FIRST = ("start_s", "stop_s", "size_bytes", "transfers", "video")
FIXED_PARAMS = ("cwnd_pkts", "pacing_bytes_per_s")
# The algorithms whose flows can follow an ensemble, in the engine and in the kernel.
WITH_ENSEMBLE = tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.axes)


class LinkSpec(QueuedLink):
    """The bottleneck, where queueing delay and throughput are measured, and the path around it."""

    rtt_ms: float = Field(
        100.0, gt=0, le=60_000, description="propagation delay, both ways together; with `delays` the shortest one"
    )
    delays: BaseDelay | None = Field(None, description="propagation delays by time, instead of rtt_ms")
    loss: float = Field(0.0, ge=0, lt=1, description="share of the delivered packets lost at random")
    before: tuple[PathElement, ...] = Field((), max_length=16, description="elements before the queue, in path order")
    behind: tuple[PathElement, ...] = Field((), max_length=16, description="elements after the link, in path order")
    acks: AckPath = Field(AckPath(), description="elements that ACKs pass on their way back")

    @model_validator(mode="after")
    def _one_delay(self) -> LinkSpec:
        if self.delays is None:
            return self
        least_ms = self.delays.least_rtt_ms
        if "rtt_ms" in self.model_fields_set and self.rtt_ms != least_ms:
            raise ValueError(f"expected either rtt_ms or delays, got both, with an rtt_ms of {self.rtt_ms:g}")
        object.__setattr__(self, "rtt_ms", least_ms)
        return self


class Transfer(Frozen):
    """Data objects on one connection: `count` objects of one size, each followed by an idle gap."""

    size_bytes: int = Field(ge=1, le=MSS_BYTES * (NO_END_PKTS - 1))
    gap_s: float = Field(0.0, ge=0, le=86400, description="from when it is acknowledged to when the next one begins")
    count: int = Field(1, ge=1, le=MOST_TRANSFERS, description="number of these objects, one after the other")

    @property
    def size_pkts(self) -> int:
        """The number of segments of one object."""
        return -(-self.size_bytes // MSS_BYTES)


class ReceiverSpec(Frozen):
    """The receiving end: when it sends ACKs, and the window that it offers. The defaults are those of Linux.

    Without a receive window only the congestion window limits the data in flight. With `autotune` the window begins at
    64 KiB and grows up to `window_bytes` as Linux' window does.
    """

    window_bytes: int | None = Field(
        None, ge=MSS_BYTES, le=MSS_BYTES * NO_WINDOW_PKTS, description="largest offered window, in whole segments"
    )
    autotune: bool = Field(default=False, description="it grows with the received data, as tcp_moderate_rcvbuf")
    ack_every: int = Field(2, ge=1, le=1000, description="segments in order per ACK")
    ack_delay_ms: float = Field(40.0, ge=0, le=200, description="longest delay of an ACK of fewer; may grow to 200 ms")
    quick_acks: int = Field(16, ge=0, le=1000, description="ACKs of single segments, at the start and after silence")
    stretch_pkts: int = Field(1, ge=1, le=65535, description="segments of a burst that one ACK covers, as with GRO")
    stretch_gap_ms: float = Field(0.05, ge=0, le=100, description="segments within this time of each other are a burst")

    @property
    def window_pkts(self) -> int:
        """The maximum of the window in segments."""
        return NO_WINDOW_PKTS if self.window_bytes is None else self.window_bytes // MSS_BYTES


class FlowSpec(Frozen):
    """A connection and its data: data without end, a file of size_bytes, consecutive transfers, or a video.

    params: values that replace the algorithm's defaults, by name. cca: `fixed` is a constant window for tests.
    """

    cca: Cca = "gr"
    params: dict[str, Annotated[int, Field(ge=0, lt=2**32)]] = Field(default={})
    ensemble_text: str | None = Field(None, repr=False, description="the table as /proc takes it")
    delay_class: int = Field(0, ge=0, le=7, description="index of the class in the table")
    start_s: float = Field(0.0, ge=0, le=86400, description="in the run, or after the end of the flow `after`")
    after: int | None = Field(None, ge=0, description="starts when all of that flow, one before this, is acknowledged")
    stop_s: float | None = Field(None, gt=0, le=86400, description="sends no new data from here on; None: to the end")
    size_bytes: int | None = Field(None, ge=1, description="amount of data that the application sends; None: no end")
    transfers: tuple[Transfer, ...] = Field((), description="data objects with idle gaps, instead of size_bytes")
    video: VideoSpec | None = Field(None, description="a player requests a video in chunks, instead of size_bytes")
    video_of: int | None = Field(
        None, ge=0, description="number of an earlier flow; this one is a further connection of its video"
    )
    receiver: ReceiverSpec = Field(ReceiverSpec(), description="how the receiver acknowledges, and its window")
    client: str = Field(
        "client",
        min_length=1,
        max_length=64,
        description="the client that receives; its flows share a bucket, and R-TCP's knowledge of the client",
    )

    @model_validator(mode="after")
    def _within_ranges(self) -> FlowSpec:
        self.values()
        if self.ensemble_text is not None and self.cca not in WITH_ENSEMBLE:
            raise ValueError(f"expected an ensemble only for {', '.join(WITH_ENSEMBLE)}, which take one")
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise ValueError("expected stop_s after start_s")
        if self.video_of is not None and self.after is not None:
            raise ValueError("expected either video_of or after, got both")
        if self.stop_s is not None and self.after is not None:
            raise ValueError("expected no stop_s beside after: when such a flow starts is not known before the run")
        return self

    @model_validator(mode="after")
    def _within_a_connection(self) -> FlowSpec:
        if self.size_bytes is not None and self.transfers:
            raise ValueError("expected either size_bytes or transfers, got both")
        if self.video is not None and (self.size_bytes is not None or self.transfers):
            raise ValueError("expected one of size_bytes, transfers and video, got video and another")
        if self.video_of is not None and any(getattr(self, name) for name in OF_FIRST):
            raise ValueError(f"expected video_of without {', '.join(OF_FIRST)}, which the video's own flow may have")
        count = sum(transfer.count for transfer in self.transfers)
        if count > MOST_TRANSFERS:
            raise ValueError(f"expected at most {MOST_TRANSFERS} transfers, got {count}")
        if sum(transfer.size_pkts * transfer.count for transfer in self.transfers) >= NO_END_PKTS:
            raise ValueError(f"expected transfers of less than 2^32 - 1 segments of {MSS_BYTES} bytes in all")
        return self

    @property
    def has_end(self) -> bool:
        """Whether the application sends a limited amount of data."""
        return self.video is not None or (self.video_of is None and bool(self.plan))

    @property
    def plan(self) -> tuple[Transfer, ...]:
        """The application's data as transfers; none if it has no end.

        Raises EmulationError if the flow plays a video, whose chunks are chosen during the run.
        """
        if self.video is not None or self.video_of is not None:
            raise EmulationError("video: expected size_bytes or transfers, which real links take; the simulator alone "
                                 "plays a video (ccatune simulate)")  # fmt: skip
        if self.size_bytes is None or self.size_bytes > MSS_BYTES * (NO_END_PKTS - 1):
            return self.transfers
        return (Transfer(size_bytes=self.size_bytes),)

    def transfer_sizes(self) -> Iterator[int]:
        """Yield the bytes of each transfer, in order."""
        for transfer in self.plan:
            yield from repeat(transfer.size_bytes, transfer.count)

    def values(self) -> list[int]:
        """Return all parameters of the algorithm in the engine's order.

        Raises ValueError if a name is unknown, a value is out of range, or `fixed` has no window size.
        """
        if self.cca == "fixed":
            unknown = set(self.params) - set(FIXED_PARAMS)
            if unknown or not self.params.get("cwnd_pkts"):
                raise ValueError(f"expected cwnd_pkts >= 1 and pacing_bytes_per_s, got {self.params}")
            return [self.params["cwnd_pkts"], self.params.get("pacing_bytes_per_s", 0)]
        specs = ALGORITHMS[self.cca].params if self.cca in ALGORITHMS else ()
        unknown = set(self.params) - {spec.name for spec in specs}
        if unknown:
            known = ", ".join(spec.name for spec in specs) or "none"
            raise ValueError(f"expected parameters of {self.cca} ({known}), got {', '.join(sorted(unknown))}")
        values = []
        for spec in specs:
            value = self.params.get(spec.name, spec.default)
            if not spec.minimum <= value <= spec.maximum:
                raise ValueError(f"expected {spec.name} from {spec.minimum} to {spec.maximum} {spec.unit}, got {value}")
            values.append(value)
        return values


class ProxySpec(Frozen):
    """A proxy that splits each flow's connection, and the connection from the server to it."""

    link: LinkSpec
    cca: Cca = Field("cubic", description="algorithm of the servers; of the proxy it is that of the flow")
    params: dict[str, Annotated[int, Field(ge=0, lt=2**32)]] = Field(default={})
    buffer_bytes: int = Field(
        4 * 2**20,
        ge=16 * MSS_BYTES,
        le=MSS_BYTES * NO_WINDOW_PKTS,
        description="of the proxy for each flow: data that it has received and the client has not acknowledged",
    )

    @property
    def buffer_pkts(self) -> int:
        """The buffer in whole segments."""
        return self.buffer_bytes // MSS_BYTES


class Scenario(Frozen):
    """Flows over a link for a time.

    The measured time begins at warmup_s. window_s: the length of the windows of the result; None: a single window.
    """

    name: str = "scenario"
    link: LinkSpec
    flows: tuple[FlowSpec, ...] = Field((FlowSpec(),), min_length=1)
    duration_s: float = Field(30.0, gt=0, le=86400, description="of the whole run, warm-up included")
    warmup_s: float = Field(0.0, ge=0)
    window_s: float | None = Field(None, ge=1e-3)
    client_keep_s: float = Field(
        600.0,
        ge=0,
        le=86400,
        description="time after its last connection for which R-TCP's knowledge of a client is kept; 0: none",
    )
    seed: int = Field(0, ge=0, lt=2**64)
    proxy: ProxySpec | None = Field(None, description="splits each flow's connection in front of the link")

    @model_validator(mode="after")
    def _splits_plain_flows(self) -> Scenario:
        for number, flow in enumerate(self.flows if self.proxy else ()):
            if flow.transfers or flow.video or flow.after is not None or flow.video_of is not None:
                raise ValueError(
                    f"expected flows.{number} without transfers, video and after, which a proxy does not take"
                )
        return self

    @model_validator(mode="after")
    def _measures_something(self) -> Scenario:
        if self.warmup_s >= self.duration_s:
            raise ValueError("expected warmup_s below duration_s")
        return self

    @model_validator(mode="after")
    def _carries_videos(self) -> Scenario:
        for number, flow in enumerate(self.flows):
            first = None if flow.video_of is None or flow.video_of >= number else self.flows[flow.video_of]
            if flow.video_of is not None and (first is None or first.video is None or first.stop_s is not None):
                raise ValueError(f"expected flows.{number}.video_of of a flow before it (flows count from 0) that has "
                                 f"a video and no stop_s, got {flow.video_of}")  # fmt: skip
        return self

    def video_turn(self, number: int) -> tuple[int, int]:
        """Which chunks a connection of a video carries: those from the first one on, each n-th. 0, 1: all of them."""
        first = self.flows[number].video_of
        first = number if first is None else first
        carriers = [first, *(other for other, flow in enumerate(self.flows) if flow.video_of == first)]
        return carriers.index(number), len(carriers)

    @model_validator(mode="after")
    def _follows_what_ends(self) -> Scenario:
        for number, flow in enumerate(self.flows):
            if flow.after is None:
                continue
            if flow.after >= number:
                raise ValueError(f"expected flows.{number}.after of a flow before it (flows count from 0), "
                                 f"got {flow.after}")  # fmt: skip
            if not self.flows[flow.after].has_end:
                raise ValueError(f"expected flows.{flow.after} with size_bytes, transfers or a video, which "
                                 f"flows.{number} waits for, got data without end")  # fmt: skip
        return self


def of_servers(scenario: Scenario) -> Scenario | None:
    """The connections from the servers to the proxy of a scenario, as a scenario; None without a proxy."""
    proxy = scenario.proxy
    if proxy is None:
        return None
    flows = tuple(
        FlowSpec(cca=proxy.cca, params=proxy.params, start_s=f.start_s, stop_s=f.stop_s, size_bytes=f.size_bytes)
        for f in scenario.flows
    )
    return scenario.model_copy(update={"link": proxy.link, "flows": flows, "proxy": None})


def canonical_text(scenario: Scenario) -> str:
    """Return a scenario as text, from which the keys of kept and recorded runs are computed.

    Fields with their default value are left out. A field that is added later therefore does not change the text of the
    scenarios that do not use it. A changed default does not change it either, so it makes recorded runs worthless.
    Of a trace the content counts, and not the name.
    """
    return json.dumps(_without_defaults(scenario), sort_keys=True)


def _without_defaults(value: Any) -> Any:
    if isinstance(value, Trace):
        return value.digest
    if isinstance(value, tuple):
        return [_without_defaults(part) for part in value]
    if not isinstance(value, BaseModel):
        return value
    fields = {name: (getattr(value, name), field.default) for name, field in type(value).model_fields.items()}
    # The kind of an element is always its default, but distinguishes it from the others.
    return {name: _without_defaults(own) for name, (own, default) in fields.items() if name == "kind" or own != default}
