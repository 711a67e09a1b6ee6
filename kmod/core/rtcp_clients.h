/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: a table of clients, by address. R-TCP 2026, sections 4.4 (a hash table with an entry for
 * each client and a count of its flows) and 6.1 (SR-TCP: connection 2 uses the knowledge of
 * connection 1).
 *
 *                 rtcp_clients_join()                      rtcp_clients_leave()
 *   connection ------------------------> connections + 1 -----------------------> - 1
 *
 *   connections > 0    The entry does not move, because flows have its address.
 *   connections = 0    The entry is kept for keep_us after its last ACK (its age), unless another
 *                      client needs its place. Then it counts as new.
 *   no entry           The host provides a client for this connection alone. This happens if all
 *                      places of the set are in use, or if the entry is split (rtcp_flows.h).
 *
 * A client is an IPv4 address, or an IPv6 prefix (by default /64, which a subscriber gets).
 *
 * The host provides the memory, and so bounds it: 2^n sets of RTCP_WAYS entries of 256 bytes. An
 * address belongs to one set. Joining searches that set alone, and takes the place of the client
 * that has been without connections for longest. There are no lists, no pointers between entries,
 * and no allocations. The hash is SipHash with a secret key of the host (siphash.h). Otherwise
 * anyone who can choose addresses of one set could evict the other clients of that set.
 *
 * The host locks the table for joining and leaving. Each client has a lock of its own, so an ACK
 * touches nothing that clients share.
 *
 * CHOICES. CLEARED ends with the last connection (section 4.4: "for this flow"). SPLIT ends
 * keep_us after it was found if no connection is left. While connections exist, both end at the
 * first ACK that arrives keep_us after they were found, and at least RTCP_KEEP_US after that time
 * (rtcp_entry_renew()).
 * Other knowledge ends when a connection joins and no ACK arrived for that long, even if other
 * connections exist: neither a timeout nor a new connection shows that the client is still there.
 * With keep_us of 0 no connection uses the knowledge of an earlier one; concurrent ones share it.
 */
#ifndef CCA_RTCP_CLIENTS_H
#define CCA_RTCP_CLIENTS_H

#include "rtcp_flows.h"
#include "siphash.h"

#define RTCP_WAYS 8u
#define RTCP_MOST_SETS (1u << 24)
#define RTCP_IPV6_PREFIX_BITS 64u
#define RTCP_KEEP_US 600000000u		/* 10 minutes */

struct rtcp_key {
	u64 high, low;		/* IPv6's 128 bits; of IPv4 ::ffff:a.b.c.d */
};

struct rtcp_entry {
	struct rtcp_client client;
	struct rtcp_key key;
	u64 heard_us;		/* last ACK; of CLEARED and SPLIT, the one that found them */
	u32 connections;	/* below 2^32 - 1 */
	bool used;		/* false: nobody's */
};

struct rtcp_clients {
	struct rtcp_entry *entries;	/* RTCP_WAYS times sets */
	struct cca_siphash_key hash_key;
	u64 keep_us;
	u32 sets;		/* a power of two */
};

RTCP_ASSERT(entry_is_small, sizeof(struct rtcp_entry) <= 256);

/* --- keys --------------------------------------------------------------------------------- */

/* address: in host byte order; 127.0.0.1 is 0x7f000001. */
CCA_FN struct rtcp_key rtcp_key_of_ipv4(u32 address)
{
	struct rtcp_key key = { 0, 0xffffull << 32 | address };

	return key;
}

/* address: in network byte order. An IPv4-mapped address is the IPv4 client, with any prefix. */
CCA_FN struct rtcp_key rtcp_key_of_ipv6(const u8 address[16], u32 prefix_bits)
{
	struct rtcp_key key = { 0, 0 };
	u32 bits = cca_min_u32(prefix_bits, 128), i;

	for (i = 0; i < 8; i++) {
		key.high = key.high << 8 | address[i];
		key.low = key.low << 8 | address[8 + i];
	}
	if (!key.high && key.low >> 32 == 0xffffu)
		return key;
	/* A shift by as many bits as there are is none in C. */
	if (bits < 64)
		key.high &= bits ? ~0ull << (64 - bits) : 0;
	key.low &= bits <= 64 ? 0 : ~0ull << (128 - bits);
	return key;
}

CCA_FN bool rtcp_key_is(const struct rtcp_key *a, const struct rtcp_key *b)
{
	return a->high == b->high && a->low == b->low;
}

CCA_FN u32 rtcp_set_of(const struct rtcp_clients *t, const struct rtcp_key *key)
{
	return (u32)cca_siphash(&t->hash_key, key->high, key->low) & (t->sets - 1);
}

/* --- entries ------------------------------------------------------------------------------- */

/* The time since the last ACK. A clock that steps back does not increase it. */
CCA_FN u64 rtcp_entry_age_us(const struct rtcp_entry *e, u64 now_us)
{
	return cca_elapsed_us(now_us, e->heard_us);
}

/* Whether a new connection may use the knowledge of this entry. */
CCA_FN bool rtcp_entry_is_current(const struct rtcp_clients *t, const struct rtcp_entry *e,
				  u64 now_us)
{
	if (e->connections)
		return true;
	return rtcp_entry_age_us(e, now_us) < t->keep_us && e->client.kind != RTCP_CLEARED;
}

/* The client's own entry, or the best place for it. NULL: all places are in use. */
CCA_FN struct rtcp_entry *rtcp_entry_for(const struct rtcp_clients *t, const struct rtcp_key *key,
					 u64 now_us)
{
	struct rtcp_entry *first = t->entries + (u64)rtcp_set_of(t, key) * RTCP_WAYS;
	struct rtcp_entry *best = (struct rtcp_entry *)0;
	u32 i;

	for (i = 0; i < RTCP_WAYS; i++) {
		struct rtcp_entry *e = first + i;

		if (e->used && rtcp_key_is(&e->key, key))
			return e;
		if (e->connections || (best && !best->used))
			continue;
		if (!best || !e->used ||
		    rtcp_entry_age_us(e, now_us) > rtcp_entry_age_us(best, now_us))
			best = e;
	}
	return best;
}

/* --- entry points --------------------------------------------------------------------------- */

/* Returns false unless sets is a power of two up to RTCP_MOST_SETS. entries: RTCP_WAYS * sets. */
CCA_FN bool rtcp_clients_init(struct rtcp_clients *t, struct rtcp_entry *entries, u32 sets,
			      const struct cca_siphash_key *hash_key, u64 keep_us)
{
	u32 i;

	if (!sets || sets > RTCP_MOST_SETS || (sets & (sets - 1)))
		return false;
	t->entries = entries;
	t->hash_key = *hash_key;
	t->keep_us = keep_us;
	t->sets = sets;
	for (i = 0; i < sets * RTCP_WAYS; i++) {
		entries[i].used = false;
		entries[i].connections = 0;
	}
	return true;
}

/* A connection begins. NULL: it needs a client of its own, and does not call leave. */
CCA_FN struct rtcp_entry *rtcp_clients_join(struct rtcp_clients *t, const struct rtcp_key *key,
					    u64 now_us)
{
	struct rtcp_entry *e = rtcp_entry_for(t, key, now_us);

	if (!e || e->connections == 0xffffffffu)
		return (struct rtcp_entry *)0;
	if (!e->used || !rtcp_key_is(&e->key, key) || !rtcp_entry_is_current(t, e, now_us)) {
		rtcp_client_init(&e->client, now_us);
		e->key = *key;
		e->heard_us = now_us;
		e->used = true;
	}
	if (e->client.kind == RTCP_SPLIT)
		return (struct rtcp_entry *)0;
	e->connections++;
	return e;
}

/* A connection ends, or has moved to a client of its own. Call rtcp_flow_leaves() before. */
CCA_FN void rtcp_clients_leave(struct rtcp_entry *e)
{
	if (e->connections)
		e->connections--;
}

/* The client's entry; NULL if the table has none. */
CCA_FN struct rtcp_entry *rtcp_clients_find(const struct rtcp_clients *t,
					    const struct rtcp_key *key)
{
	struct rtcp_entry *first = t->entries + (u64)rtcp_set_of(t, key) * RTCP_WAYS;
	u32 i;

	for (i = 0; i < RTCP_WAYS; i++)
		if (first[i].used && rtcp_key_is(&first[i].key, key))
			return first + i;
	return (struct rtcp_entry *)0;
}

/*
 * Resets the client to a new one, except for the state that its flows depend on: how many they
 * are, their packets in flight, the clock of their phases, and the counters whose changes they
 * watch. No cap is in force from here on, because the client is not limited. Each flow is free
 * with its next ACK.
 */
CCA_FN void rtcp_client_forget(struct rtcp_client *c)
{
	struct rtcp_client anew;

	rtcp_client_init(&anew, c->last_us);
	anew.clock_us = c->clock_us;
	anew.start_us = c->clock_us;
	anew.inflight_pkts = c->inflight_pkts;
	anew.flows = c->flows;
	anew.sharing = c->sharing;
	anew.mss_bytes = c->mss_bytes;
	anew.changes = c->changes;
	anew.heavy_losses = c->heavy_losses;
	*c = anew;
}

/*
 * Call this after a connection has joined, with the client's lock held. It discards knowledge that
 * is too old, and then returns true.
 */
CCA_FN bool rtcp_entry_renew(const struct rtcp_clients *t, struct rtcp_entry *e, u64 now_us)
{
	if (rtcp_entry_age_us(e, now_us) < cca_max_u64(t->keep_us, RTCP_KEEP_US))
		return false;
	rtcp_client_forget(&e->client);
	e->client.last_us = now_us;
	e->heard_us = now_us;
	return true;
}

/*
 * The same before an ACK, which shows that the client is still there. An ACK does not extend
 * CLEARED and SPLIT: their age is the time since they were found.
 */
CCA_FN bool rtcp_entry_on_ack(const struct rtcp_clients *t, struct rtcp_entry *e, u64 now_us)
{
	bool renewed = rtcp_entry_renew(t, e, now_us);

	if (e->client.kind != RTCP_CLEARED && e->client.kind != RTCP_SPLIT)
		e->heard_us = now_us;
	return renewed;
}

/* Discards an entry on request. With connections it is reset in place. Without, it becomes free. */
CCA_FN void rtcp_clients_forget(struct rtcp_entry *e)
{
	if (e->connections)
		rtcp_client_forget(&e->client);
	else
		e->used = false;
}

#endif /* CCA_RTCP_CLIENTS_H */
