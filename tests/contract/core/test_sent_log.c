// SPDX-License-Identifier: MIT
/* kmod/core/sent_log.h: beside a path that knows of each packet what the log has to find out. */
#include "sent_log.h"

#include "check.h"

#define ROUTE 8192u	/* packets on the path at a time, at most */

/* A path that keeps order: what a host without a log would keep with each packet. */
struct packet {
	u32 delivered_pkts, inflight_pkts, lost_pkts;
	bool dropped;
};

struct path {
	struct packet packet[ROUTE];
	u32 sent, arrived;		/* numbers of packets, free-running */
	u32 delivered_pkts, lost_pkts;	/* of the connection, may wrap */
	u32 acked_delivered_pkts, acked_lost_pkts;	/* behind the last ACK */
};

static u32 path_inflight(const struct path *p)
{
	return p->sent - p->arrived;
}

static void path_send(struct path *p, bool dropped)
{
	struct packet *packet = &p->packet[p->sent++ % ROUTE];

	packet->delivered_pkts = p->delivered_pkts;
	packet->lost_pkts = p->lost_pkts;
	packet->inflight_pkts = path_inflight(p);
	packet->dropped = dropped;
}

/* An ACK of `pkts` more that arrive, and of what was dropped before them; the newest of them. */
static const struct packet *path_ack(struct path *p, u32 pkts, struct cca_ack *ack,
				     const struct packet **lost)
{
	const struct packet *packet = NULL;
	u32 delivered_pkts = p->delivered_pkts, lost_pkts = p->lost_pkts;

	*lost = NULL;
	while (pkts && p->arrived != p->sent) {
		packet = &p->packet[p->arrived++ % ROUTE];
		if (packet->dropped) {
			p->lost_pkts++;
			*lost = packet;
			continue;
		}
		p->delivered_pkts++;
		pkts--;
	}
	memset(ack, 0, sizeof(*ack));
	ack->acked_pkts = p->delivered_pkts - delivered_pkts;
	ack->lost_pkts = p->lost_pkts - lost_pkts;
	ack->delivered_pkts = p->delivered_pkts;
	ack->inflight_pkts = path_inflight(p);
	if (packet && !packet->dropped) {
		ack->rate_pkts = p->delivered_pkts - packet->delivered_pkts;
		ack->rate_interval_us = 1;
	}
	return packet;
}

/* What tcp_rtcp_losses.h does with each ACK; true: a loss is told. */
static bool log_ack(struct cca_sent_log *log, const struct path *p, struct cca_ack *ack,
		    struct cca_loss *loss)
{
	struct cca_sent_note about = { ack->delivered_pkts - ack->acked_pkts,
				       cca_prior_inflight(ack), p->lost_pkts - ack->lost_pkts };
	bool lost;

	cca_sent_note(log, p->sent, &about);
	lost = cca_sent_loss(log, 7, ack->delivered_pkts, p->lost_pkts, loss);
	if (cca_has_rate(ack))
		cca_sent_sample(log, cca_prior_delivered(ack), ack->app_limited);
	cca_sent_put(log, p->lost_pkts, ack);
	return lost;
}

static struct path path;
static struct cca_sent_log sent_log;
static const struct packet *newest, *lost;
static struct cca_ack ack;
static struct cca_loss loss;

static void begin(u32 delivered_pkts, u32 lost_pkts)
{
	memset(&path, 0, sizeof(path));
	path.delivered_pkts = delivered_pkts;
	path.lost_pkts = lost_pkts;
	cca_sent_init(&sent_log, 0, delivered_pkts, lost_pkts);
}

TEST(a_window_that_each_ack_opens_by_a_packet_is_known_to_the_packet)
{
	u32 i;

	begin(1000, 0);
	for (i = 0; i < 20; i++)
		path_send(&path, false);
	for (i = 0; i < 400; i++) {
		newest = path_ack(&path, 1, &ack, &lost);
		CHECK(!log_ack(&sent_log, &path, &ack, &loss));
		/* The first flight went without an ACK in between: its last packet stands for all. */
		CHECK_EQ(ack.tx_inflight_pkts, i < 20 ? 20 : newest->inflight_pkts);
		CHECK_EQ(ack.lost_since_pkts, 0);
		path_send(&path, false);
	}
}

/* In flight to what is sent between two ACKs and a part of the window, losses to a part's. */
TEST(what_is_found_is_what_the_packets_had)
{
	static const struct {
		u32 pkts;		/* in flight */
		u32 acked_pkts;		/* by an ACK */
		u32 dropped_of;		/* one of so many, at random; 0: none */
		u32 first_delivered, first_lost;
	} rows[] = {
		{ 10, 1, 0, 0, 0 }, { 10, 2, 20, 0, 0 }, { 100, 2, 0, 0, 0 }, { 100, 2, 50, 0, 0 },
		{ 100, 10, 5, 0, 0 }, { 1000, 2, 0, 0, 0 }, { 1000, 2, 500, 0, 0 },
		{ 4000, 40, 0, 0, 0 }, { 4000, 40, 1000, 0, 0 }, { 100, 2, 50, 0u - 500u, 0u - 20u },
	};
	u32 seed, i, told;

	FOR_ROWS(rows) {
		begin(c->first_delivered, c->first_lost);
		seed = 7;
		told = c->first_lost;
		for (i = 0; i < 3000; i++) {
			while (path_inflight(&path) < c->pkts)
				path_send(&path, c->dropped_of && cca_draw(&seed) % c->dropped_of == 0);
			newest = path_ack(&path, c->acked_pkts, &ack, &lost);
			if (log_ack(&sent_log, &path, &ack, &loss)) {
				CHECK(lost);
				/* Behind the ACK all that were lost have been told of, itself among them. */
				CHECK(loss.lost_since_pkts >= 1);
				CHECK_EQ(loss.delivered_pkts, path.delivered_pkts);
				told = path.lost_pkts;
			}
			CHECK_EQ(told, path.lost_pkts);
			/* The first flight went without an ACK in between. */
			if (!cca_has_rate(&ack) || path.arrived <= c->pkts)
				continue;
			CHECK(ack.tx_inflight_pkts >= newest->inflight_pkts);
			CHECK(ack.tx_inflight_pkts <= newest->inflight_pkts + c->pkts / 32 +
						      c->acked_pkts + ack.lost_pkts + 8);
			/* Each change of what was lost has its note, as long as there is room. */
			CHECK_EQ(ack.lost_since_pkts, path.lost_pkts - newest->lost_pkts);
		}
	}
}

TEST(a_loss_has_what_was_in_flight_when_it_was_sent)
{
	u32 i, tells = 0;

	begin(0, 0);
	for (i = 0; i < 2000; i++) {
		/* The window grows by a packet each ACK up to 300, the 500th packet is dropped. */
		do
			path_send(&path, path.sent == 500);
		while (path_inflight(&path) < cca_min_u32(10 + i, 300));
		newest = path_ack(&path, 1, &ack, &lost);
		if (!log_ack(&sent_log, &path, &ack, &loss))
			continue;
		tells++;
		CHECK(newest != lost);
		CHECK_EQ(loss.lost_since_pkts, 1);
		CHECK_EQ(loss.now_us, 7);
		/* A note may be older by a part of the window, in which it grew by as much. */
		CHECK(loss.tx_inflight_pkts + 300 / 32 + 2 >= lost->inflight_pkts);
		CHECK(loss.tx_inflight_pkts <= lost->inflight_pkts + 300 / 32 + 2);
	}
	CHECK_EQ(tells, 1);
}

TEST(many_lost_at_once_are_told_as_their_last)
{
	u32 i;

	begin(0, 0);
	for (i = 0; i < 100; i++)
		path_send(&path, i >= 20 && i < 60);
	for (i = 0; i < 20; i++) {
		path_ack(&path, 1, &ack, &lost);
		CHECK(!log_ack(&sent_log, &path, &ack, &loss));
	}
	path_ack(&path, 1, &ack, &lost);
	CHECK_EQ(ack.lost_pkts, 40);
	CHECK(log_ack(&sent_log, &path, &ack, &loss));
	CHECK_EQ(loss.tx_inflight_pkts, 100);
	CHECK_EQ(loss.lost_since_pkts, 40);
	/* And of the packet that showed them the same is known. */
	CHECK_EQ(ack.tx_inflight_pkts, 100);
	CHECK_EQ(ack.lost_since_pkts, 40);
	CHECK(!cca_sent_loss(&sent_log, 8, path.delivered_pkts, path.lost_pkts, &loss));
}

/* A window of so many, and ACKs of one each until so many are in flight, nothing sent meanwhile. */
static void drain(u32 window_pkts, u32 left_pkts)
{
	begin(5000, 0);
	while (path_inflight(&path) < window_pkts)
		path_send(&path, false);
	while (path_inflight(&path) > left_pkts) {
		path_ack(&path, 1, &ack, &lost);
		CHECK(!log_ack(&sent_log, &path, &ack, &loss));
	}
}

TEST(what_drains_keeps_what_was_in_flight_to_its_last_packet)
{
	/* Nothing is sent, nothing noted: the last packets were sent with all of them in flight. */
	drain(1000, 1);
	path_ack(&path, 1, &ack, &lost);
	CHECK(!log_ack(&sent_log, &path, &ack, &loss));
	CHECK_EQ(ack.tx_inflight_pkts, 1000);
}

TEST(a_burst_behind_a_drain_has_a_note_of_its_own)
{
	u32 i;

	drain(1000, 2);
	while (path_inflight(&path) < 1000)
		path_send(&path, path.sent == 1500);
	for (i = 0; i < 900; i++) {
		newest = path_ack(&path, 1, &ack, &lost);
		if (log_ack(&sent_log, &path, &ack, &loss)) {
			CHECK_EQ(loss.lost_since_pkts, 1);
			CHECK_EQ(loss.tx_inflight_pkts, 1000);
		}
		if (i >= 2)
			CHECK(newest->inflight_pkts <= 1000 && ack.tx_inflight_pkts == 1000);
	}
	CHECK_EQ(path.lost_pkts, 1);
}

/* In flight: 100, of which the last three were dropped; a timer finds that, and sends again. */
TEST(what_a_timer_takes_for_lost_has_what_was_in_flight_ahead_of_it)
{
	struct cca_sent_note about = { 5098, 1, 3 };

	drain(100, 2);
	/* Two behind the three were told of, so that nothing but these is in flight. */
	path.lost_pkts = 3;
	about.inflight_pkts = 3;
	cca_sent_note(&sent_log, path.sent + 3, &about);
	CHECK(cca_sent_loss(&sent_log, 7, 5099, 3, &loss));
	CHECK_EQ(loss.tx_inflight_pkts, 100);
	CHECK_EQ(loss.lost_since_pkts, 3);
	/* Those sent again know of these losses, and of what was in flight with them. */
	memset(&ack, 0, sizeof(ack));
	ack.delivered_pkts = 5099;
	ack.rate_pkts = ack.rate_interval_us = 1;
	cca_sent_put(&sent_log, 3, &ack);
	CHECK_EQ(ack.tx_inflight_pkts, 3);
	CHECK_EQ(ack.lost_since_pkts, 0);
}

TEST(a_timeout_tells_of_the_window_that_was_lost)
{
	drain(100, 12);
	CHECK(cca_sent_loss(&sent_log, 9, path.delivered_pkts, 12, &loss));
	CHECK_EQ(loss.tx_inflight_pkts, 100);
	CHECK_EQ(loss.lost_since_pkts, 12);
	CHECK_EQ(loss.delivered_pkts, 5088);
	CHECK_EQ(loss.now_us, 9);
	/* Once. */
	CHECK(!cca_sent_loss(&sent_log, 9, path.delivered_pkts, 12, &loss));
}

TEST(a_loss_is_of_the_applications_where_the_packet_ahead_of_it_was)
{
	drain(100, 50);
	cca_sent_sample(&sent_log, 5000, true);
	CHECK(cca_sent_loss(&sent_log, 1, path.delivered_pkts, 1, &loss));
	CHECK_EQ(loss.app_limited, 1);
	cca_sent_sample(&sent_log, 5001, false);
	/* One that arrives late is no newer. */
	cca_sent_sample(&sent_log, 5000, true);
	CHECK(cca_sent_loss(&sent_log, 1, path.delivered_pkts, 2, &loss));
	CHECK_EQ(loss.app_limited, 0);
}

TEST(what_a_smaller_mtu_sends_again_is_no_loss)
{
	drain(100, 50);
	cca_sent_forget(&sent_log, 9);
	CHECK(!cca_sent_loss(&sent_log, 1, path.delivered_pkts, 9, &loss));
	/* Not of those that were in flight, either. */
	memset(&ack, 0, sizeof(ack));
	ack.delivered_pkts = 5051;
	ack.rate_pkts = 51;
	ack.rate_interval_us = 1;
	cca_sent_put(&sent_log, 9, &ack);
	CHECK_EQ(ack.tx_inflight_pkts, 100);
	CHECK_EQ(ack.lost_since_pkts, 0);
	CHECK(cca_sent_loss(&sent_log, 1, path.delivered_pkts, 10, &loss));
	CHECK_EQ(loss.lost_since_pkts, 1);
}

TEST(without_a_note_or_a_sample_nothing_is_known)
{
	struct cca_sent_note about = { 0, 10, 0 };

	begin(0, 0);
	CHECK(!cca_sent_find(&sent_log, 0));
	CHECK(cca_sent_loss(&sent_log, 1, 0, 2, &loss));
	CHECK_EQ(loss.tx_inflight_pkts, 0);
	CHECK_EQ(loss.app_limited, 0);
	cca_sent_note(&sent_log, 1, &about);
	memset(&ack, 0, sizeof(ack));
	ack.tx_inflight_pkts = ack.lost_since_pkts = 5;
	cca_sent_put(&sent_log, 2, &ack);
	CHECK_EQ(ack.tx_inflight_pkts, 0);
	CHECK_EQ(ack.lost_since_pkts, 0);
}

/* More notes than there is room for: the oldest that is kept stands for what is older. */
TEST(what_is_older_than_the_log_has_its_oldest_note)
{
	struct cca_sent_note about;
	u32 i;

	begin(0, 0);
	for (i = 0; i < 1000; i++) {
		about.delivered_pkts = about.lost_pkts = i;
		about.inflight_pkts = 100 + i;
		cca_sent_note(&sent_log, 10 + i, &about);
	}
	CHECK_EQ(cca_sent_find(&sent_log, 999)->inflight_pkts, 1099);
	CHECK_EQ(cca_sent_find(&sent_log, 2000)->inflight_pkts, 1099);
	CHECK_EQ(cca_sent_find(&sent_log, 1000 - CCA_SENT_NOTES)->inflight_pkts,
		 1100 - CCA_SENT_NOTES);
	CHECK_EQ(cca_sent_find(&sent_log, 3)->inflight_pkts, 1100 - CCA_SENT_NOTES);
}

TEST(it_is_as_large_as_is_said)
{
	CHECK_EQ(sizeof(struct cca_sent_log), 792);
}
