// SPDX-License-Identifier: GPL-2.0
/* The files `status` and `flows`, with the text that /proc has. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

/* --- status ----------------------------------------------------------------------- */

static void show_totals(struct seq_file *m, const struct loaded *l)
{
	struct ccatune_host host = host_read(l);
	struct ccatune_totals totals = {};
	struct ccatune_status s = {
		.instance = host.instance,
		.generation = l->config->changes,
		.rejected_writes = host.rejected_writes,
		.table = l->config->has_table ? &l->config->table.ens : NULL,
		.whose_table = l->config->has_table ? "own" : "none",
		.whose_params = l->config->has_params ? "own" : "default",
		.counters = &totals.counters,
		.id = l->algorithm->id,
	};
	u32 place = 0;

	bpf_map_lookup_elem(l->counters, &place, &totals);
	s.flows = totals.flows;
	ccatune_show_totals(m, &s);
}

/* The array of a table's sums or delays. */
static int array_fd(const struct loaded *l, const char *name, u64 generation, size_t value_bytes)
{
	char pin[PIN_BYTES];

	name_pin(pin, name, generation);
	return open_pin(l, pin, BPF_MAP_TYPE_ARRAY, sizeof(u32), value_bytes);
}

static void show_table(struct seq_file *m, const struct loaded *l)
{
	const struct ens_table *t = &l->config->table.ens;
	struct ccatune_delays of_class;
	struct ccatune_sums of_row;
	int delays = array_fd(l, "delays", t->generation, sizeof(of_class));
	int sums = array_fd(l, "sums", t->generation, sizeof(of_row));
	u32 i;

	for (i = 0; delays >= 0 && i < ens_state_rows(t) * CCATUNE_GROUPS; i++)
		if (!bpf_map_lookup_elem(delays, &i, &of_class))
			ccatune_show_delays(m, t, i / CCATUNE_GROUPS, i % CCATUNE_GROUPS, &of_class);
	for (i = 0; sums >= 0 && i < ens_rows(t) * CCATUNE_GROUPS; i++)
		if (!bpf_map_lookup_elem(sums, &i, &of_row))
			ccatune_show_sums(m, t, i / CCATUNE_GROUPS, i % CCATUNE_GROUPS, &of_row);
}

int status_show(struct loaded *l, FILE *out)
{
	struct seq_file m = { out };

	show_totals(&m, l);
	if (l->config->has_table)
		show_table(&m, l);
	return 0;
}

/* --- flows ------------------------------------------------------------------------ */

static void show_addresses(FILE *out, const struct ccatune_flow *f)
{
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];
	int family = f->is_ipv6 ? AF_INET6 : AF_INET;

	inet_ntop(family, f->local, local, sizeof(local));
	inet_ntop(family, f->remote, remote, sizeof(remote));
	fprintf(out, f->is_ipv6 ? "[%s]:%u [%s]:%u" : "%s:%u %s:%u", local, f->local_port, remote,
		f->remote_port);
}

static void show_flow(FILE *out, const struct algorithm *algorithm, const struct ccatune_flow *f)
{
	struct ccatune_socket s = {
		.now_us = f->seen_us,
		.bytes_acked = f->bytes_acked,
		.rtt_us = f->rtt_us,
		.cwnd_pkts = f->cwnd_pkts,
		.segments = f->segments,
		.retransmitted = f->retransmitted,
	};
	struct seq_file m = { out };
	struct ccatune_view v = {};

	algorithm->view(f, &v);
	show_addresses(out, f);
	ccatune_show_flow(&m, f, &s, &v, algorithm->id, algorithm->show);
}

/*
 * Visits the flows by key. If the flow of the last key has ended meanwhile, the kernel restarts the
 * walk. The number of steps is therefore bounded by the size of the map.
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
	flow = calloc(1, info.value_size);
	if (!flow)
		return -ENOMEM;
	for (n = 0; n < info.max_entries; n++) {
		if (bpf_map_get_next_key(l->flows, n ? &key : NULL, &next))
			break;
		key = next;
		if (!bpf_map_lookup_elem(l->flows, &key, flow))
			show_flow(out, l->algorithm, flow);
	}
	free(flow);
	return 0;
}
