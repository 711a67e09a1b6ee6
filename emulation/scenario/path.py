# SPDX-License-Identifier: MIT
"""The elements of the path of packets and ACKs: links, token buckets, loss, jitter.

The models are immutable and validated. The kinds are:

    access            a link with its own rate and queue
    policer, shaper   a token bucket that drops (policer) or queues (shaper) packets that do not conform
    stepped_policer   a policer whose rate changes at given times
    loss              loss of each packet with the same probability
    gilbert_elliott   loss in bursts, depending on the state of a channel
    jitter, reorder   packets are held for a time
    clock             packets are held until a clock ticks, and are then released together

Sizes are those of whole packets on the wire: 1500 bytes for a data packet with its headers, 52 bytes for an ACK.
docs/scenarios.md has an example of each kind.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from emulation.traces import OPPORTUNITY_BYTES, Trace

RateMbps = Annotated[float, Field(ge=1e-3, le=1e5)]
BucketOwner = Literal["client", "flow"]
Share = Annotated[float, Field(ge=0, le=1)]


class Frozen(BaseModel):
    """The base of all parts of a scenario: immutable, without unknown fields, with finite numbers only."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)


class RateStep(Frozen):
    """A rate that begins at a time; 0 is an outage."""

    at_s: float = Field(ge=0, le=86400, description="from the start of the run")
    rate_mbps: float = Field(ge=0, le=1e5)


def _check_times(steps: tuple[RateStep, ...]) -> None:
    times_s = [step.at_s for step in steps]
    if steps and (times_s[0] != 0 or any(later - at < 1e-9 for at, later in pairwise(times_s))):
        raise ValueError(f"expected steps at 0 and then ascending at_s, got {times_s}")


class Codel(Frozen):
    """Controlled delay, RFC 8289: drops packets from the front of a queue if packets have waited too long."""

    target_ms: float = Field(5.0, gt=0, le=60_000, description="acceptable waiting time")
    interval_ms: float = Field(100.0, gt=0, le=60_000, description="how long waits must exceed it; about a round trip")


class LinkRate(Frozen):
    """The service rate of a link: given by a trace, constant, or changing in steps."""

    trace: Trace | None = Field(None, description="delivery opportunities; repeats with its period")
    rate_mbps: RateMbps | None = Field(None, description="constant rate, instead of a trace")
    steps: tuple[RateStep, ...] = Field((), description="rates by time, instead of a trace; the last one stays")
    start_ms: int = Field(0, ge=0, lt=2**40, description="place in the trace at which the run begins")
    opportunity_bytes: int = Field(OPPORTUNITY_BYTES, ge=1, lt=2**31, description="bytes that an opportunity carries")

    @model_validator(mode="after")
    def _one_kind(self) -> LinkRate:
        kinds = {"trace": self.trace is not None, "rate_mbps": self.rate_mbps is not None, "steps": bool(self.steps)}
        given = [name for name, is_given in kinds.items() if is_given]
        if len(given) != 1:
            raise ValueError(f"expected either a trace or rate_mbps or steps, got {' and '.join(given) or 'none'}")
        _check_times(self.steps)
        if self.steps and self.steps[-1].rate_mbps == 0:
            raise ValueError("expected a rate above 0 in the last of the steps, got 0")
        return self


class QueuedLink(LinkRate):
    """A link with a queue. A full queue drops arriving packets. CoDel, if it is set, drops packets as well."""

    buffer_pkts: int | None = Field(1000, ge=1, lt=2**32, description="most packets in the queue; None: no limit")
    buffer_bytes: int | None = Field(None, ge=1500, lt=2**40, description="most bytes in the queue; None: no limit")
    codel: Codel | None = Field(None, description="CoDel on this queue; None: drop-tail alone")


class AccessLink(QueuedLink):
    """A link with its own rate and queue, before or behind the bottleneck."""

    kind: Literal["access"] = "access"


class Policer(Frozen):
    """A token bucket, full at first, that drops packets that do not conform.

    During any time t at most bucket_bytes + rate x t passes.
    """

    kind: Literal["policer"] = "policer"
    rate_mbps: RateMbps = Field(description="R: rate at which the bucket fills")
    bucket_bytes: int = Field(ge=1500, lt=2**32, description="B: capacity of the bucket")
    per: BucketOwner = Field("client", description="a bucket for all flows of a client, or one for each flow")


class SteppedPolicer(Frozen):
    """A policer whose rate changes at given times, for example when a quota is used up or renewed.

    A change of the rate does not change the tokens in the bucket.
    """

    kind: Literal["stepped_policer"] = "stepped_policer"
    steps: tuple[RateStep, ...] = Field(min_length=1, description="R by time; the last one stays")
    bucket_bytes: int = Field(ge=1500, lt=2**32, description="B: capacity of the bucket")
    per: BucketOwner = Field("client", description="a bucket for all flows of a client, or one for each flow")

    @model_validator(mode="after")
    def _in_order(self) -> SteppedPolicer:
        _check_times(self.steps)
        if min(step.rate_mbps for step in self.steps) < 1e-3:
            raise ValueError("expected steps to a rate_mbps of at least 0.001 each")
        return self


class Shaper(Frozen):
    """A token bucket, full at first, that queues packets that do not conform. A full queue drops arriving packets."""

    kind: Literal["shaper"] = "shaper"
    rate_mbps: RateMbps = Field(description="R: rate at which the bucket fills")
    bucket_bytes: int = Field(ge=1500, lt=2**32, description="B: capacity of the bucket")
    queue_bytes: int = Field(ge=1500, lt=2**40, description="most bytes in the queue")
    per: BucketOwner = Field("client", description="a bucket and queue for all flows of a client, or for each flow")


class RandomLoss(Frozen):
    """Loses each packet with the same probability."""

    kind: Literal["loss"] = "loss"
    share: float = Field(ge=0, lt=1, description="share of the packets that is lost")


class GilbertElliott(Frozen):
    """A channel with a good and a bad state, which may change before each packet. Gilbert 1960, Elliott 1963.

    The channel is good at first.
    """

    kind: Literal["gilbert_elliott"] = "gilbert_elliott"
    to_bad: float = Field(gt=0, le=1, description="probability per packet of turning bad")
    to_good: float = Field(gt=0, le=1, description="probability per packet of turning good again")
    loss_good: Share = Field(0.0, description="share lost while good")
    loss_bad: Share = Field(1.0, description="share lost while bad")


class Jitter(Frozen):
    """Holds each packet for a time that is uniformly distributed from 0 to max_ms."""

    kind: Literal["jitter"] = "jitter"
    max_ms: float = Field(gt=0, le=60_000, description="longest time for which a packet is held")
    reorder: bool = Field(
        default=False, description="packets may overtake each other; else each waits for those before it"
    )


class Clock(Frozen):
    """Holds packets until a clock ticks, and then releases all of them, as a program does that sleeps in between."""

    kind: Literal["clock"] = "clock"
    least_ms: float = Field(gt=0, le=60_000, description="the shortest time between two ticks")
    most_ms: float = Field(gt=0, le=60_000, description="the longest; each time is drawn evenly between the two")

    @model_validator(mode="after")
    def _in_order(self) -> Clock:
        if self.most_ms < self.least_ms:
            raise ValueError(f"expected most_ms of at least least_ms, got {self.most_ms:g} and {self.least_ms:g}")
        return self


class Reorder(Frozen):
    """Holds a share of the packets for a fixed time, so that later packets overtake them."""

    kind: Literal["reorder"] = "reorder"
    share: float = Field(gt=0, le=1, description="share of the packets that is held")
    delay_ms: float = Field(gt=0, le=60_000, description="time for which they are held")


PathElement = Annotated[
    AccessLink | Policer | SteppedPolicer | Shaper | RandomLoss | GilbertElliott | Jitter | Clock | Reorder,
    Field(discriminator="kind"),
]
ELEMENTS: dict[str, type[Frozen]] = {
    kind.model_fields["kind"].default: kind
    for kind in (AccessLink, Policer, SteppedPolicer, Shaper, RandomLoss, GilbertElliott, Jitter, Clock, Reorder)
}


class AckPath(Frozen):
    """The elements that ACKs pass before the propagation delay. The uplink's queue is unbounded, so no ACK is lost."""

    interval_ms: float | None = Field(
        None, gt=0, le=60_000, description="ACKs leave in bursts, at the multiples of this; None: immediately"
    )
    uplink: LinkRate | None = Field(None, description="link that carries ACKs of 52 bytes; None: no limit")
