// SPDX-License-Identifier: GPL-2.0
/* The files `status` and `flows`, with the text that /proc has. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#include "../rtcp_member.h"

#include "../../linux/rtcp_kflow.h"

/* The text is that of the modules (show.h). A flow is a copy here. */
struct seq_file {
	FILE *out;
};

#define seq_printf(m, ...) fprintf((m)->out, __VA_ARGS__)
#define seq_puts(m, text) fputs(text, (m)->out)
#define READ_ONCE(x) (x)
#define data_race(x) (x)

#include "../../linux/rtcp_text.h"

/* --- status ----------------------------------------------------------------------- */

static const char *const groups[CCATUNE_GROUPS] = {
	[CCATUNE_ENSEMBLE] = "ensemble flows=own",
	[CCATUNE_HELD_BACK] = "held_back flows=own",
};

typedef unsigned long long number;

static void show_totals(const struct loaded *l, FILE *out)
{
	const struct ens_table *t = l->config->has_table ? &l->config->table.ens : NULL;
	struct ccatune_host host = host_read(l);
	struct ccatune_counters c = {};
	u32 place = 0;

	bpf_map_lookup_elem(l->counters, &place, &c);
	fprintf(out, "module ccatune %s\n", CCATUNE_VERSION);
	fprintf(out, "instance %016llx\n", (number)host.instance);
	fprintf(out, "generation %llu\n", (number)l->config->changes);
	fprintf(out, "registry %s\n", t ? t->registry : "-");
	fprintf(out, "channel %s\n", t ? t->channel : "-");
	fprintf(out, "serial %llu\n", (number)(t ? t->serial : 0));
	fprintf(out, "urgent %u\n", t ? t->urgent : 0);
	fprintf(out, "digest %s\n", t ? t->digest : "-");
	fprintf(out, "rejected_writes %llu\n", (number)host.rejected_writes);
	fprintf(out, "table %s\n", t ? "own" : "none");
	fprintf(out, "parameters %s\n", l->config->has_params ? "own" : "default");
	fprintf(out, "flows %llu\n", (number)c.flows);
	fprintf(out, "flows_started %llu\n", (number)c.flows_started);
	fprintf(out, "allocation_fallbacks %llu\n", (number)c.allocation_fallbacks);
	fprintf(out, "epochs_run %llu\n",
		(number)(c.epoch_ends[ENS_LOOKED_UP] + c.epoch_ends[ENS_RAISED] + c.epoch_ends[ENS_KEPT]));
	fprintf(out, "looked_up %llu\n", (number)c.epoch_ends[ENS_LOOKED_UP]);
	fprintf(out, "raised %llu\n", (number)c.epoch_ends[ENS_RAISED]);
	fprintf(out, "kept %llu\n", (number)c.epoch_ends[ENS_KEPT]);
	fprintf(out, "reoptimisations %llu\n", (number)c.reoptimisations);
}

/* The array of a table's sums or delays. */
static int array_fd(const struct loaded *l, const char *name, u64 generation, size_t value_bytes)
{
	char pin[PIN_BYTES];

	name_pin(pin, name, generation);
	return open_pin(l, pin, BPF_MAP_TYPE_ARRAY, sizeof(u32), value_bytes);
}

static void show_class(FILE *out, const struct ens_table *t, u32 class)
{
	if (t->n_classes)
		fprintf(out, " class=%u", class);
}

static void show_delays(FILE *out, const struct ens_table *t, u32 line, const u64 *counts)
{
	u32 class = line / CCATUNE_GROUPS;
	u64 total = 0;
	u32 i;

	for (i = 0; i < CCA_HISTOGRAM_BUCKETS; i++)
		total += counts[i];
	if (!total)
		return;
	fputs("delay", out);
	show_class(out, t, class);
	fprintf(out, " group=%s", groups[line % CCATUNE_GROUPS]);
	if (t->n_classes)
		fprintf(out, " percentile=%u target_us=%u", t->classes[class].percentile,
			t->classes[class].queueing_delay_us);
	fprintf(out, " samples=%llu", (number)total);
	if (t->n_classes)
		fprintf(out, " at_percentile_us=%u",
			cca_histogram_percentile_us(counts, t->classes[class].percentile));
	fprintf(out, " p50_us=%u p95_us=%u p99_us=%u\n", cca_histogram_percentile_us(counts, 50),
		cca_histogram_percentile_us(counts, 95), cca_histogram_percentile_us(counts, 99));
}

static void show_row(FILE *out, const struct ens_table *t, u32 line, const struct ccatune_sums *s)
{
	u32 row = line / CCATUNE_GROUPS;

	if (!s->visits)
		return;
	fprintf(out, "row state=%u", row / ens_state_rows(t));
	show_class(out, t, row % ens_state_rows(t));
	fprintf(out, " group=%s visits=%llu lookups=%llu epochs=%llu", groups[line % CCATUNE_GROUPS],
		(number)s->visits, (number)s->lookups, (number)s->epochs);
	fprintf(out, " time_us=%llu bytes=%llu segments=%llu retransmitted=%llu", (number)s->time_us,
		(number)s->bytes, (number)s->segments, (number)s->retransmitted);
	fprintf(out, " delay_samples=%llu delay_us=%llu within_target=%llu\n", (number)s->samples,
		(number)s->delay_us, (number)s->within);
}

static void show_table(const struct loaded *l, FILE *out)
{
	const struct ens_table *t = &l->config->table.ens;
	struct ccatune_delays of_class;
	struct ccatune_sums of_row;
	int delays = array_fd(l, "delays", t->generation, sizeof(of_class));
	int sums = array_fd(l, "sums", t->generation, sizeof(of_row));
	u32 i;

	for (i = 0; delays >= 0 && i < ens_state_rows(t) * CCATUNE_GROUPS; i++)
		if (!bpf_map_lookup_elem(delays, &i, &of_class))
			show_delays(out, t, i, of_class.bucket);
	for (i = 0; sums >= 0 && i < ens_rows(t) * CCATUNE_GROUPS; i++)
		if (!bpf_map_lookup_elem(sums, &i, &of_row))
			show_row(out, t, i, &of_row);
}

int status_show(struct loaded *l, FILE *out)
{
	show_totals(l, out);
	if (l->config->has_table)
		show_table(l, out);
	return 0;
}

/* --- flows ------------------------------------------------------------------------ */

/* What `flows` says of a flow beyond what every flow has. */
struct view {
	const struct ens_clock *clock;
	const void *params;
	const struct rtcp_flow *rtcp;	/* NULL: not R-TCP */
	const char *mode;
	const char *bbr_mode;		/* of the base algorithm; NULL: not BBR */
	u64 pacing_bytes_per_s;
	u32 min_rtt_us;
	u32 queueing_delay_us;
};

static void view_gr(const struct ccatune_flow *flow, struct view *v)
{
	const struct gr_kflow *f = (const struct gr_kflow *)flow;

	v->clock = &f->gr.ens.clock;
	v->params = &f->gr.params;
	v->mode = gr_mode(&f->gr.gr);
	v->pacing_bytes_per_s = f->decision.pacing_bytes_per_s;
	v->min_rtt_us = f->gr.gr.min_rtt_us;
	v->queueing_delay_us = f->queueing_delay_us;
}

static void view_roccet(const struct ccatune_flow *flow, struct view *v)
{
	const struct roccet_kflow *f = (const struct roccet_kflow *)flow;

	v->clock = &f->roccet.ens.clock;
	v->params = &f->roccet.params;
	v->mode = roccet_mode(&f->roccet.roccet);
	v->min_rtt_us = f->roccet.roccet.min_rtt_us;
	v->queueing_delay_us = f->queueing_delay_us;
}

/* What R-TCP's algorithms have in common; the head of a flow is that of its rtcp_kflow. */
static void view_rtcp(const struct rtcp_kflow *f, const struct rtcp_flow *flow,
		      const struct rtcp_ens *ens, const struct rtcp_params *params, struct view *v)
{
	v->rtcp = flow;
	v->clock = &ens->flow.clock;
	v->params = params;
	v->mode = rtcp_mode(&f->member.own, flow);
	v->min_rtt_us = f->member.own.min_rtt_us;
	v->queueing_delay_us = f->queueing_delay_us;
}

static void view_rtcp_cubic(const struct ccatune_flow *flow, struct view *v)
{
	const struct rtcp_cubic_kflow *f = (const struct rtcp_cubic_kflow *)flow;

	view_rtcp(&f->shared, &f->cubic.state.flow, &f->cubic.ens, &f->cubic.params.rtcp, v);
}

static const char *mode_of(const char *const *modes, size_t count, u8 mode)
{
	return mode < count ? modes[mode] : "-";
}

static void view_rtcp_bbr(const struct ccatune_flow *flow, struct view *v)
{
	const struct rtcp_bbr1_kflow *f = (const struct rtcp_bbr1_kflow *)flow;

	view_rtcp(&f->shared, &f->bbr.state.flow, &f->bbr.ens, &f->bbr.params.rtcp, v);
	v->pacing_bytes_per_s = f->decision.pacing_bytes_per_s;
	v->bbr_mode = mode_of(bbr1_modes, sizeof(bbr1_modes) / sizeof(*bbr1_modes),
			      f->bbr.state.base.mode);
}

static void view_rtcp_bbr3(const struct ccatune_flow *flow, struct view *v)
{
	const struct rtcp_bbr3_kflow *f = (const struct rtcp_bbr3_kflow *)flow;

	view_rtcp(&f->shared, &f->bbr.state.flow, &f->bbr.ens, &f->bbr.params.rtcp, v);
	v->pacing_bytes_per_s = f->decision.pacing_bytes_per_s;
	v->bbr_mode = mode_of(bbr3_modes, sizeof(bbr3_modes) / sizeof(*bbr3_modes),
			      f->bbr.state.base.mode);
}

static void view_plain(const struct ccatune_flow *flow, struct view *v)
{
	(void)flow;
	v->mode = "-";
}

static void show_addresses(FILE *out, const struct ccatune_flow *f)
{
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];
	int family = f->is_ipv6 ? AF_INET6 : AF_INET;

	inet_ntop(family, f->local, local, sizeof(local));
	inet_ntop(family, f->remote, remote, sizeof(remote));
	fprintf(out, f->is_ipv6 ? "[%s]:%u [%s]:%u" : "%s:%u %s:%u", local, f->local_port, remote,
		f->remote_port);
}

static void show_socket(FILE *out, const struct ccatune_flow *f)
{
	u64 elapsed_us = cca_elapsed_us(f->seen_us, f->epoch_start_us);
	u64 bytes = f->bytes_acked > f->epoch_bytes ? f->bytes_acked - f->epoch_bytes : 0;

	bytes = cca_min_u64(bytes, 1ull << 43);
	fprintf(out, " throughput_bytes_per_s=%llu",
		(number)(elapsed_us ? bytes * CCA_USEC_PER_SEC / elapsed_us : 0));
	fprintf(out, " rtt_us=%u cwnd_pkts=%u segments=%u retransmitted=%u bytes_acked=%llu",
		f->rtt_us, f->cwnd_pkts, f->segments, f->retransmitted, (number)f->bytes_acked);
}

static void show_flow(FILE *out, u32 id, const struct ccatune_flow *f)
{
	struct seq_file m = { out };
	struct view v = {};

	if (id == CCA_ID_gr)
		view_gr(f, &v);
	else if (id == CCA_ID_roccet)
		view_roccet(f, &v);
	else if (id == CCA_ID_rtcp_cubic)
		view_rtcp_cubic(f, &v);
	else if (id == CCA_ID_rtcp_bbr)
		view_rtcp_bbr(f, &v);
	else if (id == CCA_ID_rtcp_bbr3)
		view_rtcp_bbr3(f, &v);
	else
		view_plain(f, &v);
	show_addresses(out, f);
	if (v.clock)
		ccatune_show_row(&m, f, v.clock);
	fprintf(out, " mode=%s", v.mode);
	show_socket(out, f);
	if (v.clock)
		fprintf(out, " min_rtt_us=%u queueing_delay_us=%u pacing_bytes_per_s=%llu",
			v.min_rtt_us, v.queueing_delay_us, (number)v.pacing_bytes_per_s);
	if (id == CCA_ID_roccet)
		roccet_show_state(&m, &((const struct roccet_kflow *)f)->roccet.roccet);
	else if (v.rtcp)
		rtcp_show_flow(&m, &((const struct rtcp_kflow *)f)->member.own, v.rtcp, v.params,
			       false);
	if (v.bbr_mode)
		fprintf(out, " bbr=%s", v.bbr_mode);
	if (v.params)
		ccatune_show_params(&m, id, v.params);
	fputc('\n', out);
}

/* The bytes of a flow in the map; 0: not known to this program. */
size_t flow_bytes(u32 id)
{
	switch (id) {
	case CCA_ID_gr:
		return sizeof(struct gr_kflow);
	case CCA_ID_roccet:
		return sizeof(struct roccet_kflow);
	case CCA_ID_rtcp_cubic:
		return sizeof(struct rtcp_cubic_kflow);
	case CCA_ID_rtcp_bbr:
		return sizeof(struct rtcp_bbr1_kflow);
	case CCA_ID_rtcp_bbr3:
		return sizeof(struct rtcp_bbr3_kflow);
	default:
		return 0;
	}
}

/*
 * One after the other by key. A flow that ends meanwhile takes its place along, and the walk begins
 * anew; so it is bounded by the number of flows that there may be.
 */
int flows_show(struct loaded *l, FILE *out)
{
	struct bpf_map_info info = {};
	u32 bytes = sizeof(info), n;
	u64 key = 0, next;
	void *flow;
	int err = bpf_obj_get_info_by_fd(l->flows, &info, &bytes);

	if (err)
		return err;
	/* Of an algorithm whose flows are not known here the head is shown. */
	flow = calloc(1, info.value_size + sizeof(struct ccatune_flow));
	if (!flow)
		return -ENOMEM;
	for (n = 0; n < info.max_entries; n++) {
		if (bpf_map_get_next_key(l->flows, n ? &key : NULL, &next))
			break;
		key = next;
		if (!bpf_map_lookup_elem(l->flows, &key, flow))
			show_flow(out, l->id, flow);
	}
	free(flow);
	return 0;
}
