/* SPDX-License-Identifier: MIT */
/* What makes a recording of made-up events (record.c): its dice, and what is in force. */
#ifndef TESTS_RECORD_MAKER_H
#define TESTS_RECORD_MAKER_H

#include "replay.h"

#define MSS 1448u
#define FLOWS 3u

struct maker {
	FILE *file;
	u64 dice;
	struct rec_header header;
	struct ens_table table;
	u32 values[2 * 4 * 3 * 3];
	struct replay_params params;
	struct gr_flow gr[FLOWS];
	struct roccet_flow roccet[FLOWS];
	struct reno_state reno[FLOWS];
	struct rtcp_cubic_flow rtcp_cubic[FLOWS];
	struct rtcp_bbr1_flow rtcp_bbr[FLOWS];
	struct rtcp_bbr3_flow rtcp_bbr3[FLOWS];
	struct cca_decision decision[FLOWS];
	struct rtcp_client shared, own[FLOWS];
	u32 client_of[FLOWS];			/* number of the flow's client, 0: its own */
	u64 told_us[FLOWS];			/* of the flow's last ACK */
	struct cca_window window[FLOWS];
	u64 now_us;
	u32 delivered[FLOWS];
};

static u32 roll(struct maker *m, u32 below)
{
	m->dice = m->dice * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(m->dice >> 33) % below;
}

static void put(struct maker *m, struct rec_record *r)
{
	rec_finish(r);
	fwrite(r, sizeof(*r), 1, m->file);
	m->header.records++;
}

static void make_ack(struct maker *m, u32 i, struct cca_ack *ack)
{
	memset(ack, 0, sizeof(*ack));
	ack->now_us = m->now_us;
	ack->rtt_us = 40000 + roll(m, m->header.id == CCA_ID_roccet ? 150000 : 60000);
	ack->acked_pkts = 1 + roll(m, 3);
	ack->lost_pkts = roll(m, 20) ? 0 : 1;
	ack->inflight_pkts = roll(m, 60);
	ack->delivered_pkts = m->delivered[i] += ack->acked_pkts;
	ack->cwnd_pkts = 10 + roll(m, 50);
	ack->mss_bytes = MSS;
	ack->app_limited = !roll(m, 30);
}

#endif /* TESTS_RECORD_MAKER_H */
