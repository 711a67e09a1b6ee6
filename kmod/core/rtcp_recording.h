/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The part of a record that an R-TCP flow fills after its input. A recording contains the records
 * of a client's flows in the order in which they held its lock. It also contains the changes that
 * other flows made to the client:
 *
 *   CLIENT   Parts of a client's state. They precede the first record that depends on them: when a
 *            flow begins, and after events of flows that are not recorded.
 *   START    Contains the window or the decision after the cap was applied.
 *   ACK, WINDOW_ACK
 *            Contain the waiting data (equation 22), which the core receives before the ACK.
 *   LEAVE    The connection ends, or changes its algorithm.
 *
 * Each record has the number of the flow's client, or 0 for a client of its own, and a checksum of
 * the client's and the flow's state after the event. If an ACK finds that the client is split, the
 * flow then moves to a client of its own (rtcp_flows.h). A replay must do the same.
 */
#ifndef CCA_RTCP_RECORDING_H
#define CCA_RTCP_RECORDING_H

#include "ensemble_recording.h"
#include "rtcp_ensemble.h"

enum {
	RTCP_REC_CLIENT = REC_RECALL + 1,		/* kinds of records */
	RTCP_REC_LEAVE,
};

/* Words of a record. */
enum {
	RTCP_REC_NUMBER = REC_SET_OUT + 1,	/* of the client */
	RTCP_REC_STATES,			/* checksum of both states */
	RTCP_REC_WAITING = REC_HASH,		/* waiting data at an ACK, ... */
	RTCP_REC_START_WAITING = REC_INFLIGHT,	/* ... and at a start */
};

#define RTCP_REC_CLIENT_WORDS (sizeof(struct rtcp_client) / sizeof(u32))
#define RTCP_REC_PART_WORDS RTCP_REC_NUMBER	/* the words before RTCP_REC_NUMBER */
#define RTCP_REC_PARTS \
	((u32)((RTCP_REC_CLIENT_WORDS + RTCP_REC_PART_WORDS - 1) / RTCP_REC_PART_WORDS))

RTCP_ASSERT(client_is_words, sizeof(struct rtcp_client) % sizeof(u32) == 0);
RTCP_ASSERT(flow_is_words, sizeof(struct rtcp_flow) % sizeof(u32) == 0);
RTCP_ASSERT(kinds_fit, (u32)RTCP_REC_LEAVE < (u32)REC_LOSS);
RTCP_ASSERT(words_fit, (u32)RTCP_REC_STATES < (u32)REC_SUM);

CCA_FN u32 rtcp_word_at(const void *state, u32 i)
{
	u32 word;

	__builtin_memcpy(&word, (const char *)state + i * sizeof(u32), sizeof(word));
	return word;
}

/* FNV-1a over the words of both states. */
CCA_FN u32 rtcp_states_sum(const struct rtcp_client *c, const struct rtcp_flow *f)
{
	u32 i, sum = 2166136261u;

	for (i = 0; i < RTCP_REC_CLIENT_WORDS; i++)
		sum = (sum ^ rtcp_word_at(c, i)) * 16777619u;
	for (i = 0; i < sizeof(*f) / sizeof(u32); i++)
		sum = (sum ^ rtcp_word_at(f, i)) * 16777619u;
	return sum;
}

CCA_FN void rtcp_put_states(struct rec_record *r, const struct rtcp_client *c,
			    const struct rtcp_flow *f, u32 number)
{
	r->word[RTCP_REC_NUMBER] = number;
	r->word[RTCP_REC_STATES] = rtcp_states_sum(c, f);
}

/* part: below RTCP_REC_PARTS. */
CCA_FN void rtcp_put_client(struct rec_record *r, const struct rtcp_client *c, u32 number, u32 part)
{
	u32 i, at;

	r->flow = part;
	r->word[RTCP_REC_NUMBER] = number;
	for (i = 0; i < RTCP_REC_PART_WORDS; i++) {
		at = part * RTCP_REC_PART_WORDS + i;
		r->word[i] = at < RTCP_REC_CLIENT_WORDS ? rtcp_word_at(c, at) : 0;
	}
}

CCA_FN void rtcp_get_client(const struct rec_record *r, struct rtcp_client *c)
{
	u32 i, at;

	for (i = 0; i < RTCP_REC_PART_WORDS; i++) {
		at = r->flow * RTCP_REC_PART_WORDS + i;
		if (at < RTCP_REC_CLIENT_WORDS)
			__builtin_memcpy((char *)c + at * sizeof(u32), &r->word[i], sizeof(u32));
	}
}

/* Records the result of a start, an ACK, an event or a loss. id: CCA_ID_ of the algorithm. */
CCA_FN void rtcp_put_outcome(struct rec_record *r, const struct rtcp_ens *e,
			     const struct rtcp_params *set, const struct rtcp_client *c,
			     const struct rtcp_flow *f, u32 id)
{
	r->mode = f->phase;
	r->word[REC_RESULT] = c->bytes_per_s;
	ens_flow_put_outcome(r, &e->flow, set, id);
}

#endif /* CCA_RTCP_RECORDING_H */
