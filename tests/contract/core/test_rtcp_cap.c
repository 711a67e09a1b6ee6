/* SPDX-License-Identifier: MIT */
/* rtcp_cap.h and rtcp_probing.h: caps, probes, lifting. */
#include "rtcp_limiter.h"

static struct limited l;
static struct rtcp_flow f;

/* A client whose limiter is known: 250,000 bytes/s and 700,000 bytes, the bucket empty. */
static void open_capped(u32 rtt_us)
{
	struct cca_start start = { SECOND, rtt_us, 10, 0, MSS };

	open_limited(&l, 700000, 250000);
	l.rtt_us = rtt_us;
	memset(&f, 0xa5, sizeof(f));
	/* It has found the limiter itself: what an earlier one found is verified first. */
	rtcp_flow_init(&f, &l.c, &l.p, &start);
	know_limit(&l.c, 250000, rtt_us);
	rtcp_flow_step(&f, &l.c, &l.p, false);
	CHECK_EQ(f.phase, RTCP_CAPPED);
}

static void flow_ack(u32 gap_us, u32 acked_pkts, u32 lost_pkts)
{
	l.ack.now_us += gap_us;
	l.ack.rtt_us = l.rtt_us;
	l.ack.acked_pkts = acked_pkts;
	l.ack.lost_pkts = lost_pkts;
	rtcp_on_ack(&f, &l.c, &l.p, &l.ack);
}

/* At R to a packet, so that tokens neither gather nor run out; rounded down. */
static void flow_runs(u32 rounds)
{
	u32 i;

	for (i = 0; i < rounds; i++)
		flow_ack(l.rtt_us, 250 * (l.rtt_us / MS) / MSS, 0);
}

/* As behind an ACK of a flow that is capped by a window. */
static void be_windowed(bool windowed)
{
	f.windowed = windowed;
	l.c.windowed = windowed;
}

/* Equation 14: 250,000 bytes/s x 100 ms are 17.3 packets. A pair more with two packets of tokens. */
TEST(test_the_window_is_r_times_srtt)
{
	open_capped(100 * MS);
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 16);
	l.c.token_deficit_bytes -= 2 * MSS;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 18);
	/* Equation 15: 1.2 x 17.3 = 20.7, rounded up to pairs. */
	l.c.token_deficit_bytes = l.c.bucket_bytes;
	f.phase = RTCP_PROBING;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 22);
	f.phase = RTCP_LIFTED;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), RTCP_NO_CAP_PKTS);
	f.phase = RTCP_CAPPED;
	l.c.kind = RTCP_CLEARED;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), RTCP_NO_CAP_PKTS);
}

TEST(test_the_window_is_never_below_a_pair)
{
	open_capped(1 * MS);
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 2);
	l.c.bytes_per_s = 0;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 2);
}

/* Equations 16, 17. */
TEST(test_pacing_is_at_most_r)
{
	open_capped(100 * MS);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 250000);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 200000), 200000);
	f.phase = RTCP_PROBING;
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 300000);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 200000), 240000);
	f.phase = RTCP_LIFTED;
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 1000000);
}

/* Equation 21: R sRTT is 25,000 bytes. What is in flight counts as spent. */
TEST(test_tokens_beyond_a_bdp_lift_the_cap)
{
	open_capped(100 * MS);
	l.c.token_deficit_bytes = 700000 - 24990;
	CHECK(rtcp_cap_pkts(&f, &l.c, &l.p) != RTCP_NO_CAP_PKTS);
	l.c.token_deficit_bytes -= 20;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), RTCP_NO_CAP_PKTS);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 1000000);
	l.c.inflight_pkts = 18;
	CHECK(rtcp_cap_pkts(&f, &l.c, &l.p) != RTCP_NO_CAP_PKTS);
}

/* eta = 20 rounds, then three of probing without tokens. */
TEST(test_a_probe_comes_every_eta_rounds_and_lasts_three)
{
	open_capped(100 * MS);
	flow_runs(19);
	CHECK_EQ(f.phase, RTCP_CAPPED);
	flow_runs(1);
	CHECK_EQ(f.phase, RTCP_PROBING);
	rtcp_empty(&l.c);
	flow_ack(100 * MS, 17, 0);
	flow_ack(100 * MS, 17, 0);
	CHECK_EQ(f.phase, RTCP_PROBING);
	flow_ack(100 * MS, 17, 0);
	CHECK_EQ(f.phase, RTCP_CAPPED);
}

TEST(test_a_probe_waits_for_the_tokens_to_be_used_up)
{
	open_capped(100 * MS);
	flow_runs(20);
	CHECK_EQ(f.phase, RTCP_PROBING);
	l.c.token_deficit_bytes = l.c.bucket_bytes - 20000;
	flow_runs(5);
	CHECK_EQ(f.phase, RTCP_PROBING);
	/* But not for ever. */
	for (row = 0; row < 30 && f.phase == RTCP_PROBING; row++) {
		l.c.token_deficit_bytes = l.c.bucket_bytes - 20000;
		flow_runs(1);
	}
	CHECK(row > 8 && row < 20);
}

/* What is lost in its first round was sent before it. */
TEST(test_a_loss_of_its_own_ends_a_probe)
{
	open_capped(100 * MS);
	flow_runs(20);
	CHECK_EQ(f.phase, RTCP_PROBING);
	flow_ack(99 * MS, 20, 1);
	CHECK_EQ(f.phase, RTCP_PROBING);
	CHECK_EQ(f.met, 0);
	flow_ack(1 * MS, 1, 1);
	CHECK_EQ(f.phase, RTCP_REFILLING);
	CHECK_EQ(f.met, 1);
}

/* R / (1 + gamma): 208,333 bytes/s, and 14.3 packets for a round. */
TEST(test_a_round_is_given_back_behind_a_loss)
{
	open_capped(100 * MS);
	f.phase = RTCP_REFILLING;
	f.since = rtcp_stamp(&l.c);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 208333);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 120000), 100000);
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 14);
	flow_ack(99 * MS, 14, 0);
	CHECK_EQ(f.phase, RTCP_REFILLING);
	flow_ack(1 * MS, 1, 0);
	CHECK_EQ(f.phase, RTCP_CAPPED);
}

/* Rounds under the cap until the next probe, which then is under way. */
static u32 rounds_to_probe(u32 most)
{
	u32 rounds;

	for (rounds = 0; rounds < most && f.phase != RTCP_PROBING; rounds++)
		flow_runs(1);
	return rounds;
}

/* R is 5000 bytes an RTT of 20 ms: two packets, and a little. eta rounds are 0.4 s, 2 s are 100; one refills. */
TEST(test_probes_that_met_the_limit_become_rarer_for_a_while)
{
	static const u32 rounds[] = { 20, 41, 61, 81, 101, 101 };
	u32 i;

	open_capped(20 * MS);
	for (i = 0; i < 6; i++) {
		CHECK_EQ(rounds_to_probe(200), rounds[i]);
		rtcp_empty(&l.c);
		flow_ack(20 * MS, 3, 1);
		CHECK_EQ(f.phase, RTCP_REFILLING);
	}
	/* Never sooner than eta rounds, which are 2 s here. */
	open_capped(100 * MS);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(rounds_to_probe(100), i ? 21 : 20);
		rtcp_empty(&l.c);
		flow_ack(100 * MS, 17, 1);
	}
}

/* A change; a transfer. */
TEST(test_probes_that_did_not_meet_the_limit_bring_back_eta)
{
	static const u32 acked_pkts[] = { 9, 3 }, lost_pkts[] = { 0, 1 };
	struct cca_event ev = { CCA_TRANSFER_STARTED, 0, 3, 10, MSS };

	for (row = 0; row < 2; row++) {
		open_capped(20 * MS);
		f.met = 3;
		rounds_to_probe(100);
		rtcp_empty(&l.c);
		flow_ack(20 * MS, acked_pkts[row], lost_pkts[row]);
		ev.now_us = l.ack.now_us;
		if (row == 1)
			rtcp_on_event(&f, &l.c, &l.p, &ev);
		CHECK_EQ(f.met, 0);
		CHECK_EQ(rtcp_wait_us(&f, &l.p), 400 * MS);
	}
}

/* It tells nothing: neither that the limit was met nor that it was not. */
TEST(test_a_probe_that_ends_without_a_loss_leaves_the_wait_as_it_is)
{
	open_capped(20 * MS);
	f.met = 3;
	CHECK_EQ(rounds_to_probe(100), 80);
	rtcp_empty(&l.c);
	for (row = 0; row < 30 && f.phase == RTCP_PROBING; row++)
		flow_ack(20 * MS, 3, 0);
	row = 0;
	CHECK_EQ(f.phase, RTCP_CAPPED);
	CHECK_EQ(f.met, 3);
}

/* More came through than {B, R} has tokens for: no cap, until three rounds have been as expected. */
TEST(test_a_probe_that_shows_a_change_lifts_the_cap)
{
	open_capped(100 * MS);
	flow_runs(20);
	rtcp_empty(&l.c);
	flow_ack(100 * MS, 24, 0);
	CHECK_EQ(f.phase, RTCP_LIFTED);
	flow_ack(100 * MS, 40, 0);
	flow_runs(2);
	CHECK_EQ(f.phase, RTCP_LIFTED);
	flow_runs(1);
	CHECK_EQ(f.phase, RTCP_CAPPED);
}

/* A window of whole pairs may be above R, round after round, behind the same limiter; a pacing rate is not. */
TEST(test_what_a_window_lets_through_is_forgotten_where_a_probe_begins)
{
	for (row = 0; row < 2; row++) {
		open_capped(100 * MS);
		be_windowed(row != 0);
		flow_runs(19);
		l.c.token_deficit_bytes = l.c.bucket_bytes + rtcp_noise_bytes(&l.c) - 1;
		flow_runs(1);
		CHECK_EQ(f.phase, RTCP_PROBING);
		flow_ack(100 * MS, 17 + RTCP_PAIR, 0);
		CHECK_EQ(f.phase, row ? RTCP_PROBING : RTCP_LIFTED);
	}
}

/* What comes through beyond R since a window's probe began is a change: 8 packets and 4 ms of R; 17 a round are R. */
TEST(test_a_windows_probe_that_shows_a_change_lifts_the_cap)
{
	open_capped(100 * MS);
	be_windowed(true);
	flow_runs(20);
	CHECK_EQ(f.phase, RTCP_PROBING);
	rtcp_empty(&l.c);
	flow_ack(100 * MS, 17 + 8, 0);
	CHECK_EQ(f.phase, RTCP_PROBING);
	flow_ack(100 * MS, 17 + 2, 0);
	CHECK_EQ(f.phase, RTCP_LIFTED);
}

/*
 * Of 250,000 bytes/s 9 ms are 1.55 packets: 1.2 times that and rounded up are one pair, by which 16 rounds let through
 * 7.1 packets more than R, less than noise. Of 8 ms, 1.38 packets, a pair lets through ten.
 */
TEST(test_a_probes_window_lets_through_more_than_noise)
{
	open_capped(9 * MS);
	be_windowed(true);
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 2);
	f.phase = RTCP_PROBING;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 4);
	f.srtt_us = 8 * MS;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 2);
}

/* Six rounds where a window is what is capped; pacing shows a change in 154.9 ms (gamma R: 50,000 bytes/s). */
TEST(test_a_window_that_is_lifted_has_the_time_to_grow)
{
	u32 rounds;

	for (row = 0; row < 2; row++) {
		open_capped(10 * MS);
		be_windowed(row != 0);
		rtcp_enter(&f, &l.c, RTCP_LIFTED);
		for (rounds = 0; f.phase == RTCP_LIFTED && rounds < 20; rounds++)
			flow_ack(10 * MS, 1, 0);
		CHECK_EQ(rounds, row ? 6 : 16);
	}
}

/* Paced at its cap, nothing limits the flow but that: how long it takes to find out, at most 20 s. */
static u64 paced_kept_us(bool had_a_window)
{
	u64 start_us, rate;

	open_capped(10 * MS);
	l.c.bytes_per_s = l.c.reported_rate_bytes_per_s = 125000;
	l.c.windowed = had_a_window;
	start_us = l.ack.now_us;
	while (l.c.kind == RTCP_LIMITED && l.ack.now_us - start_us < 20 * SECOND) {
		rate = rtcp_capped_rate(&f, &l.c, &l.p, 1250000);
		flow_ack((u32)(2 * MSS * (u64)SECOND / rate), 2, 0);
	}
	return l.ack.now_us - start_us;
}

/* At 1 Mbit/s and 10 ms no probe by pacing brings what counts as noise behind a window. */
TEST(test_a_paced_flow_is_not_held_by_a_window_that_its_client_had)
{
	CHECK(paced_kept_us(false) < 2 * SECOND);
	CHECK_EQ(l.c.windowed, 0);
	CHECK(paced_kept_us(true) < 2 * SECOND);
	CHECK_EQ(l.c.windowed, 0);
}

/* Probes of three times R and more: a window has not grown into them within three rounds. */
TEST(test_a_windows_probe_lasts_as_for_a_gamma_of_a_half)
{
	u64 us[3];
	u32 i;

	for (i = 0; i < 3; i++) {
		open_capped(20 * MS);
		be_windowed(i != 2);
		l.p.probe_gain_permille = i ? 2000 : 500;
		us[i] = rtcp_probe_us(&f, &l.c, &l.p);
	}
	/* Twice 8 packets and 4 ms of R at half of R; twice 2 and 4 ms, at twice R, in three rounds. */
	CHECK_EQ(us[0], 2ull * (8 * MSS + 976) * SECOND / 125000);
	CHECK_EQ(us[1], us[0]);
	CHECK_EQ(us[2], 60 * MS);
}

/* epsilon is 10 rounds: one less, and the cap comes back. */
TEST(test_a_limiter_that_stays_lifted_is_forgotten)
{
	u32 i, rounds;

	for (rounds = 9; rounds <= 10; rounds++) {
		row = (int)rounds;
		open_capped(100 * MS);
		rtcp_enter(&f, &l.c, RTCP_LIFTED);
		for (i = 0; i < rounds; i++) {
			rtcp_empty(&l.c);
			flow_ack(100 * MS, 40, 0);
		}
		CHECK_EQ(l.c.kind, rounds < 10 ? RTCP_LIMITED : RTCP_UNKNOWN);
		CHECK_EQ(f.phase, rounds < 10 ? RTCP_LIFTED : RTCP_FREE);
		flow_runs(3);
		CHECK_EQ(f.phase, rounds < 10 ? RTCP_CAPPED : RTCP_FREE);
	}
	CHECK_EQ(rtcp_transfer_us(&l.c), 300 * MS);
	CHECK_EQ(l.c.before_bytes_per_s, 0);
	CHECK_EQ(rtcp_tokens(&l.c), 0);
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), RTCP_NO_CAP_PKTS);
}

/* Section 5.3: at once, not when alpha rounds are over. */
TEST(test_loss_beyond_beta_brings_the_cap_back_at_once)
{
	open_capped(100 * MS);
	rtcp_enter(&f, &l.c, RTCP_LIFTED);
	flow_ack(10 * MS, 9, 2);
	CHECK_EQ(f.phase, RTCP_LIFTED);
	flow_ack(10 * MS, 5, 5);
	CHECK_EQ(f.phase, RTCP_CAPPED);
	open_capped(100 * MS);
	l.c.token_deficit_bytes = 0;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), RTCP_NO_CAP_PKTS);
	flow_ack(10 * MS, 5, 6);
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 16);
}

/* RFC 6298's weight: 7/8 of 100 ms and 1/8 of 180 ms. */
TEST(test_srtt_is_smoothed)
{
	open_capped(100 * MS);
	l.rtt_us = 180 * MS;
	flow_ack(10 * MS, 1, 0);
	CHECK_EQ(f.srtt_us, 110 * MS);
	l.rtt_us = 0;
	flow_ack(10 * MS, 1, 0);
	CHECK_EQ(f.srtt_us, 110 * MS);
}

/* What the timeout took for lost: in flight before, less what still is. */
TEST(test_events_reach_the_detector)
{
	struct cca_event ev = { CCA_TIMEOUT, 0, 3, 10, MSS };

	open_capped(100 * MS);
	l.ack.inflight_pkts = 20;
	flow_ack(100 * MS, 17, 0);
	ev.now_us = l.ack.now_us;
	rtcp_on_event(&f, &l.c, &l.p, &ev);
	CHECK(l.c.losing);
	CHECK_EQ(l.c.lost_pkts, 17);
	ev.kind = CCA_UNDO;
	rtcp_on_event(&f, &l.c, &l.p, &ev);
	CHECK(!l.c.losing);
	ev.kind = CCA_RECOVERY_ENTERED;
	rtcp_on_event(&f, &l.c, &l.p, &ev);
	CHECK_EQ(f.inflight_pkts, 3);
}

/* At 64,000 bytes/s and 20 ms gamma R is five bytes a packet's time: sixteen rounds would show nothing. */
TEST(test_a_paced_probe_and_a_lifted_cap_last_until_they_show_a_change)
{
	u64 shows_us = 2ull * (2 * MSS + 250) * SECOND / 12800;

	open_capped(20 * MS);
	l.c.bytes_per_s = 64000;
	CHECK(shows_us > 16 * 20 * MS);
	CHECK_EQ(rtcp_probe_us(&f, &l.c, &l.p), shows_us);
	CHECK_EQ(rtcp_lifted_us(&f, &l.c, &l.p), shows_us);
	/* At R of 250,000 three rounds of 100 ms are more. */
	open_capped(100 * MS);
	CHECK_EQ(rtcp_probe_us(&f, &l.c, &l.p), 300 * MS);
	CHECK_EQ(rtcp_lifted_us(&f, &l.c, &l.p), 300 * MS);
}

/* A second connection to the client of open_capped(). */
static void open_second(u32 rtt_us)
{
	struct cca_start start = { l.ack.now_us, rtt_us, 10, 0, MSS };

	open_capped(rtt_us);
	memset(&f, 0xa5, sizeof(f));
	rtcp_flow_init(&f, &l.c, &l.p, &start);
	rtcp_flow_starts(&f, &l.c, l.ack.now_us);
	rtcp_empty(&l.c);
	CHECK_EQ(f.phase, RTCP_VERIFYING);
}

TEST(test_a_connection_without_the_limit_is_free_after_its_first_packets)
{
	open_second(20 * MS);
	/* In flight: R sRTT of 5,000 bytes, noise of 3,872 and two packets are 8.1 packets. */
	l.c.inflight_pkts = 8;
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 1000000);
	l.c.inflight_pkts = 9;
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 250000);
	flow_ack(1 * MS, 2, 0);
	CHECK_EQ(f.phase, RTCP_VERIFYING);
	flow_ack(1 * MS, 2, 0);
	CHECK_EQ(f.phase, RTCP_LIFTED);
	CHECK(f.reopened);
}

TEST(test_a_connection_behind_the_limit_is_capped_at_its_first_loss)
{
	open_second(20 * MS);
	flow_ack(1 * MS, 1, 1);
	CHECK_EQ(f.phase, RTCP_CAPPED);
	CHECK(!f.reopened);
	/* With tokens left it shows nothing. */
	open_second(20 * MS);
	l.c.token_deficit_bytes -= 200000;
	flow_ack(1 * MS, 1, 1);
	CHECK_EQ(f.phase, RTCP_VERIFYING);
}

TEST(test_a_windows_connection_verifies_with_a_window)
{
	open_second(20 * MS);
	be_windowed(true);
	/* R sRTT of 5,000 bytes, noise of eight packets and 976 bytes, two packets: 14.1. */
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 14);
	l.c.token_deficit_bytes -= 100 * MSS;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 114);
}

/* An estimate that is 15 % low shows a change again and again: the limiter is there nevertheless. */
TEST(test_a_lifted_cap_is_not_forgotten_for_a_little_more_than_r)
{
	u32 i;

	open_capped(10 * MS);
	rtcp_enter(&f, &l.c, RTCP_LIFTED);
	for (i = 0; i < 200; i++)
		flow_ack(10 * MS, 2 - (i % 100 == 0), 0);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
}

/* --- the paper's probing ----------------------------------------------------------------- */

/* Equations 14 and 15 in whole packets: 17.3, and 1.2 x 17.3 = 20.7. A pair is the least. */
TEST(test_the_papers_window_is_in_whole_packets)
{
	open_capped(100 * MS);
	l.p.probing = 1;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 17);
	f.phase = RTCP_PROBING;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 20);
	f.srtt_us = 5 * MS;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), 2);
}

/* Equation 17: min(r, (1 + gamma) R), where the other probing has (1 + gamma) min(r, R). */
TEST(test_the_papers_probe_does_not_raise_bbrs_own_rate)
{
	open_capped(100 * MS);
	l.p.probing = 1;
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 250000);
	f.phase = RTCP_PROBING;
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 300000);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 200000), 200000);
}

/* eta rounds, then three: neither tokens nor losses change that, nor probes that met the limit. */
TEST(test_the_papers_probe_lasts_three_rounds_whatever_is_lost)
{
	u32 i;

	open_capped(100 * MS);
	l.p.probing = 1;
	for (i = 0; i < 3; i++) {
		flow_runs(19);
		CHECK_EQ(f.phase, RTCP_CAPPED);
		flow_runs(1);
		CHECK_EQ(f.phase, RTCP_PROBING);
		flow_ack(100 * MS, 16, 1);
		flow_ack(100 * MS, 16, 2);
		CHECK_EQ(f.phase, RTCP_PROBING);
		flow_ack(100 * MS, 16, 1);
		CHECK_EQ(f.phase, RTCP_CAPPED);
	}
}

/* A change during a probe lifts the cap until three rounds pass without one. */
TEST(test_the_papers_cap_returns_after_three_unchanged_rounds)
{
	open_capped(100 * MS);
	l.p.probing = 1;
	flow_runs(20);
	CHECK_EQ(f.phase, RTCP_PROBING);
	rtcp_empty(&l.c);
	flow_ack(100 * MS, 25, 0);
	CHECK_EQ(f.phase, RTCP_LIFTED);
	flow_ack(100 * MS, 25, 0);
	flow_ack(100 * MS, 17, 0);
	flow_ack(100 * MS, 17, 0);
	CHECK_EQ(f.phase, RTCP_LIFTED);
	flow_ack(100 * MS, 17, 0);
	CHECK_EQ(f.phase, RTCP_CAPPED);
	CHECK(!f.reopened);
}

TEST(test_the_papers_second_connection_is_capped_from_its_first_packet_on)
{
	struct cca_start start = { SECOND, 20 * MS, 10, 0, MSS };

	open_capped(20 * MS);
	l.p.probing = 1;
	rtcp_flow_init(&f, &l.c, &l.p, &start);
	CHECK_EQ(f.phase, RTCP_CAPPED);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 250000);
}

/* --- a flow that only observes ------------------------------------------------------------- */

TEST(test_a_flow_that_observes_is_never_capped)
{
	struct cca_start start = { SECOND, 100 * MS, 10, 0, MSS };

	open_capped(100 * MS);
	l.p.act = 0;
	CHECK_EQ(rtcp_cap_pkts(&f, &l.c, &l.p), RTCP_NO_CAP_PKTS);
	flow_runs(1);
	CHECK_EQ(f.phase, RTCP_FREE);
	CHECK_EQ(rtcp_capped_rate(&f, &l.c, &l.p, 1000000), 1000000);
	rtcp_flow_init(&f, &l.c, &l.p, &start);
	CHECK_EQ(f.phase, RTCP_FREE);
	/* The limiter is known all the same, and caps the flow as soon as it may act. */
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	l.p.act = 1;
	flow_runs(1);
	CHECK_EQ(f.phase, RTCP_CAPPED);
}
