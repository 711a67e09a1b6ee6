// SPDX-License-Identifier: GPL-2.0
/* The file `ensemble`. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

int ensemble_show(struct loaded *l, FILE *out)
{
	struct ens_table *t = &l->config->table.ens;
	char line[ENS_MAX_LINE];
	u32 i, len;

	if (!l->config->has_table)
		return 0;
	t->values = l->config->values;
	for (i = 0; i < ens_lines(t); i++) {
		len = ens_format_line(t, i, line, sizeof(line));
		fwrite(line, 1, len, out);
	}
	return 0;
}

/* All of the text, or an error; what follows the end is one. */
static int parse(struct ens_parser *p, u32 *values, const char *text, u32 len)
{
	u32 at = 0;
	int taken;

	while (at < len && !ens_has_ended(p)) {
		taken = ens_parse(p, text + at, len - at);
		if (taken < 0)
			return taken;
		at += (u32)taken;
		if (ens_needs_values(p))
			ens_give_values(p, values);
	}
	return at < len ? -EINVAL : 0;
}

/* Arrays of zeros for the sums of a table, which are there before it is in force. */
static int new_sums(struct loaded *l, const struct ens_table *t)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_INNER_MAP);
	u32 place = (u32)(t->generation & 1);
	u32 rows = ens_rows(t) * CCATUNE_GROUPS, classes = ens_state_rows(t) * CCATUNE_GROUPS;
	int sums, delays, err;

	sums = bpf_map_create(BPF_MAP_TYPE_ARRAY, "sums", sizeof(u32), sizeof(struct ccatune_sums),
			      rows, &options);
	if (sums < 0)
		return sums;
	delays = bpf_map_create(BPF_MAP_TYPE_ARRAY, "delays", sizeof(u32),
				sizeof(struct ccatune_delays), classes, &options);
	err = delays < 0 ? delays : 0;
	if (!err)
		err = bpf_map_update_elem(l->sums, &place, &sums, BPF_ANY);
	if (!err)
		err = bpf_map_update_elem(l->delays, &place, &delays, BPF_ANY);
	close(sums);
	if (delays >= 0)
		close(delays);
	return err;
}

static int clear_table(struct loaded *l)
{
	l->config->has_table = 0;
	l->config->recalls++;
	l->config->changes++;
	return config_publish(l);
}

static int take_table(struct loaded *l, struct ens_table *offered, const u32 *values)
{
	struct ens_table *before = l->config->has_table ? &l->config->table.ens : NULL;
	struct ccatune_host host = host_read(l);
	int verdict = ens_admit(before, offered), err;

	if (verdict < 0) {
		complain("serial %llu: the table in force has the serial %llu of the same channel",
			 (unsigned long long)offered->serial, (unsigned long long)before->serial);
		return verdict;
	}
	if (!verdict) {
		if (!offered->urgent || before->urgent)
			return 0;
		before->urgent = true;
	} else {
		offered->generation = ++host.generations;
		offered->values = NULL;
		l->config->table.ens = *offered;
		memcpy(l->config->values, values, ens_values_bytes(offered));
		l->config->has_table = 1;
		err = host_write(l, &host);
		if (!err)
			err = new_sums(l, offered);
		if (!err)
			err = recording_add_table(l);
		if (err)
			return err;
	}
	l->config->recalls += offered->urgent;
	l->config->changes++;
	return config_publish(l);
}

int ensemble_write(struct loaded *l, const char *text, u32 len)
{
	static u32 values[CCATUNE_MAX_VALUES];
	static struct ens_table table;
	static struct ens_parser parser;
	int err;

	if (!len)
		return 0;
	memset(&table, 0, sizeof(table));
	ens_parser_init(&parser, &table, l->id);
	err = parse(&parser, values, text, len);
	if (!err && !ens_has_ended(&parser))
		err = -EINVAL;
	if (err) {
		complain("line %u: expected a table of %s, whole and within its ranges (docs/proc.md)",
			 parser.line_no + !parser.error, l->name);
		return err;
	}
	return ens_is_clear(&parser) ? clear_table(l) : take_table(l, &table, values);
}
