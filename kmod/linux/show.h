/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The text of the files `status` and `flows`, for the modules and ccatune-bpf. The includer has
 * struct ccatune_flow, ccatune_read() of a ccatune_count, seq_printf() and seq_puts() with the
 * kernel's meaning, READ_ONCE() and data_race().
 *
 * Flows continue while they are shown. The numbers of a line are therefore of about the same
 * moment.
 */
#ifndef CCATUNE_SHOW_H
#define CCATUNE_SHOW_H

typedef unsigned long long ccatune_number;	/* as %llu requires */

#define CCATUNE_NAMES(names) names, sizeof(names) / sizeof((names)[0])

static inline const char *ccatune_name(const char *const *names, u32 count, u32 number)
{
	return number < count ? names[number] : "-";
}

/* The values in a line of the file `flows` that only the algorithm can provide. */
struct ccatune_view {
	const struct ens_clock *clock;	/* NULL: it follows no table */
	const void *params;		/* the parameters in force for this flow */
	const char *mode;
	u64 pacing_bytes_per_s;
	u32 min_rtt_us;
	u32 queueing_delay_us;
};

/* The numbers of a flow's socket. */
struct ccatune_socket {
	u64 now_us;
	u64 bytes_acked;
	u32 rtt_us;
	u32 cwnd_pkts;
	u32 segments;
	u32 retransmitted;
};

/* The row of the current epoch, and what was measured in the last one. */
static inline void ccatune_show_row(struct seq_file *m, const struct ccatune_flow *flow,
				    const struct ens_clock *clock)
{
	static const char *const epoch_ends[] = {
		[ENS_WAITED] = "none",
		[ENS_LOOKED_UP] = "looked_up",
		[ENS_RAISED] = "raised",
		[ENS_KEPT] = "kept",
	};
	bool held_back = READ_ONCE(flow->group) % CCATUNE_GROUPS == CCATUNE_HELD_BACK;
	u32 state = READ_ONCE(clock->state);

	if (state == ENS_NO_STATE)
		seq_puts(m, " state=-");
	else
		seq_printf(m, " state=%u", state);
	seq_printf(m, " class=%u group=%s epoch=%u turn=%s measured_bytes_per_s=%llu",
		   READ_ONCE(clock->delay_class),
		   state == ENS_NO_STATE ? "none" : held_back ? "held_back" : "ensemble",
		   READ_ONCE(clock->epoch),
		   ccatune_name(CCATUNE_NAMES(epoch_ends), READ_ONCE(flow->epoch_end)),
		   (ccatune_number)READ_ONCE(clock->measured_bytes_per_s));
}

/* The parameters of ensembles in force. id: of the algorithm. */
static inline void ccatune_show_params(struct seq_file *m, u32 id, const void *params)
{
	const struct cca_param_spec *spec;
	u32 i;

	for (i = 0; i < CCA_MAX_PARAMS; i++) {
		spec = cca_param_at(id, i);
		if (!spec)
			break;
		if (spec->kind != CCA_FIXED)
			seq_printf(m, " %s=%u", spec->name, data_race(cca_param_get(params, i)));
	}
}

/* Overflow: 2^43 bytes x 10^6 < 2^63. An epoch may end between the reads of the two counts. */
static inline void ccatune_show_socket(struct seq_file *m, const struct ccatune_flow *flow,
				       const struct ccatune_socket *s)
{
	u64 elapsed_us = cca_elapsed_us(s->now_us, READ_ONCE(flow->epoch_start_us));
	u64 start_bytes = READ_ONCE(flow->epoch_bytes);
	u64 bytes = s->bytes_acked > start_bytes ? s->bytes_acked - start_bytes : 0;

	bytes = cca_min_u64(bytes, 1ull << 43);
	bytes = elapsed_us ? cca_div(bytes * CCA_USEC_PER_SEC, elapsed_us) : 0;
	seq_printf(m, " throughput_bytes_per_s=%llu", (ccatune_number)bytes);
	seq_printf(m, " rtt_us=%u cwnd_pkts=%u segments=%u retransmitted=%u bytes_acked=%llu",
		   s->rtt_us, s->cwnd_pkts, s->segments, s->retransmitted,
		   (ccatune_number)s->bytes_acked);
}

/* A line of `flows` after its addresses. show: writes the fields that only the algorithm has. */
static inline void ccatune_show_flow(struct seq_file *m, const struct ccatune_flow *flow,
				     const struct ccatune_socket *s,
				     const struct ccatune_view *view, u32 id,
				     void (*show)(struct seq_file *m,
						  const struct ccatune_flow *flow))
{
	if (view->clock)
		ccatune_show_row(m, flow, view->clock);
	seq_printf(m, " mode=%s", view->mode);
	ccatune_show_socket(m, flow, s);
	if (view->clock)
		seq_printf(m, " min_rtt_us=%u queueing_delay_us=%u pacing_bytes_per_s=%llu",
			   view->min_rtt_us, view->queueing_delay_us,
			   (ccatune_number)view->pacing_bytes_per_s);
	show(m, flow);
	if (view->params)
		ccatune_show_params(m, id, view->params);
	seq_puts(m, "\n");
}

/* --- status ----------------------------------------------------------------------- */

/* The totals of an instance. table: the one that the file shows, NULL for none. */
struct ccatune_status {
	u64 instance;
	u64 generation;
	u64 rejected_writes;
	u64 flows;
	const struct ens_table *table;
	const char *whose_table;
	const char *whose_params;
	const struct ccatune_counters *counters;
	u32 id;				/* of the algorithm */
};

/* Whether the algorithm detects limiters, as R-TCP does. */
static inline bool ccatune_has_limiters(u32 id)
{
	return id == CCA_ID_rtcp_cubic || id == CCA_ID_rtcp_bbr || id == CCA_ID_rtcp_bbr3;
}

/* capping_saves_permille: p u of rtcp_tally.h. Overflow: the sums stay far below 2^54. */
static inline void ccatune_show_limiters(struct seq_file *m, const struct ccatune_counters *c)
{
	static const char *const names[CCATUNE_LIMITER_SUMS] = {
		"limited_flows", "segments", "retransmitted", "limited_segments",
		"limited_retransmitted",
	};
	u64 sum[CCATUNE_LIMITER_SUMS];
	u32 i;

	for (i = 0; i < CCATUNE_LIMITER_SUMS; i++) {
		sum[i] = (u64)ccatune_read(&c->limiter[i]);
		seq_printf(m, "%s %llu\n", names[i], (ccatune_number)sum[i]);
	}
	seq_printf(m, "capping_saves_permille %llu\n",
		   (ccatune_number)cca_div(sum[CCATUNE_LIMITED_RETRANSMITTED] * 1000,
					   cca_max_u64(sum[CCATUNE_ALL_SEGMENTS], 1)));
}

static inline void ccatune_show_totals(struct seq_file *m, const struct ccatune_status *s)
{
	const struct ccatune_counters *c = s->counters;
	ccatune_number looked_up = ccatune_read(&c->epoch_ends[ENS_LOOKED_UP]);
	ccatune_number raised = ccatune_read(&c->epoch_ends[ENS_RAISED]);
	ccatune_number kept = ccatune_read(&c->epoch_ends[ENS_KEPT]);
	const struct ens_table *t = s->table;

	seq_printf(m, "module ccatune %s\ninstance %016llx\ngeneration %llu\n", CCATUNE_VERSION,
		   (ccatune_number)s->instance, (ccatune_number)s->generation);
	seq_printf(m, "registry %s\nchannel %s\n", t ? t->registry : "-", t ? t->channel : "-");
	seq_printf(m, "serial %llu\nurgent %u\n", (ccatune_number)(t ? t->serial : 0),
		   t ? READ_ONCE(t->urgent) : 0);
	seq_printf(m, "digest %s\nrejected_writes %llu\n", t ? t->digest : "-",
		   (ccatune_number)s->rejected_writes);
	seq_printf(m, "table %s\nparameters %s\n", s->whose_table, s->whose_params);
	seq_printf(m, "flows %llu\nflows_started %llu\nallocation_fallbacks %llu\n",
		   (ccatune_number)s->flows, (ccatune_number)ccatune_read(&c->flows_started),
		   (ccatune_number)ccatune_read(&c->allocation_fallbacks));
	seq_printf(m, "epochs_run %llu\nlooked_up %llu\nraised %llu\nkept %llu\n",
		   looked_up + raised + kept, looked_up, raised, kept);
	seq_printf(m, "reoptimisations %llu\n",
		   (ccatune_number)ccatune_read(&c->reoptimisations));
	if (ccatune_has_limiters(s->id))
		ccatune_show_limiters(m, c);
}

/* The fields of a line that say what it is of. Without classes there is no field `class`. */
static inline void ccatune_show_group(struct seq_file *m, const struct ens_table *t, u32 class,
				      u32 group)
{
	static const char *const groups[CCATUNE_MOST_GROUPS] = {
		[CCATUNE_ENSEMBLE] = "ensemble flows=own",
		[CCATUNE_HELD_BACK] = "held_back flows=own",
		[CCATUNE_FOLLOWERS + CCATUNE_ENSEMBLE] = "ensemble flows=followers",
		[CCATUNE_FOLLOWERS + CCATUNE_HELD_BACK] = "held_back flows=followers",
	};

	if (t->n_classes)
		seq_printf(m, " class=%u", class);
	seq_printf(m, " group=%s", groups[group]);
}

/* The delays of a class and a group, if there are any. */
static inline void ccatune_show_delays(struct seq_file *m, const struct ens_table *t, u32 class,
				       u32 group, const struct ccatune_delays *delays)
{
	const struct ens_class *k = t->n_classes ? &t->classes[class] : NULL;
	u64 counts[CCA_HISTOGRAM_BUCKETS];
	u64 total = 0;
	u32 i;

	for (i = 0; i < CCA_HISTOGRAM_BUCKETS; i++) {
		counts[i] = (u64)ccatune_read(&delays->bucket[i]);
		total += counts[i];
	}
	if (!total)
		return;
	seq_puts(m, "delay");
	ccatune_show_group(m, t, class, group);
	if (k)
		seq_printf(m, " percentile=%u target_us=%u", k->percentile, k->queueing_delay_us);
	seq_printf(m, " samples=%llu", (ccatune_number)total);
	if (k)
		seq_printf(m, " at_percentile_us=%u",
			   cca_histogram_percentile_us(counts, k->percentile));
	seq_printf(m, " p50_us=%u p95_us=%u p99_us=%u\n",
		   cca_histogram_percentile_us(counts, 50),
		   cca_histogram_percentile_us(counts, 95),
		   cca_histogram_percentile_us(counts, 99));
}

/* The sums of a row and a group, if flows have been on it. */
static inline void ccatune_show_sums(struct seq_file *m, const struct ens_table *t, u32 row,
				     u32 group, const struct ccatune_sums *sums)
{
	static const char *const names[CCATUNE_SUMS] = {
		"visits", "lookups", "epochs", "time_us", "bytes", "segments", "retransmitted",
		"delay_samples", "delay_us", "within_target",
	};
	u32 i;

	if (!ccatune_read(&sums->sum[CCATUNE_VISITS]))
		return;
	seq_printf(m, "row state=%u", row / ens_state_rows(t));
	ccatune_show_group(m, t, row % ens_state_rows(t), group);
	for (i = 0; i < CCATUNE_SUMS; i++)
		seq_printf(m, " %s=%llu", names[i], (ccatune_number)ccatune_read(&sums->sum[i]));
	seq_puts(m, "\n");
}

#endif /* CCATUNE_SHOW_H */
