/* SPDX-License-Identifier: MIT */
/* rtcp_clients.h: a table of clients: keys, places, age. */
#include "rtcp_clients.h"

#include "check.h"

#define SETS 64u
#define MINUTE 60000000ull

static struct rtcp_entry entries[SETS * RTCP_WAYS];
static struct rtcp_clients table;
static const struct cca_siphash_key hash_key = { { 0x1234567890abcdefull, 0xfedcba0987654321ull } };

static void open_table(u32 sets, u64 keep_us)
{
	memset(entries, 0xa5, sizeof(entries));
	CHECK(rtcp_clients_init(&table, entries, sets, &hash_key, keep_us));
}

static struct rtcp_entry *join(u32 address, u64 now_us)
{
	struct rtcp_key key = rtcp_key_of_ipv4(address);

	return rtcp_clients_join(&table, &key, now_us);
}

/* --- keys -------------------------------------------------------------------------------- */

static const u8 of_a_prefix[16] = { 0x20, 0x01, 0x0d, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };

static const struct prefix_case {
	u32 bits;
	u64 high, low;
} prefixes[] = {
	{ 0, 0, 0 },
	{ 1, 0, 0 },
	{ 3, 0x2000000000000000ull, 0 },
	{ 32, 0x20010db800000000ull, 0 },
	{ 56, 0x20010db801020300ull, 0 },
	{ 63, 0x20010db801020304ull, 0 },
	{ 64, 0x20010db801020304ull, 0 },
	{ 65, 0x20010db801020304ull, 0 },
	{ 69, 0x20010db801020304ull, 0x0000000000000000ull },
	{ 70, 0x20010db801020304ull, 0x0400000000000000ull },
	{ 127, 0x20010db801020304ull, 0x05060708090a0b0cull },
	{ 128, 0x20010db801020304ull, 0x05060708090a0b0cull },
	{ 129, 0x20010db801020304ull, 0x05060708090a0b0cull },
};

TEST(test_a_client_is_a_prefix)
{
	FOR_ROWS(prefixes) {
		struct rtcp_key key = rtcp_key_of_ipv6(of_a_prefix, c->bits);

		CHECK_EQ(key.high, c->high);
		CHECK_EQ(key.low, c->low);
	}
}

TEST(test_an_ipv4_address_is_one_client_within_ipv6_too)
{
	const u8 mapped[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1 };
	struct rtcp_key v4 = rtcp_key_of_ipv4(0xc0000201), other = rtcp_key_of_ipv4(0xc0000202);
	struct rtcp_key v6 = rtcp_key_of_ipv6(mapped, 64);

	CHECK(rtcp_key_is(&v4, &v6));
	CHECK(!rtcp_key_is(&v4, &other));
}

/* 4096 addresses in a row, and /64s in a row, over 64 sets: 64 each, 8 the standard deviation. */
TEST(test_neighbours_are_spread_over_the_sets)
{
	u32 i, counts[2][SETS];

	open_table(SETS, MINUTE);
	memset(counts, 0, sizeof(counts));
	for (i = 0; i < 4096; i++) {
		struct rtcp_key v4 = rtcp_key_of_ipv4(0x0a000000 + i);
		struct rtcp_key v6 = { 0x20010db800000000ull + i, 0 };

		counts[0][rtcp_set_of(&table, &v4)]++;
		counts[1][rtcp_set_of(&table, &v6)]++;
	}
	for (i = 0; i < SETS; i++) {
		CHECK(counts[0][i] > 24 && counts[0][i] < 104);
		CHECK(counts[1][i] > 24 && counts[1][i] < 104);
	}
}

/* --- places ----------------------------------------------------------------------------------- */

TEST(test_sets_are_a_power_of_two)
{
	static const u32 wrong[] = { 0, 3, 65, RTCP_MOST_SETS * 2, 0xffffffffu };

	for (row = 1; row <= 5; row++)
		CHECK(!rtcp_clients_init(&table, entries, wrong[row - 1], &hash_key, MINUTE));
}

TEST(test_connections_of_a_client_have_its_entry)
{
	struct rtcp_entry *a, *b;

	open_table(SETS, 10 * MINUTE);
	a = join(1, MINUTE);
	CHECK(a && a->client.kind == RTCP_UNKNOWN);
	CHECK_EQ(a->client.last_us, MINUTE);
	a->client.kind = RTCP_LIMITED;
	b = join(2, MINUTE);
	CHECK(b && b != a);
	CHECK(join(1, 2 * MINUTE) == a);
	CHECK_EQ(a->connections, 2);
	CHECK_EQ(a->client.kind, RTCP_LIMITED);
	rtcp_clients_leave(a);
	rtcp_clients_leave(a);
	rtcp_clients_leave(a);
	CHECK_EQ(a->connections, 0);
}

/* In one set of eight: the ninth has none; then the one that was left longest ago gives way. */
TEST(test_the_oldest_without_connections_gives_way)
{
	struct rtcp_entry *e[RTCP_WAYS];
	u32 i;

	open_table(1, 1000 * MINUTE);
	for (i = 0; i < RTCP_WAYS; i++) {
		e[i] = join(i, MINUTE);
		CHECK(e[i]);
		e[i]->client.kind = RTCP_LIMITED;
		e[i]->heard_us = (10 - i) * MINUTE;
	}
	CHECK(!join(100, 20 * MINUTE));
	for (i = 2; i < 6; i++)
		rtcp_clients_leave(e[i]);
	CHECK(join(100, 20 * MINUTE) == e[5]);
	CHECK_EQ(e[5]->client.kind, RTCP_UNKNOWN);
	CHECK(join(101, 20 * MINUTE) == e[4]);
	/* It finds its own, however old. */
	CHECK(join(2, 20 * MINUTE) == e[2]);
	CHECK_EQ(e[2]->client.kind, RTCP_LIMITED);
	CHECK(join(102, 20 * MINUTE) == e[3]);
	CHECK(!join(103, 20 * MINUTE));
}

/* --- age ------------------------------------------------------------------------------------------ */

static const struct age_case {
	enum rtcp_class kind;
	u32 connections;	/* that are left */
	u64 later_us, keep_us;
	bool known, joins;
} ages[] = {
	{ RTCP_LIMITED, 0, 9 * MINUTE, 10 * MINUTE, true, true },
	{ RTCP_LIMITED, 0, 10 * MINUTE, 10 * MINUTE, false, true },
	{ RTCP_LIMITED, 0, 0, 0, false, true },
	{ RTCP_LIMITED, 1, 90 * MINUTE, 10 * MINUTE, true, true },
	{ RTCP_LIMITED, 1, 0, 0, true, true },
	/* For as long as there are connections; then it is looked for anew. */
	{ RTCP_CLEARED, 1, 1, 10 * MINUTE, true, true },
	{ RTCP_CLEARED, 0, 1, 10 * MINUTE, false, true },
	/* Split: each connection has a client of its own, until it is forgotten. */
	{ RTCP_SPLIT, 1, 90 * MINUTE, 10 * MINUTE, true, false },
	{ RTCP_SPLIT, 0, 9 * MINUTE, 10 * MINUTE, true, false },
	{ RTCP_SPLIT, 0, 10 * MINUTE, 10 * MINUTE, false, true },
};

TEST(test_what_is_known_has_its_time)
{
	FOR_ROWS(ages) {
		struct rtcp_entry *e;

		open_table(1, c->keep_us);
		e = join(7, 100 * MINUTE);
		e->client.kind = c->kind;
		e->connections = c->connections;
		CHECK_EQ(rtcp_entry_age_us(e, 100 * MINUTE + c->later_us), c->later_us);
		CHECK(join(7, 100 * MINUTE + c->later_us) == (c->joins ? e : 0));
		CHECK_EQ(e->client.kind, c->known ? c->kind : RTCP_UNKNOWN);
		CHECK_EQ(e->connections, c->connections + c->joins);
	}
}

static const struct renewal_case {
	enum rtcp_class kind;
	u64 later_us, keep_us;
	bool renewed;
} renewals[] = {
	{ RTCP_CLEARED, 10 * MINUTE - 1, 10 * MINUTE, false },
	{ RTCP_CLEARED, 10 * MINUTE, 10 * MINUTE, true },
	{ RTCP_CLEARED, 10 * MINUTE - 1, 0, false },
	{ RTCP_CLEARED, 10 * MINUTE, 0, true },
	{ RTCP_CLEARED, 19 * MINUTE, 20 * MINUTE, false },
	{ RTCP_LIMITED, 9 * MINUTE, 10 * MINUTE, false },
	{ RTCP_LIMITED, 10 * MINUTE, 10 * MINUTE, true },
	{ RTCP_SPLIT, 10 * MINUTE, 10 * MINUTE, true },
};

/* ACKs every minute meanwhile, which a cleared or split client does not take. */
TEST(test_connections_keep_nothing_for_ever)
{
	FOR_ROWS(renewals) {
		u64 now_us = 100 * MINUTE, end_us = now_us + c->later_us;
		struct rtcp_params params;
		struct rtcp_entry *e;
		struct cca_ack ack = { .rtt_us = 40000, .acked_pkts = 1, .mss_bytes = 1000 };

		cca_params_init(&params, CCA_ID_rtcp_cubic);
		open_table(1, c->keep_us);
		e = join(7, now_us);
		e->client.kind = (u8)c->kind;
		for (now_us += MINUTE; c->kind >= RTCP_CLEARED && now_us < end_us; now_us += MINUTE) {
			CHECK(!rtcp_entry_on_ack(&table, e, now_us));
			ack.now_us = now_us;
			rtcp_client_on_ack(&e->client, &params, &ack);
		}
		CHECK_EQ(rtcp_entry_on_ack(&table, e, end_us), c->renewed);
		CHECK_EQ(e->client.kind, c->renewed ? RTCP_UNKNOWN : c->kind);
		CHECK_EQ(e->connections, 1);
		CHECK(!c->renewed || !rtcp_entry_age_us(e, end_us));
	}
}

/* A connection retransmits to a peer that is gone, every minute, and others begin meanwhile. */
TEST(test_a_peer_that_is_gone_keeps_nothing_known)
{
	struct cca_event ev = { CCA_TIMEOUT, 0, 1, 1, 1000 };
	u64 now_us = 100 * MINUTE, end_us = now_us + 10 * MINUTE;
	struct cca_start start = { now_us, 40000, 10, 0, 1000 };
	struct rtcp_params params;
	struct rtcp_flow flow;
	struct rtcp_entry *e;

	cca_params_init(&params, CCA_ID_rtcp_cubic);
	open_table(1, 10 * MINUTE);
	e = join(7, now_us);
	rtcp_flow_init(&flow, &e->client, &params, &start);
	e->client.kind = RTCP_LIMITED;
	for (now_us += MINUTE; now_us < end_us; now_us += MINUTE) {
		ev.now_us = now_us;
		rtcp_on_event(&flow, &e->client, &params, &ev);
		CHECK(join(7, now_us) == e);
		CHECK(!rtcp_entry_renew(&table, e, now_us));
		CHECK_EQ(e->client.kind, RTCP_LIMITED);
	}
	CHECK(join(7, end_us) == e);
	CHECK(rtcp_entry_renew(&table, e, end_us));
	CHECK_EQ(e->client.kind, RTCP_UNKNOWN);
}

/* A clock that steps back makes nothing older. */
TEST(test_age_is_never_negative)
{
	open_table(1, MINUTE);
	rtcp_clients_leave(join(7, 100 * MINUTE));
	CHECK_EQ(rtcp_entry_age_us(&entries[0], MINUTE), 0);
}

/* --- forgetting ----------------------------------------------------------------------------------- */

static struct rtcp_entry *find(u32 address)
{
	struct rtcp_key key = rtcp_key_of_ipv4(address);

	return rtcp_clients_find(&table, &key);
}

TEST(test_a_client_without_connections_is_removed)
{
	struct rtcp_entry *e, *other;

	open_table(1, 10 * MINUTE);
	e = join(7, MINUTE);
	other = join(8, MINUTE);
	CHECK(find(7) == e && find(8) == other && !find(9));
	rtcp_clients_leave(e);
	rtcp_clients_forget(e);
	CHECK(!find(7) && find(8) == other);
	CHECK(join(9, MINUTE) == e);
}

/* A limited client with a capped and a probing flow, then as a new one with the same flows. */
TEST(test_a_client_with_connections_is_as_new_and_its_flows_are_free)
{
	struct cca_start start = { MINUTE, 40000, 0, 0, 1000 };
	struct cca_ack ack = { .now_us = 2 * MINUTE, .rtt_us = 40000, .acked_pkts = 1, .inflight_pkts = 5,
			       .mss_bytes = 1000 };
	struct rtcp_flow flows[2];
	struct rtcp_params params;
	struct rtcp_client *c;
	struct rtcp_entry *e;
	u32 i;

	cca_params_init(&params, CCA_ID_rtcp_cubic);
	open_table(1, 10 * MINUTE);
	e = join(7, MINUTE);
	CHECK(join(7, MINUTE) == e);
	c = &e->client;
	for (i = 0; i < 2; i++) {
		rtcp_flow_init(&flows[i], c, &params, &start);
		rtcp_flow_starts(&flows[i], c, MINUTE);
		rtcp_flow_update_share(&flows[i], c, 100000);
		rtcp_on_ack(&flows[i], c, &params, &ack);
	}
	c->kind = RTCP_LIMITED;
	c->bytes_per_s = 500000;
	c->bucket_bytes = 10000;
	c->token_deficit_bytes = 10000;
	c->changes = 3;
	rtcp_enter(&flows[0], c, RTCP_CAPPED);
	rtcp_enter(&flows[1], c, RTCP_PROBING);
	CHECK(rtcp_cap_pkts(&flows[0], c, &params) != RTCP_NO_CAP_PKTS);

	rtcp_clients_forget(e);
	CHECK(find(7) == e);
	CHECK_EQ(e->connections, 2);
	CHECK_EQ(c->kind, RTCP_UNKNOWN);
	CHECK_EQ(c->bytes_per_s, 0);
	CHECK_EQ(c->bucket_bytes, 0);
	CHECK_EQ(c->min_rtt_us, 0);
	CHECK_EQ(rtcp_transfer_us(c), 0);
	CHECK_EQ(c->flows, 2);
	CHECK_EQ(c->sharing, 2);
	CHECK_EQ(c->inflight_pkts, 10);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(rtcp_cap_pkts(&flows[i], c, &params), RTCP_NO_CAP_PKTS);
		rtcp_on_ack(&flows[i], c, &params, &ack);
		CHECK_EQ(flows[i].phase, RTCP_FREE);
	}
	for (i = 0; i < 2; i++)
		rtcp_flow_leaves(&flows[i], c);
	CHECK_EQ(c->flows + c->sharing + c->inflight_pkts, 0);
}
