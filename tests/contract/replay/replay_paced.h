/* SPDX-License-Identifier: MIT */
/*
 * R-TCP over an algorithm in control mode. Included by replay_rtcp.h once for each, which says
 * ahead of it what it is, as a module does of kmod/linux/tcp_rtcp_paced.h; what it said is taken
 * back here.
 */

static inline void replay_paced_start(const struct rec_record *rec, struct paced_flow *flow,
				      struct replay_flow *f, struct rtcp_client *c,
				      struct rec_record *mine)
{
	struct cca_start start;

	rec_get_start(rec, &start);
	paced_flow_init(flow, c, replay_rtcp_defaults(f), &start, rec->delay_class,
			rec->word[REC_HASH], &f->decision);
	rtcp_flow_update_share(&flow->state.flow, c, rec->word[RTCP_REC_START_WAITING]);
	rec_put_start(mine, &start, flow->ens.flow.clock.delay_class, flow->ens.flow.hash,
		      rec->params);
	mine->word[RTCP_REC_START_WAITING] = rec->word[RTCP_REC_START_WAITING];
}

static inline void replay_paced_ack(struct replay *r, const struct rec_record *rec,
				    struct paced_flow *flow, struct replay_flow *f,
				    struct rtcp_client *c, const struct ens_table *t,
				    struct rec_record *mine)
{
	struct cca_ack ack;

	rec_get_ack(rec, &ack);
	ens_flow_set_class(&flow->ens.flow, rec->delay_class);
	rtcp_flow_update_share(&flow->state.flow, c, rec->word[RTCP_REC_WAITING]);
	paced_flow_on_ack(flow, c, replay_rtcp_defaults(f), t, &ack, &f->decision);
	ens_flow_put_ack(mine, &flow->ens.flow, &ack, rec->table, rec->params);
	mine->word[RTCP_REC_WAITING] = rec->word[RTCP_REC_WAITING];
	r->turns[flow->ens.flow.epoch_end]++;
	r->slow_start += flow->state.base.mode == PACED_STARTUP;
}

static inline int replay_paced(struct replay *r, u32 index, const struct rec_record *rec,
			       struct paced_flow *flow, struct replay_flow *f,
			       struct rtcp_client *c, const struct ens_table *t,
			       struct rec_record *mine)
{
	struct cca_event ev;
#ifdef paced_flow_on_loss
	struct cca_loss loss;

	if ((u32)rec->kind == RTCP_REC_LOSS) {
		rtcp_get_loss(rec, &loss);
		paced_flow_on_loss(flow, &loss);
		rtcp_put_loss(mine, &loss);
		paced_put_outcome(mine, flow, c, &f->decision);
		return 0;
	}
#endif
	switch (rec->kind) {
	case REC_START:
		replay_paced_start(rec, flow, f, c, mine);
		break;
	case REC_ACK:
		replay_paced_ack(r, rec, flow, f, c, t, mine);
		break;
	case REC_EVENT:
		rec_get_event(rec, &ev);
		paced_flow_on_event(flow, c, &ev, &f->decision);
		rec_put_event(mine, &ev);
		break;
	default:
		return replay_refuse(r, index, "expected a kind of control mode");
	}
	paced_put_outcome(mine, flow, c, &f->decision);
	return 0;
}

#undef paced_flow
#undef paced_flow_init
#undef paced_flow_on_ack
#undef paced_flow_on_event
#undef paced_flow_on_loss
#undef paced_put_outcome
#undef replay_paced_start
#undef replay_paced_ack
#undef replay_paced
#undef PACED_STARTUP
