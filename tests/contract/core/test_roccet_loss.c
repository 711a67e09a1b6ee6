// SPDX-License-Identifier: MIT
/* kmod/core/roccet.h: losses, in slow start and behind it, timeouts, undo, silence. */
#include "roccet_host.h"

/* ACKs of a recovery, some of which tell of more losses. */
static void take_recovery(u32 acked_pkts, u32 lost_pkts)
{
	f.ack.lost_pkts = lost_pkts;
	take_ack(&f, MS, acked_pkts, 50 * MS);
}

/* "ROCCET ignores loss during Slow Start": the window stays, and goes on growing. */
TEST(a_loss_in_slow_start_is_ignored)
{
	static const u32 thresholds[] = { NO_SSTHRESH, 500 };

	FOR_ROWS(thresholds) {
		open_roccet(100, *c);
		take_ack(&f, MS, 1, 50 * MS);
		begin_recovery();
		CHECK_EQ(f.w.ssthresh_pkts, 101);
		take_recovery(81, 20);
		CHECK_EQ(f.w.cwnd_pkts, 101);
		end_recovery();
		CHECK_EQ(f.w.cwnd_pkts, 101);
		take_ack(&f, MS, 5, 50 * MS);
		CHECK_EQ(f.w.cwnd_pkts, 106);
		CHECK_EQ(f.w.ssthresh_pkts, *c);
		CHECK(!f.roccet_alone.launched);
		CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, 0);
	}
}

/* "... or falsely detected by a retransmission timeout". The host's window is 1 all the same. */
TEST(a_timeout_in_slow_start_is_ignored)
{
	open_roccet(100, NO_SSTHRESH);
	take_ack(&f, MS, 1, 50 * MS);
	f.roccet_alone.cubic.w_max_pkts = 77;
	time_out();
	CHECK_EQ(f.w.ssthresh_pkts, 101);
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 2);
	CHECK_EQ(f.w.ssthresh_pkts, NO_SSTHRESH);
	CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, 77);
	CHECK(!f.roccet_alone.launched);
	/* It is still the initial one, and halves what it leaves. */
	f.w.cwnd_pkts = 100;
	set_measured(100, 200, 100);
	CHECK(roccet_launch(&f.roccet_alone, &f.p.roccet, f.ack.now_us, &f.w));
	CHECK_EQ(f.w.cwnd_pkts, 50);
}

/* More than ack_tolerance_pct of what a recovery saw: the buffer is too short for srRTT to tell. */
TEST(a_slow_start_that_loses_much_ends)
{
	static const struct {
		bool launched; u32 acked, lost, cwnd_pkts, ssthresh_pkts;
	} cases[] = {
		{ false, 80, 20, 100, NO_SSTHRESH },
		{ false, 79, 21, 50, 50 },
		{ false, 0, 1, 50, 50 },
		{ true, 80, 20, 100, NO_SSTHRESH },
		{ true, 79, 21, 70, 70 },
	};

	FOR_ROWS(cases) {
		open_roccet(100, NO_SSTHRESH);
		f.roccet_alone.launched = c->launched;
		begin_recovery();
		take_recovery(c->acked, c->lost);
		end_recovery();
		f.ack.cwnd_limited = false;
		take_ack(&f, MS, 1, 50 * MS);
		CHECK_EQ(f.w.cwnd_pkts, c->cwnd_pkts);
		CHECK_EQ(f.w.ssthresh_pkts, c->ssthresh_pkts);
		CHECK_EQ(f.roccet_alone.held_ssthresh_pkts, 0);
	}
}

/* A recovery that another one follows at once: no ACK comes between. */
TEST(a_recovery_behind_one_that_lost_much_is_answered)
{
	open_roccet(100, NO_SSTHRESH);
	begin_recovery();
	take_recovery(50, 50);
	end_recovery();
	begin_recovery();
	CHECK_EQ(f.w.ssthresh_pkts, 50);
	CHECK_EQ(f.w.cwnd_pkts, 100);
	CHECK(f.roccet_alone.launched && !f.roccet_alone.ignores);
	end_recovery();
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.w.ssthresh_pkts, 50);
	/* One that lost little is ignored, and so is the next. */
	open_roccet(100, NO_SSTHRESH);
	begin_recovery();
	take_recovery(95, 5);
	end_recovery();
	begin_recovery();
	CHECK_EQ(f.w.ssthresh_pkts, 100);
	end_recovery();
	f.ack.cwnd_limited = false;
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.w.ssthresh_pkts, NO_SSTHRESH);
}

/* A timeout, or an undo, says that the recovery's losses tell nothing. */
TEST(what_a_timeout_or_an_undo_ends_shows_no_congestion)
{
	static const enum cca_event_kind kinds[] = { CCA_TIMEOUT, CCA_UNDO };

	FOR_ROWS(kinds) {
		open_roccet(100, NO_SSTHRESH);
		begin_recovery();
		take_recovery(10, 90);
		take_event(&f, *c, 0, 0);
		take_ack(&f, MS, 1, 50 * MS);
		CHECK_EQ(f.w.ssthresh_pkts, NO_SSTHRESH);
		CHECK(!f.roccet_alone.launched);
	}
}

/* Behind slow start: CUBIC's answer, W_max and fast convergence and all, also in the drain. */
TEST(a_loss_behind_slow_start_is_cubics)
{
	static const struct { u32 cwnd_pkts, w_max_pkts, fast; } cases[] = {
		{ 1000, 0, 1 }, { 1000, 2000, 1 }, { 1000, 2000, 0 }, { 3, 10, 1 }, { 1, 0, 1 },
	};
	u32 i;

	for (i = 0; i < CCA_COUNT_OF(cases); i++) {
		struct cubic_params params;
		struct cubic_state cubic;
		struct cca_window w;

		row = (int)i + 1;
		open_roccet(cases[i].cwnd_pkts, 1);
		f.p.roccet.fast_convergence = cases[i].fast;
		f.roccet_alone.cubic.w_max_pkts = cases[i].w_max_pkts;
		f.roccet_alone.drains = i % 2;
		roccet_cubic_params(&f.p.roccet, &params);
		cubic = f.roccet_alone.cubic;
		w = f.w;
		CHECK_EQ(roccet_ssthresh(&f.roccet_alone, &f.p.roccet, &f.w), cubic_ssthresh(&cubic, &params, &w));
		CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, cubic.w_max_pkts);
		f.w.cwnd_pkts = 1;
		CHECK_EQ(roccet_undo(&f.roccet_alone, &f.w), cases[i].cwnd_pkts);
	}
}

TEST(a_timeout_behind_slow_start_is_cubics)
{
	open_roccet(100, 50);
	take_ack(&f, MS, 1, 50 * MS);
	f.roccet_alone.cubic.w_max_pkts = 100;
	f.roccet_alone.drains = true;
	time_out();
	CHECK_EQ(f.w.ssthresh_pkts, 70);
	CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, 0);
	CHECK(!f.roccet_alone.drains);
	/* The slow start that follows is a later one: it ends by beta. */
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.roccet_alone.phase, ROCCET_LAUNCH);
	CHECK(f.roccet_alone.launched);
}

/* Section XI: "ignore loss as a CE generally". */
TEST(losses_may_be_ignored_everywhere)
{
	open_roccet(100, 50);
	f.p.roccet.ignore_loss = 1;
	take_ack(&f, MS, 1, 50 * MS);
	f.roccet_alone.cubic.w_max_pkts = 77;
	begin_recovery();
	take_recovery(10, 90);
	end_recovery();
	CHECK_EQ(f.w.cwnd_pkts, 100);
	time_out();
	CHECK_EQ(f.w.ssthresh_pkts, 100);
	CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, 77);
	/* In slow start, too, however much is lost. */
	open_roccet(100, NO_SSTHRESH);
	f.p.roccet.ignore_loss = 1;
	begin_recovery();
	take_recovery(10, 90);
	end_recovery();
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.w.ssthresh_pkts, NO_SSTHRESH);
	/* What lets round trips grow is congestion all the same. */
	open_roccet(100, 50);
	f.p.roccet.ignore_loss = 1;
	set_measured(100, 500, 0);
	CHECK(roccet_orbit(&f.roccet_alone, &f.p.roccet, f.ack.now_us, &f.w));
	CHECK_EQ(f.w.cwnd_pkts, 70);
}

/* The host has the window: it is neither looked at nor changed, and counting begins anew. */
TEST(in_recovery_nothing_is_looked_at)
{
	u32 i;

	open_roccet(100, 50);
	set_measured(900, 5000, 0);
	begin_recovery();
	for (i = 0; i < 1000; i++) {
		f.roccet_alone.srrtt_q16 = 9 * ONE_Q16;
		take_recovery(1, 0);
	}
	CHECK_EQ(f.w.cwnd_pkts, 100);
	CHECK_EQ(f.roccet_alone.events, 0);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 50 * MS);
	end_recovery();
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.roccet_alone.interval_start_us, f.ack.now_us);
	CHECK_EQ(f.roccet_alone.windows_q8, 0);
}

/* One loss may follow the other without end: the threshold, the host's target, is what is reduced. */
TEST(in_a_recovery_whose_loss_is_ignored_it_looks_on)
{
	u32 i, recoveries;

	open_roccet(100, 50);
	f.p.roccet.ignore_loss = 1;
	take_ack(&f, MS, 1, 50 * MS);
	for (recoveries = 0; recoveries < 10 && !f.roccet_alone.events; recoveries++) {
		begin_recovery();
		CHECK_EQ(f.w.ssthresh_pkts, 100);
		for (i = 0; i < 100 && !f.roccet_alone.events; i++) {
			f.roccet_alone.srrtt_q16 = 9 * ONE_Q16;
			take_recovery(i % 2, 1);
		}
		if (!f.roccet_alone.events)
			end_recovery();
	}
	CHECK_EQ(f.roccet_alone.events, 1);
	CHECK(recoveries >= 2);
	CHECK_EQ(f.w.ssthresh_pkts, 70);
	CHECK_EQ(f.w.cwnd_pkts, 100);
	end_recovery();
	CHECK_EQ(f.w.cwnd_pkts, 70);
	CHECK_EQ(roccet_undo(&f.roccet_alone, &f.w), 70);
}

/* Slow start, too, ends there, and its threshold does not come back. */
TEST(in_an_ignored_recovery_of_slow_start_launch_may_end_it)
{
	u32 i;

	open_roccet(100, NO_SSTHRESH);
	take_ack(&f, MS, 1, 50 * MS);
	f.w.cwnd_pkts = 100;
	begin_recovery();
	for (i = 0; i < 300 && !f.roccet_alone.launches; i++) {
		f.roccet_alone.srrtt_q16 = 9 * ONE_Q16;
		take_recovery(1, 0);
	}
	CHECK_EQ(f.roccet_alone.launches, 1);
	CHECK_EQ(f.w.ssthresh_pkts, 50);
	CHECK_EQ(f.w.cwnd_pkts, 100);
	end_recovery();
	f.ack.cwnd_limited = false;
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 50);
	CHECK_EQ(f.w.ssthresh_pkts, 50);
}

/* Windows that nobody used for want of data are not missed ACKs. */
TEST(behind_silence_counting_begins_anew)
{
	static const enum cca_event_kind kinds[] = { CCA_TRANSFER_STARTED, CCA_IDLE_RESTART };

	FOR_ROWS(kinds) {
		open_roccet(100, 50);
		take_ack(&f, MS, 1, 50 * MS);
		f.roccet_alone.srrtt_q16 = 9 * ONE_Q16;
		take_event(&f, *c, 10 * SECOND, 0);
		take_ack(&f, MS, 1, 400 * MS);
		CHECK_EQ(f.roccet_alone.events, 0);
		CHECK_EQ(f.roccet_alone.windows_q8, 0);
		CHECK_EQ(f.roccet_alone.interval_start_us, f.ack.now_us);
		CHECK_EQ(f.w.cwnd_pkts, 100);
	}
}
