/* SPDX-License-Identifier: MIT */
/* rtcp.h: R-TCP over CUBIC, BBRv1 and BBRv3, by rows and behind a policer (rtcp_cap.h). */
#include "path.h"
#include "rtcp_limiter.h"

static struct rtcp_client client;

/* --- CUBIC ---------------------------------------------------------------------------- */

static struct flow f;

static void open_cubic(void)
{
	struct cca_start start = { SECOND, 100 * MS, 10, 0, MSS };

	rtcp_client_init(&client, SECOND);
	f.client = &client;
	open_flow(&f, CCA_ID_rtcp_cubic, &start, 0);
	f.w.cwnd_pkts = 100;
}

TEST(test_cubic_without_a_limiter_is_cubic)
{
	struct cubic_params p;
	struct cubic_state s;
	struct cca_window w;
	struct cca_start start = { SECOND, 100 * MS, 10, 0, MSS };
	u32 i;

	open_cubic();
	cca_params_init(&p, CCA_ID_cubic);
	cubic_init(&s, &p, &start);
	w = f.w;
	for (i = 0; i < 300; i++) {
		take_ack(&f, 10 * MS, 3, 100 * MS);
		cubic_on_ack(&s, &p, &f.ack, &w);
		cubic_grow(&s, &p, &w, 3);
		if (i % 100 == 99) {
			f.w.ssthresh_pkts = f.w.cwnd_pkts = flow_ssthresh(&f);
			w.ssthresh_pkts = w.cwnd_pkts = cubic_ssthresh(&s, &p, &w);
		}
		CHECK_EQ(f.w.cwnd_pkts, w.cwnd_pkts);
		CHECK_EQ(f.w.ssthresh_pkts, w.ssthresh_pkts);
	}
	CHECK_EQ(flow_undo(&f), cubic_undo(&s, &w));
}

/* 250,000 bytes/s x 100 ms: 17 packets, in pairs. */
TEST(test_cubic_keeps_its_window_in_the_cap)
{
	struct cca_event ev = { CCA_TIMEOUT, 2 * SECOND, 0, 16, MSS };

	open_cubic();
	know_limit(&client, 250000, 100 * MS);
	CHECK_EQ(flow_ssthresh(&f), 16);
	take_ack(&f, 10 * MS, 2, 100 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 16);
	take_ack(&f, 10 * MS, 2, 100 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 16);
	CHECK_EQ(flow_ssthresh(&f), 11);
	f.w.cwnd_pkts = 5;
	CHECK_EQ(flow_undo(&f), 16);
	flow_on_event(&f, &ev);
	CHECK_EQ(f.rtcp_cubic.state.base.w_max_pkts, 0);
}

/* Without a limit: what is sent comes back after rtt_us, acknowledged in pairs, an odd packet 40 ms later. */
static struct free_path {
	u64 sent_us[8192];
	u32 sent, arrived, acked;	/* packets */
	u32 rtt_us;
	u64 odd_us;			/* when the odd one is acknowledged */
} free_path;

static void free_path_ack(struct free_path *path, u64 now_us)
{
	u32 last = path->arrived - 1, pkts = path->arrived - path->acked, inflight;

	path->acked = path->arrived;
	take_ack(&f, (u32)(now_us - f.ack.now_us), pkts, (u32)(now_us - path->sent_us[last % 8192]));
	for (inflight = path->sent - path->acked; inflight < f.w.cwnd_pkts && inflight < 8000; inflight++)
		path->sent_us[path->sent++ % 8192] = now_us;
}

static void free_path_goes_on(struct free_path *path)
{
	u64 next_us = path->sent_us[path->arrived % 8192] + path->rtt_us;

	if (path->arrived != path->acked && (path->arrived == path->sent || path->odd_us < next_us)) {
		free_path_ack(path, path->odd_us);
		return;
	}
	path->arrived++;
	path->odd_us = next_us + 40 * MS;
	if (path->arrived - path->acked == 2)
		free_path_ack(path, next_us);
}

struct kept_case {
	u32 bytes_per_s, rtt_us, gain_permille;
	u32 lost_at_pkts;		/* the window of the last loss; 0: it begins with a pair */
	u32 eta;
};

/* How long a limit that is no more is kept, at most 20 s. */
static u64 kept_us(const struct kept_case *c)
{
	u64 start_us;

	open_cubic();
	f.rtcp_cubic.params.rtcp.probe_gain_permille = c->gain_permille;
	f.rtcp_cubic.params.rtcp.probe_every_rounds = c->eta;
	know_limit(&client, c->bytes_per_s, c->rtt_us);
	client.before_bytes_per_s = 20 * c->bytes_per_s;
	f.rtcp_cubic.state.flow.srtt_us = c->rtt_us;
	f.w.cwnd_pkts = f.w.ssthresh_pkts = 2;
	if (c->lost_at_pkts) {
		f.w.cwnd_pkts = c->lost_at_pkts;
		f.w.cwnd_pkts = f.w.ssthresh_pkts = flow_ssthresh(&f);
	}
	start_us = f.ack.now_us;
	memset(&free_path, 0, sizeof(free_path));
	free_path.rtt_us = c->rtt_us;
	free_path.sent_us[0] = free_path.sent_us[1] = start_us;
	free_path.sent = 2;
	while (client.kind == RTCP_LIMITED && f.ack.now_us - start_us < 20 * SECOND)
		free_path_goes_on(&free_path);
	return f.ack.now_us - start_us;
}

/* Where gamma is so large that a window takes longer to grow into it than a probe's first rounds. */
TEST(test_a_window_leaves_it_whatever_gamma_is)
{
	static const struct kept_case cases[] = {
		{ 29428, 190000, 1000, 10, 20 }, { 20395, 247000, 1400, 10, 2 }, { 20395, 247000, 1400, 10, 20 },
		{ 16704, 202000, 2000, 10, 2 },	 { 16704, 202000, 2000, 10, 20 }, { 139515, 24136, 2000, 10, 2 },
	};

	FOR_ROWS(cases)
		CHECK(kept_us(c) < 20 * SECOND);
}

/* Whatever the rate and the round trip were; probes of 1.1 and 1.2 times R. */
TEST(test_a_window_leaves_a_limit_that_is_no_more)
{
	static const u32 rates[] = { 25000, 62500, 125000, 187500, 250000, 375000, 625000, 1250000, 2500000 };
	static const u32 rtts_us[] = { 8000, 10000, 15000, 18500, 20000, 30000, 40000, 60000, 100000, 200000 };
	u32 i, j;

	for (i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		for (j = 0; j < sizeof(rtts_us) / sizeof(rtts_us[0]); j++) {
			struct kept_case c = { rates[i], rtts_us[j], 100, 0, 20 };

			row++;
			CHECK(kept_us(&c) < 20 * SECOND);
			c.gain_permille = 200;
			CHECK(kept_us(&c) < 20 * SECOND);
		}
}

/* --- BBR on a path --------------------------------------------------------------------------- */

static struct path run;

/* 20 Mbit/s behind a policer of 2 Mbit/s (6 ms a packet) and 500 packets, full; RTT 40 ms. */
static void open_bbr(u32 id)
{
	struct cca_start start;

	path_open(&run, 600, 40 * MS, 500);
	run.token_time_us = 6000;
	run.bucket_pkts = 500;
	run.now_us = run.link_free_us = run.send_us = 10 * SECOND;
	run.delivered_us = run.first_sent_us = 10 * SECOND;
	run.tokens_us = 10 * SECOND - 500 * 6000;
	start = path_start(&run);
	rtcp_client_init(&client, start.now_us);
	run.f.client = &client;
	open_flow(&run.f, id, &start, 7);
}

/* 1448 bytes in 6 ms: R = 241,333 bytes/s, B = 724,000 bytes. */
static void check_found(void)
{
	CHECK_EQ(client.kind, RTCP_LIMITED);
	CHECK(client.bytes_per_s > 229000 && client.bytes_per_s < 253000);
	CHECK(client.bucket_bytes > 650000 && client.bucket_bytes < 800000);
}

TEST(test_bbr_finds_the_policer_and_hardly_loses)
{
	u32 id;

	for (id = CCA_ID_rtcp_bbr; id <= CCA_ID_rtcp_bbr3; id++) {
		u32 lost, delivered;

		row = (int)id;
		open_bbr(id);
		path_run(&run, 10 * SECOND);
		check_found();
		lost = run.dropped_pkts;
		delivered = run.delivered_pkts;
		path_run(&run, 20 * SECOND);
		lost = run.dropped_pkts - lost;
		delivered = run.delivered_pkts - delivered;
		check_found();
		CHECK(lost * 100 < delivered * 4);
		/* 20 s of tokens are 3,333 packets. */
		CHECK(delivered > 3333 * 95 / 100);
	}
}

/* Section 4.4: reset when equation 13 first holds, off for good once there is a limit. */
TEST(test_bbr1s_own_detector_gives_way)
{
	u32 i;

	open_bbr(CCA_ID_rtcp_bbr);
	for (i = 0; i < 2000 && !client.reduced; i++)
		path_step(&run);
	CHECK(client.reduced && run.f.rtcp_bbr.state.flow.policer_reset);
	CHECK(!run.f.rtcp_bbr.state.base.lt.off);
	for (i = 0; i < 20000 && client.kind == RTCP_UNKNOWN; i++)
		path_step(&run);
	CHECK(run.f.rtcp_bbr.state.base.lt.off && !run.f.rtcp_bbr.state.base.lt.in_use);
	client.kind = RTCP_CLEARED;
	path_run(&run, 5 * SECOND);
	CHECK(run.f.rtcp_bbr.state.base.lt.off && !run.f.rtcp_bbr.state.base.lt.in_use);
}

/* The bucket is empty: what verifies the limiter loses, and the cap holds. */
TEST(test_a_limit_known_before_is_verified_and_holds)
{
	struct cca_start start;

	open_bbr(CCA_ID_rtcp_bbr);
	know_limit(&client, 250000, 100 * MS);
	start = path_start(&run);
	open_flow(&run.f, CCA_ID_rtcp_bbr, &start, 7);
	CHECK(run.f.rtcp_bbr.state.base.lt.off);
	CHECK_EQ(run.f.rtcp_bbr.state.flow.phase, RTCP_VERIFYING);
	run.tokens_us = run.now_us;
	path_run(&run, SECOND / 2);
	CHECK_EQ(client.kind, RTCP_LIMITED);
	CHECK_EQ(run.f.rtcp_bbr.state.flow.phase, RTCP_CAPPED);
	CHECK(run.f.d.pacing_bytes_per_s <= 250000);
	CHECK(run.dropped_pkts && run.dropped_pkts < 30);
}

/* Appendix H, with BBR's own policer: from 2 to 20 Mbit/s. Half of it is back within three seconds. */
TEST(test_a_lifted_limit_is_left_within_seconds)
{
	u32 id;

	for (id = CCA_ID_rtcp_bbr; id <= CCA_ID_rtcp_bbr3; id++) {
		u32 delivered;

		row = (int)id;
		open_bbr(id);
		path_run(&run, 20 * SECOND);
		check_found();
		run.token_time_us = 0;
		path_run(&run, 3 * SECOND);
		delivered = run.delivered_pkts;
		path_run(&run, 5 * SECOND);
		CHECK(run.delivered_pkts - delivered > 8333 / 2);
	}
}
