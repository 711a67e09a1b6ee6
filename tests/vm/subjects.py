# SPDX-License-Identifier: MIT
"""The modules that the guest's programs are run for, and where they differ for who tests them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis


@dataclass(frozen=True)
class Subject:
    """A module and its algorithm.

    columns: of the tables written here. The first tells rows apart: base * unit + the row's number; cells are the
    others, by class. too_small: a cell's text, and one below its range. knob: a parameter that no table covers, with
    its default and two other values; other_knob likewise. first_axis: what the rows' levels are of. plain: what a
    socket is under for which there is no memory.
    """

    cca: str
    module: str
    columns: tuple[str, ...]
    unit: int
    default_marker: int
    cells: tuple[tuple[int, ...], ...]
    too_small: tuple[str, str]
    knob: tuple[str, int, int, int]
    other_knob: str
    modes: tuple[str, ...]
    steady_modes: tuple[str, ...]
    second_axis: tuple[Axis, ...] = ()
    recorded_beside: tuple[str, ...] = ()
    first_axis: str = "throughput_bytes_per_s"
    plain: str = ""

    @property
    def name(self) -> str:
        """The name that sockets choose."""
        return ALGORITHMS[self.cca].kernel_name

    @property
    def plain_name(self) -> str:
        """The algorithm of a socket for which there is no memory."""
        return self.plain or f"{self.cca}-plain"

    @property
    def marker(self) -> str:
        """The column that tells rows apart."""
        return self.columns[0]

    @property
    def shares_clients(self) -> bool:
        """R-TCP: flows of a client share what is known of its rate limiter, and rows are by that."""
        return self.first_axis == "min_rtt_us"

    @property
    def second_levels(self) -> int:
        """Levels of the second axis; 1 without."""
        return self.second_axis[0].count if self.second_axis else 1


GR = Subject(
    cca="gr",
    module="tcp_gr",
    columns=("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us"),
    unit=1000,
    default_marker=100_000,
    cells=((5_000, 25_000), (5_000, 50_000)),
    too_small=(" 5000 ", " 499 "),
    knob=("cwnd_gain_pct", 150, 250, 300),
    other_knob="loss_hold_permille",
    modes=("slow_start", "cruise", "drain"),
    steady_modes=("cruise",),
    recorded_beside=("roccet", "cubic", "bbr", "bbr3"),
)
ROCCET = Subject(
    cca="roccet",
    module="tcp_roccet",
    columns=("srrtt_bound_pct", "alpha_permille", "beta_permille"),
    unit=10,
    default_marker=100,
    cells=((125, 700), (125, 800)),
    too_small=(" 125 ", " 0 "),
    knob=("c_permille", 400, 500, 600),
    other_knob="drain_us",
    modes=("waiting", "launch", "orbiter", "drain", "recovery"),
    steady_modes=("orbiter", "drain"),
    second_axis=(Axis("min_rtt_us", "log", 10_000, 3, 1),),
)
RTCP_CUBIC = Subject(
    cca="rtcp_cubic",
    module="tcp_rtcp_cubic",
    columns=("probe_every_rounds", "probe_gain_permille", "reduction_permille"),
    unit=10,
    default_marker=20,
    cells=((150, 600), (150, 700)),
    too_small=(" 150 ", " 9 "),
    knob=("candidates", 9, 11, 13),
    other_knob="trigger_rounds",
    modes=("free", "estimating", "capped", "probing", "refilling", "lifted", "verifying"),
    steady_modes=("free", "estimating", "capped"),
    second_axis=(Axis("limit_bytes_per_s", "log", 100_000, 3, 1),),
    first_axis="min_rtt_us",
    plain="rtcp-plain",
)
RTCP_BBR = replace(RTCP_CUBIC, cca="rtcp_bbr", module="tcp_rtcp_bbr", plain="")
RTCP_BBR3 = replace(RTCP_BBR, cca="rtcp_bbr3", module="tcp_rtcp_bbr3")
RTCP = (RTCP_CUBIC, RTCP_BBR, RTCP_BBR3)
SIRA = Subject(
    cca="sira",
    module="tcp_sira",
    columns=("delay_threshold_us", "window_intervals", "queue_threshold_pkts"),
    unit=1000,
    default_marker=10_000,
    cells=((100, 6), (250, 6)),
    too_small=(" 100 ", " 9 "),
    knob=("min_rtt_window_ms", 60_000, 20_000, 30_000),
    other_knob="loss_allowance_permille",
    modes=("startup", "compensate", "reduce", "drain"),
    steady_modes=("compensate", "reduce"),
)
CUBIC = Subject(
    cca="cubic",
    module="tcp_ccatune_cubic",
    columns=("c_permille", "beta_permille", "hystart"),
    unit=11,
    default_marker=400,
    cells=((700, 1), (800, 1)),
    too_small=(" 700 ", " 499 "),
    knob=("hystart_delay_min_us", 4000, 5000, 6000),
    other_knob="hystart_ack_delta_us",
    modes=("waiting", "avoidance"),
    steady_modes=("avoidance",),
    second_axis=(Axis("min_rtt_us", "log", 10_000, 3, 1),),
)
BBR = Subject(
    cca="bbr",
    module="tcp_ccatune_bbr",
    columns=("bandwidth_rounds", "cwnd_gain_permille", "probe_up_permille"),
    unit=5,
    default_marker=10,
    cells=((2000, 1250), (2000, 1100)),
    too_small=(" 2000 ", " 999 "),
    knob=("min_rtt_window_ms", 10_000, 20_000, 30_000),
    other_knob="probe_rtt_ms",
    modes=("startup", "drain", "probe_bw", "probe_rtt"),
    steady_modes=("probe_bw", "probe_rtt"),
    second_axis=(Axis("min_rtt_us", "log", 10_000, 3, 1),),
)
BBR3 = replace(
    BBR,
    cca="bbr3",
    module="tcp_ccatune_bbr3",
    columns=("probe_wait_ms", "cwnd_gain_permille", "probe_up_permille"),
    unit=110,
    default_marker=2000,
    modes=("startup", "drain", "down", "cruise", "refill", "up", "probe_rtt"),
    steady_modes=("down", "cruise", "refill", "up", "probe_rtt"),
)
SUBJECTS = {subject.cca: subject for subject in (GR, ROCCET, *RTCP, SIRA, CUBIC, BBR, BBR3)}
