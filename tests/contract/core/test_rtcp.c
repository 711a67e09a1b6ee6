/* SPDX-License-Identifier: MIT */
/* rtcp.h: R-TCP over CUBIC, BBRv1 and BBRv3, by rows and behind a policer (rtcp_cap.h). */
#include "rtcp.h"

#include "control_path.h"

static struct rtcp_client client;

/* A limiter of 250,000 bytes/s that is known, its bucket empty. */
static void know_limit(struct rtcp_client *c)
{
	c->kind = RTCP_LIMITED;
	c->bytes_per_s = c->reported_rate_bytes_per_s = 250000;
	c->before_bytes_per_s = 2500000;
	c->theta_permille = 600;
	c->bucket_bytes = c->token_deficit_bytes = 700000;
	c->mss_bytes = MSS;
	c->min_rtt_us = 100 * MS;
}

/* --- CUBIC ---------------------------------------------------------------------------- */

struct cubic_run {
	struct rtcp_cubic_state s;
	struct rtcp_cubic_params p;
	struct cca_window w;
	struct cca_ack ack;
};

static void open_cubic(struct cubic_run *r)
{
	struct cca_start start = { SECOND, 100 * MS, 10, 0, MSS };

	memset(r, 0xa5, sizeof(*r));
	memset(&r->ack, 0, sizeof(r->ack));
	rtcp_cubic_params_init(&r->p);
	rtcp_client_init(&client, SECOND);
	rtcp_cubic_init(&r->s, &r->p, &client, &start);
	r->w.cwnd_pkts = 100;
	r->w.ssthresh_pkts = 0x7fffffffu;
	r->w.credit_pkts = 0;
	r->ack.now_us = SECOND;
	r->ack.mss_bytes = MSS;
}

static void cubic_take(struct cubic_run *r, u32 acked_pkts)
{
	r->ack.now_us += 10 * MS;
	r->ack.rtt_us = 100 * MS;
	r->ack.acked_pkts = acked_pkts;
	r->ack.inflight_pkts = 20;
	rtcp_cubic_on_ack(&r->s, &r->p, &client, &r->ack, &r->w);
	rtcp_cubic_grow(&r->s, &r->p, &client, &r->w, acked_pkts);
}

TEST(test_cubic_without_a_limiter_is_cubic)
{
	struct cubic_run r;
	struct cubic_params p;
	struct cubic_state s;
	struct cca_window w;
	struct cca_start start = { SECOND, 100 * MS, 10, 0, MSS };
	u32 i;

	open_cubic(&r);
	cca_params_init(&p, CCA_ID_cubic);
	cubic_init(&s, &p, &start);
	w = r.w;
	for (i = 0; i < 300; i++) {
		cubic_take(&r, 3);
		cubic_on_ack(&s, &p, &r.ack, &w);
		cubic_grow(&s, &p, &w, 3);
		if (i % 100 == 99) {
			r.w.ssthresh_pkts = r.w.cwnd_pkts = rtcp_cubic_ssthresh(&r.s, &r.p, &client, &r.w);
			w.ssthresh_pkts = w.cwnd_pkts = cubic_ssthresh(&s, &p, &w);
		}
		CHECK_EQ(r.w.cwnd_pkts, w.cwnd_pkts);
		CHECK_EQ(r.w.ssthresh_pkts, w.ssthresh_pkts);
	}
	CHECK_EQ(rtcp_cubic_undo(&r.s, &r.p, &client, &r.w), cubic_undo(&s, &w));
}

/* 250,000 bytes/s x 100 ms: 17 packets, in pairs. */
TEST(test_cubic_keeps_its_window_in_the_cap)
{
	struct cca_event ev = { CCA_TIMEOUT, 2 * SECOND, 0, 16, MSS };
	struct cubic_run r;

	open_cubic(&r);
	know_limit(&client);
	CHECK_EQ(rtcp_cubic_ssthresh(&r.s, &r.p, &client, &r.w), 16);
	cubic_take(&r, 2);
	CHECK_EQ(r.w.cwnd_pkts, 16);
	cubic_take(&r, 2);
	CHECK_EQ(r.w.cwnd_pkts, 16);
	CHECK_EQ(rtcp_cubic_ssthresh(&r.s, &r.p, &client, &r.w), 11);
	r.w.cwnd_pkts = 5;
	CHECK_EQ(rtcp_cubic_undo(&r.s, &r.p, &client, &r.w), 16);
	rtcp_cubic_on_event(&r.s, &r.p, &client, &ev);
	CHECK_EQ(r.s.base.w_max_pkts, 0);
}

/* Without a limit: what is sent comes back after rtt_us, acknowledged in pairs, an odd packet 40 ms later. */
static struct free_path {
	u64 sent_us[8192];
	u32 sent, arrived, acked;	/* packets */
	u32 rtt_us;
	u64 odd_us;			/* when the odd one is acknowledged */
} free_path;

static void free_path_ack(struct cubic_run *r, struct free_path *f, u64 now_us)
{
	u32 last = f->arrived - 1, inflight;

	r->ack.now_us = now_us;
	r->ack.rtt_us = (u32)(now_us - f->sent_us[last % 8192]);
	r->ack.acked_pkts = f->arrived - f->acked;
	r->ack.delivered_pkts = f->acked = f->arrived;
	r->ack.inflight_pkts = inflight = f->sent - f->acked;
	r->ack.cwnd_limited = true;
	rtcp_cubic_on_ack(&r->s, &r->p, &client, &r->ack, &r->w);
	rtcp_cubic_grow(&r->s, &r->p, &client, &r->w, r->ack.acked_pkts);
	for (; inflight < r->w.cwnd_pkts && inflight < 8000; inflight++)
		f->sent_us[f->sent++ % 8192] = now_us;
}

static void free_path_goes_on(struct cubic_run *r, struct free_path *f)
{
	u64 next_us = f->sent_us[f->arrived % 8192] + f->rtt_us;

	if (f->arrived != f->acked && (f->arrived == f->sent || f->odd_us < next_us)) {
		free_path_ack(r, f, f->odd_us);
		return;
	}
	f->arrived++;
	f->odd_us = next_us + 40 * MS;
	if (f->arrived - f->acked == 2)
		free_path_ack(r, f, next_us);
}

struct kept_case {
	u32 bytes_per_s, rtt_us, gain_permille;
	u32 lost_at_pkts;		/* the window of the last loss; 0: it begins with a pair */
	u32 eta;
};

/* How long a limit that is no more is kept, at most 20 s. */
static u64 kept_us(const struct kept_case *c)
{
	struct cubic_run r;
	u64 start_us;

	open_cubic(&r);
	r.p.rtcp.probe_gain_permille = c->gain_permille;
	r.p.rtcp.probe_every_rounds = c->eta;
	know_limit(&client);
	client.bytes_per_s = client.reported_rate_bytes_per_s = c->bytes_per_s;
	client.before_bytes_per_s = 20 * c->bytes_per_s;
	client.min_rtt_us = r.s.flow.srtt_us = c->rtt_us;
	r.w.cwnd_pkts = r.w.ssthresh_pkts = 2;
	if (c->lost_at_pkts) {
		r.w.cwnd_pkts = c->lost_at_pkts;
		r.w.cwnd_pkts = r.w.ssthresh_pkts = rtcp_cubic_ssthresh(&r.s, &r.p, &client, &r.w);
	}
	start_us = r.ack.now_us;
	memset(&free_path, 0, sizeof(free_path));
	free_path.rtt_us = c->rtt_us;
	free_path.sent_us[0] = free_path.sent_us[1] = start_us;
	free_path.sent = 2;
	while (client.kind == RTCP_LIMITED && r.ack.now_us - start_us < 20 * SECOND)
		free_path_goes_on(&r, &free_path);
	return r.ack.now_us - start_us;
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

struct bbr_run {
	struct rtcp_bbr1_state s1;
	struct rtcp_bbr1_params p1;
	struct rtcp_bbr3_state s3;
	struct rtcp_bbr3_params p3;
	struct path path;
};

static struct bbr_run run;

static void run1_ack(void *r, const struct cca_ack *ack, struct cca_decision *d)
{
	rtcp_bbr1_on_ack(&((struct bbr_run *)r)->s1, &((struct bbr_run *)r)->p1, &client, ack, d);
}

static void run1_event(void *r, const struct cca_event *ev, struct cca_decision *d)
{
	rtcp_bbr1_on_event(&((struct bbr_run *)r)->s1, &((struct bbr_run *)r)->p1, &client, ev, d);
}

static void run3_ack(void *r, const struct cca_ack *ack, struct cca_decision *d)
{
	rtcp_bbr3_on_ack(&((struct bbr_run *)r)->s3, &((struct bbr_run *)r)->p3, &client, ack, d);
}

static void run3_event(void *r, const struct cca_event *ev, struct cca_decision *d)
{
	rtcp_bbr3_on_event(&((struct bbr_run *)r)->s3, &((struct bbr_run *)r)->p3, &client, ev, d);
}

static void run3_loss(void *r, const struct cca_loss *loss)
{
	rtcp_bbr3_on_loss(&((struct bbr_run *)r)->s3, &((struct bbr_run *)r)->p3, loss);
}

/* 20 Mbit/s behind a policer of 2 Mbit/s (6 ms a packet) and 500 packets, full; RTT 40 ms. */
static void open_bbr(u32 version)
{
	struct cca_start start;

	memset(&run, 0xa5, sizeof(run));
	path_open(&run.path, 600, 40 * MS, 500);
	run.path.token_time_us = 6000;
	run.path.bucket_pkts = 500;
	run.path.now_us = run.path.link_free_us = run.path.send_us = 10 * SECOND;
	run.path.delivered_us = run.path.first_sent_us = 10 * SECOND;
	run.path.tokens_us = 10 * SECOND - 500 * 6000;
	run.path.state = &run;
	run.path.on_ack = version == 1 ? run1_ack : run3_ack;
	run.path.on_event = version == 1 ? run1_event : run3_event;
	run.path.on_loss = version == 1 ? NULL : run3_loss;
	start = path_start(&run.path);
	rtcp_client_init(&client, start.now_us);
	rtcp_bbr1_params_init(&run.p1);
	rtcp_bbr3_params_init(&run.p3);
	if (version == 1)
		rtcp_bbr1_init(&run.s1, &run.p1, &client, &start, 7, &run.path.d);
	else
		rtcp_bbr3_init(&run.s3, &run.p3, &client, &start, 7, &run.path.d);
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
	u32 version;

	for (version = 1; version <= 3; version += 2) {
		u32 lost, delivered;

		row = (int)version;
		open_bbr(version);
		path_run(&run.path, 10 * SECOND);
		check_found();
		lost = run.path.dropped_pkts;
		delivered = run.path.delivered_pkts;
		path_run(&run.path, 20 * SECOND);
		lost = run.path.dropped_pkts - lost;
		delivered = run.path.delivered_pkts - delivered;
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

	open_bbr(1);
	for (i = 0; i < 2000 && !client.reduced; i++)
		path_step(&run.path);
	CHECK(client.reduced && run.s1.flow.policer_reset);
	CHECK(!run.s1.base.lt.off);
	for (i = 0; i < 20000 && client.kind == RTCP_UNKNOWN; i++)
		path_step(&run.path);
	CHECK(run.s1.base.lt.off && !run.s1.base.lt.in_use);
	client.kind = RTCP_CLEARED;
	path_run(&run.path, 5 * SECOND);
	CHECK(run.s1.base.lt.off && !run.s1.base.lt.in_use);
}

/* The bucket is empty: what verifies the limiter loses, and the cap holds. */
TEST(test_a_limit_known_before_is_verified_and_holds)
{
	struct cca_start start;

	open_bbr(1);
	know_limit(&client);
	start = path_start(&run.path);
	rtcp_bbr1_init(&run.s1, &run.p1, &client, &start, 7, &run.path.d);
	CHECK(run.s1.base.lt.off);
	CHECK_EQ(run.s1.flow.phase, RTCP_VERIFYING);
	run.path.tokens_us = run.path.now_us;
	path_run(&run.path, SECOND / 2);
	CHECK_EQ(client.kind, RTCP_LIMITED);
	CHECK_EQ(run.s1.flow.phase, RTCP_CAPPED);
	CHECK(run.path.d.pacing_bytes_per_s <= 250000);
	CHECK(run.path.dropped_pkts && run.path.dropped_pkts < 30);
}

/* Appendix H, with BBR's own policer: from 2 to 20 Mbit/s. Half of it is back within three seconds. */
TEST(test_a_lifted_limit_is_left_within_seconds)
{
	u32 version;

	for (version = 1; version <= 3; version += 2) {
		u32 delivered;

		row = (int)version;
		open_bbr(version);
		path_run(&run.path, 20 * SECOND);
		check_found();
		run.path.token_time_us = 0;
		path_run(&run.path, 3 * SECOND);
		delivered = run.path.delivered_pkts;
		path_run(&run.path, 5 * SECOND);
		CHECK(run.path.delivered_pkts - delivered > 8333 / 2);
	}
}
