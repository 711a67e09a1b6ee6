// SPDX-License-Identifier: MIT
/* kmod/core/gr.h, gr_model.h: timeouts and their undoing, the drain, outages, silence, and hosts that do not keep to the contract. */
#include "gr_path.h"

#define TOP 0xffffffffu

/* --- timeout and undo -------------------------------------------------------- */

TEST(a_timeout_starts_slow_start_anew)
{
	open_cruise(100000);
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);
	CHECK_EQ(f.d.cwnd_pkts, 2);
	CHECK_EQ(f.d.pacing_bytes_per_s, 57920);	/* 4 packets in 100 ms */
	take_ack(&f, 100 * MS, 2, 100000);
	CHECK_EQ(f.d.cwnd_pkts, 4);
}

TEST(an_undone_timeout_leaves_no_trace)
{
	struct cca_decision before;

	open_cruise(100000);
	before = f.d;
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	take_event(&f, CCA_TIMEOUT, 600 * MS, 0);
	take_ack(&f, 100 * MS, 1, 100000);
	take_event(&f, CCA_UNDO, MS, 0);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.d.cwnd_pkts, before.cwnd_pkts);
	CHECK_EQ(f.d.pacing_bytes_per_s, before.pacing_bytes_per_s);
	/* Once is enough. */
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	take_event(&f, CCA_UNDO, MS, 0);
	take_event(&f, CCA_UNDO, MS, 0);
	CHECK_EQ(f.d.cwnd_pkts, before.cwnd_pkts);
}

TEST(a_timeout_within_slow_start_is_undone_too)
{
	u32 i;

	open_gr(&f, SECOND, 0, 100000);
	for (i = 0; i < 3; i++)
		take_ack(&f, 100 * MS, f.d.cwnd_pkts, 100000);
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	CHECK_EQ(f.d.cwnd_pkts, 2);
	take_event(&f, CCA_UNDO, 100 * MS, 0);
	CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);
	CHECK_EQ(f.d.cwnd_pkts, 80);
	CHECK_EQ(f.d.pacing_bytes_per_s, 2316800);
	take_event(&f, CCA_UNDO, MS, 0);			/* once is enough */
	CHECK_EQ(f.d.cwnd_pkts, 80);
}

/* The timeout came before an RTT was known, its undo behind the first sample. */
TEST(an_undone_timeout_paces_by_what_is_known_since)
{
	open_gr(&f, SECOND, 0, 0);
	take_event(&f, CCA_TIMEOUT, SECOND, 0);
	take_ack(&f, 100 * MS, 1, 100000);
	take_event(&f, CCA_UNDO, MS, 0);
	CHECK_EQ(f.d.cwnd_pkts, 10);
	CHECK_EQ(f.d.pacing_bytes_per_s, 289600);
}

TEST(an_undo_behind_a_new_cruise_changes_nothing)
{
	struct cca_decision before;

	open_cruise(100000);
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	take_acks(&f, 30, MS, 100000);
	f.ack.lost_pkts = 1;
	take_ack(&f, MS, 1, 100000);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	before = f.d;
	take_event(&f, CCA_UNDO, MS, 0);
	CHECK_EQ(f.d.cwnd_pkts, before.cwnd_pkts);
	CHECK_EQ(f.d.pacing_bytes_per_s, before.pacing_bytes_per_s);
	/* A timeout in the slow start that follows has nothing older to return to. */
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	take_event(&f, CCA_UNDO, MS, 0);
	CHECK_EQ(f.d.cwnd_pkts, before.cwnd_pkts);
}

TEST(an_undo_without_a_timeout_changes_nothing)
{
	struct cca_decision before;

	open_gr(&f, SECOND, 0, 100000);
	take_acks(&f, 5, MS, 100000);
	before = f.d;
	take_event(&f, CCA_UNDO, MS, 0);
	CHECK_EQ(f.d.cwnd_pkts, before.cwnd_pkts);
	CHECK_EQ(f.d.pacing_bytes_per_s, before.pacing_bytes_per_s);
	CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);
}

TEST(the_larger_window_is_what_repeated_timeouts_return_to)
{
	u32 i;

	open_gr(&f, SECOND, 0, 100000);
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);		/* 10 packets were the window */
	for (i = 0; i < 5; i++)
		take_ack(&f, 100 * MS, f.d.cwnd_pkts, 100000);
	CHECK_EQ(f.d.cwnd_pkts, 64);
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	take_event(&f, CCA_UNDO, MS, 0);
	CHECK_EQ(f.d.cwnd_pkts, 64);
}

TEST(other_events_change_nothing)
{
	struct cca_decision before;

	open_cruise(100000);
	before = f.d;
	take_event(&f, CCA_RECOVERY_ENTERED, 0, 0);
	take_event(&f, CCA_RECOVERY_LEFT, 0, 0);
	take_event(&f, (enum cca_event_kind)7, 0, 0);	/* one of a later contract */
	CHECK_EQ(f.d.cwnd_pkts, before.cwnd_pkts);
	CHECK_EQ(f.d.pacing_bytes_per_s, before.pacing_bytes_per_s);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
}

/* --- the drain ------------------------------------------------------------------ */

TEST(an_old_minimum_is_looked_for_again)
{
	u32 i;

	open_cruise(100000);
	f.ack.inflight_pkts = 140;			/* a round trip of 140 ms */
	f.p.gr.min_rtt_window_ms = 1000;
	for (i = 0; i < 1040 && f.gr_alone.mode == GR_CRUISE; i++)
		take_ack(&f, MS, 1, 140000);		/* never near 100 ms again */
	CHECK_EQ(f.gr_alone.mode, GR_DRAIN);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S / 2);
	CHECK_EQ(f.d.cwnd_pkts, 114);			/* 75 x 1.5 + 2 */
	/* Two round trips of 140 ms: then the least seen in them is RTTmin. */
	take_acks(&f, 200, MS, 130000);
	CHECK_EQ(f.gr_alone.mode, GR_DRAIN);
	take_acks(&f, 80, MS, 120000);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.gr_alone.min_rtt_us, 120000);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);
}

TEST(a_drain_without_samples_keeps_the_minimum)
{
	open_cruise(100000);
	f.ack.inflight_pkts = 140;			/* a round trip of 140 ms */
	f.p.gr.min_rtt_window_ms = 1000;
	take_acks(&f, 1040, MS, 140000);
	CHECK_EQ(f.gr_alone.mode, GR_DRAIN);
	f.gr_alone.drain_min_rtt_us = 0;
	take_acks(&f, 400, MS, 0);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.gr_alone.min_rtt_us, 100000);
	take_acks(&f, 40, MS, 140000);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);			/* and it counts as seen now */
}

/* A minimum that is met within 1/16 is no old one. */
TEST(a_minimum_that_is_seen_again_stays)
{
	static const struct { u32 rtt_us; u8 mode; } cases[] = {
		{ 100000, GR_CRUISE }, { 106250, GR_CRUISE }, { 106251, GR_DRAIN },
	};

	FOR_ROWS(cases) {
		open_cruise(100000);
		f.ack.inflight_pkts = 140;
		f.p.gr.min_rtt_window_ms = 1000;
		take_acks(&f, 1100, MS, c->rtt_us);
		CHECK_EQ(f.gr_alone.mode, c->mode);
	}
}

/* The base round trip rises from 50 to 90 ms: GR finds out, and the queue rests in its cushion again. */
TEST(a_longer_path_is_found_by_draining)
{
	loop_open(1158, 50000);
	loop.f.p.gr.delay_threshold_us = 30000;
	loop.f.p.gr.min_rtt_window_ms = 5000;
	path_run(&loop, 10 * SECOND);
	CHECK_EQ(loop.f.gr_alone.min_rtt_us, 50000);
	loop.base_rtt_us = 90000;
	path_run(&loop, 20 * SECOND);
	CHECK(loop.f.gr_alone.min_rtt_us >= 90000 && loop.f.gr_alone.min_rtt_us <= 96000);
	path_count_anew(&loop);
	path_run(&loop, 3 * SECOND);
	CHECK(loop.largest_delay_us <= 36000 + 2 * 1158);
	CHECK(loop.counted_pkts + 300 >= 3 * SECOND / 1158);
}

/* After 61 s without an ACK: the RTTs that contain the outage change neither the rate nor RTTmin. */
TEST(the_rtts_of_an_outage_are_no_delay)
{
	u32 i;

	open_cruise(100000);
	for (i = 0; i < 100; i++) {
		f.ack.inflight_pkts = 500 - i;
		take_ack(&f, i ? MS : 61 * SECOND, 1, 61 * SECOND);
		CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
		CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);
		CHECK_EQ(f.d.cwnd_pkts, 504 - i);	/* four packets may follow */
	}
	f.ack.inflight_pkts = 100;
	for (i = 0; i < 300; i++) {
		take_ack(&f, MS, 1, 100000);
		CHECK(f.d.cwnd_pkts < 500);
	}
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.gr_alone.min_rtt_us, 100000);
}

/* A gap between ACKs that is no longer than the RTTs is the path, not an outage. */
TEST(a_path_that_delivers_a_packet_a_second_has_no_outages)
{
	u32 i;

	open_cruise(60000);
	f.ack.inflight_pkts = 200;
	for (i = 0; i < 100; i++, f.ack.inflight_pkts--)
		take_ack(&f, 1100 * MS, 1, cca_min_u32(1100 * (i + 1), 67000) * MS);
	CHECK(f.d.cwnd_pkts <= f.ack.inflight_pkts + GR_OUTAGE_PKTS + 1);
	f.ack.inflight_pkts = 2;
	take_acks(&f, 10, 1100 * MS, 2200 * MS);
	CHECK(!f.gr_alone.outage);
	CHECK(f.d.cwnd_pkts <= 5);
	CHECK(f.d.pacing_bytes_per_s <= 2 * gr_floor_bytes_per_s(&f.gr_alone));
}

/* Paced at a packet per 1.2 s, GR finds that the path has become shorter. */
TEST(a_lowest_rate_below_a_packet_a_second_is_left)
{
	u32 i;

	open_cruise(1200000);
	f.ack.inflight_pkts = 1;
	take_acks(&f, 20, 1200 * MS, 4 * SECOND);	/* down to the lowest rate */
	CHECK_EQ(f.d.pacing_bytes_per_s, gr_floor_bytes_per_s(&f.gr_alone));
	for (i = 0; i < 50; i++)
		take_ack(&f, (u32)(MSS * 1000000ull / f.d.pacing_bytes_per_s), 1, 60000);
	CHECK(f.d.pacing_bytes_per_s >= 2 * gr_floor_bytes_per_s(&f.gr_alone));
}

/* A window of 4 s does not contain the outage before it. */
TEST(the_bandwidth_after_an_outage_is_measured_anew)
{
	open_cruise(60000);
	f.p.gr.bandwidth_window_us = 4 * SECOND;
	f.ack.inflight_pkts = 60;
	take_ack(&f, 20 * SECOND, 1, 20 * SECOND);
	take_acks(&f, 400, MS, 60000);
	CHECK(f.d.pacing_bytes_per_s >= CRUISE_BYTES_PER_S);
}

TEST(a_timeout_in_a_drain_is_undone_into_it)
{
	u32 i;

	open_cruise(100000);
	f.ack.inflight_pkts = 140;			/* a round trip of 140 ms */
	f.p.gr.min_rtt_window_ms = 1000;
	take_acks(&f, 1040, MS, 140000);
	CHECK_EQ(f.gr_alone.mode, GR_DRAIN);
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	take_event(&f, CCA_UNDO, MS, 0);
	for (i = 0; i < 300 && f.gr_alone.mode == GR_DRAIN; i++)
		take_ack(&f, MS, 1, 110000);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.gr_alone.min_rtt_us, 110000);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);	/* not the half of it */
}

/* --- marks of ECN ---------------------------------------------------------------- */

/* RFC 3168, section 6.1.2: as a lost packet, and once per window of data. */
TEST(a_mark_halves_the_rate_once_a_window)
{
	u32 cwnd_pkts, i;

	open_cruise(100000);
	cwnd_pkts = f.d.cwnd_pkts;
	take_event(&f, CCA_ECN, 0, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S / 2);
	CHECK(f.d.cwnd_pkts <= cwnd_pkts / 2 + 2);
	/* The first ACK finds 10 packets in flight. Until they are delivered the rule would ask for more. */
	for (i = 0; i < 10; i++) {
		take_ack(&f, MS, 1, 100000);
		take_event(&f, CCA_ECN, 0, 0);
		CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S / 2);
	}
	take_ack(&f, MS, 1, 100000);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S / 2);
	take_event(&f, CCA_ECN, 0, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S / 4);
}

/* Packets of the round trip that are lost are not waited for. */
TEST(a_marks_round_trip_ends_with_losses_too)
{
	open_cruise(100000);
	take_event(&f, CCA_ECN, 0, 0);
	take_ack(&f, MS, 1, 100000);
	f.ack.lost_pkts = 9;
	take_ack(&f, MS, 1, 100000);
	take_event(&f, CCA_ECN, 0, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S / 4);
}

/* What was sent before the mark is not counted in the bandwidth behind it, however long W is. */
TEST(the_bandwidth_is_measured_anew_behind_a_mark)
{
	static const u32 windows_us[] = { 20 * MS, 4 * SECOND };
	u32 i;

	for (i = 0; i < 2; i++) {
		open_cruise(100000);
		f.p.gr.bandwidth_window_us = windows_us[i];
		take_event(&f, CCA_ECN, 0, 0);
		take_acks(&f, 11, MS, 100000);
		take_acks(&f, 9, 2 * MS, 100000);
		CHECK(f.d.pacing_bytes_per_s <= CRUISE_BYTES_PER_S / 2 * 13 / 10);
		CHECK(f.d.pacing_bytes_per_s >= CRUISE_BYTES_PER_S / 2);
	}
}

TEST(a_mark_ends_slow_start)
{
	open_gr(&f, SECOND, 0, 100000);
	take_acks(&f, 50, MS, 100000);
	take_event(&f, CCA_ECN, 0, 0);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S / 2);
}

TEST(a_mark_before_an_rtt_is_known_halves_the_window)
{
	open_gr(&f, SECOND, 0, 0);
	take_event(&f, CCA_ECN, 0, 0);
	CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);
	CHECK_EQ(f.d.cwnd_pkts, 5);
	CHECK_EQ(f.d.pacing_bytes_per_s, 0);
	take_event(&f, CCA_ECN, 0, 0);
	take_event(&f, CCA_ECN, 0, 0);
	CHECK_EQ(f.d.cwnd_pkts, 2);
}

/* The slow start behind a timeout is not bounded by an older mark, and its undo leaves the reduced rate. */
TEST(a_timeout_ends_what_a_mark_began)
{
	open_cruise(100000);
	take_event(&f, CCA_ECN, 0, 0);
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	take_acks(&f, 5, MS, 100000);
	CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);
	CHECK_EQ(f.d.cwnd_pkts, 7);
	take_event(&f, CCA_UNDO, MS, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S / 2);
}

/* --- silence ---------------------------------------------------------------------- */

/* Data again after 5 s: what lies before the first ACK is not bandwidth, whatever W is. */
TEST(silence_does_not_lower_the_rate)
{
	static const struct { enum cca_event_kind kind; u32 window_us; } cases[] = {
		{ CCA_TRANSFER_STARTED, 20 * MS },
		{ CCA_IDLE_RESTART, 20 * MS },
		{ CCA_TRANSFER_STARTED, 4 * SECOND },
		{ CCA_IDLE_RESTART, 4 * SECOND },
	};

	FOR_ROWS(cases) {
		u32 i;

		open_cruise(100000);
		f.p.gr.bandwidth_window_us = c->window_us;
		take_event(&f, c->kind, 5 * SECOND, 0);
		CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);
		take_ack(&f, 100 * MS, 1, 125000);
		for (i = 0; i < 300; i++) {		/* W / 32 is 125 ms */
			CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);
			take_ack(&f, MS, 1, 100000 + 1000 * (i % 10));
			if (f.d.pacing_bytes_per_s != CRUISE_BYTES_PER_S)
				break;
		}
		/* The first change is a rise, from a B that is right: x 125 / 104. */
		CHECK(i >= 9);
		CHECK(f.d.pacing_bytes_per_s > CRUISE_BYTES_PER_S * 11 / 10);
		CHECK(f.d.pacing_bytes_per_s <= CRUISE_BYTES_PER_S * 13 / 10);
	}
}

/* Ten packets at once in 10 us behind a silence are a burst of ACKs, not 1 Gbit/s. */
TEST(the_first_acks_behind_silence_are_not_a_rate)
{
	open_cruise(100000);
	take_event(&f, CCA_IDLE_RESTART, 5 * SECOND, 0);
	take_ack(&f, 100 * MS, 1, 100000);
	take_acks(&f, 10, 1, 100000);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);
}

/* A window that the application does not fill says nothing about twice as large a one. */
TEST(slow_start_grows_while_the_window_is_used)
{
	u32 i;

	open_gr(&f, SECOND, 0, 100000);
	f.ack.inflight_pkts = 1;
	for (i = 0; i < 1000; i++)
		take_ack(&f, 100 * MS, 1, 100000);
	CHECK_EQ(f.d.cwnd_pkts, 10);
	f.ack.inflight_pkts = 3;
	take_ack(&f, 100 * MS, 1, 100000);
	CHECK_EQ(f.d.cwnd_pkts, 10);
	f.ack.inflight_pkts = 4;		/* five in flight before the ACK: half of ten */
	take_ack(&f, 100 * MS, 1, 100000);
	CHECK_EQ(f.d.cwnd_pkts, 11);
}

/* The first sample of an RTT comes with a loss: there is no bandwidth yet to leave slow start at. */
TEST(slow_start_left_at_once_keeps_its_own_rate)
{
	open_gr(&f, SECOND, 0, 0);
	f.ack.lost_pkts = 3;
	take_ack(&f, 0, 1, 100000);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.d.pacing_bytes_per_s, 289600);	/* 20 packets in 100 ms */
}

/* --- hosts at their limits ---------------------------------------------------------- */

TEST(a_clock_that_steps_back_does_no_harm)
{
	open_cruise(100000);
	f.ack.now_us -= 40 * MS;
	take_ack(&f, 0, 1, 100000);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);
	take_acks(&f, 200, MS, 100000);
	CHECK(f.d.pacing_bytes_per_s > CRUISE_BYTES_PER_S);
	CHECK(f.d.pacing_bytes_per_s <= 2 * CRUISE_BYTES_PER_S);
}

/* Each parameter at each end of its range, on a link of 10 Mbit/s: the flow goes on. */
TEST(parameters_at_the_ends_of_their_ranges_keep_a_flow_going)
{
	u32 i, end;

	for (i = 0; cca_param_at(CCA_ID_gr, i); i++)
		for (end = 0; end < 2; end++) {
			const struct cca_param_spec *spec = cca_param_at(CCA_ID_gr, i);

			row = (int)(2 * i + end);
			loop_open(1158, 40000);
			cca_param_set(&loop.f.p, i, end ? spec->max : spec->min);
			path_run(&loop, 20 * SECOND);
			path_count_anew(&loop);
			path_run(&loop, 5 * SECOND);
			CHECK(loop.counted_pkts > 5 * SECOND / 1158 / 2);
		}
}
