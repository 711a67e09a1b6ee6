// SPDX-License-Identifier: GPL-2.0
/* The file `ensemble`. */
#include <bpf/bpf.h>
#include <dirent.h>
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
	t->values = l->config->table.values;
	for (i = 0; i < ens_lines(t); i++) {
		len = ens_format_line(t, i, line, sizeof(line));
		fwrite(line, 1, len, out);
	}
	return 0;
}

/* Returns the number of bytes up to the end of the table, or an error. */
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
	return ens_has_ended(p) ? (int)at : -EINVAL;
}

/* Removes the pins `name-N` of all generations but one. */
static void unlink_others(const char *name, u64 kept)
{
	DIR *dir = opendir(".");
	struct dirent *entry;
	char keep[PIN_BYTES];
	size_t len = strlen(name);

	if (!dir)
		return;
	name_pin(keep, name, kept);
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, name, len) || entry->d_name[len] != '-' ||
		    !strcmp(entry->d_name, keep))
			continue;
		unlink(entry->d_name);
	}
	closedir(dir);
}

/*
 * Stores an array of zeros at the place of the table's generation, and pins it under the
 * generation. Without the pin ccatune-bpf could not open it, because opening a map by its number
 * requires more privileges.
 */
static int new_array(int outer, const char *name, u64 generation, u64 in_force, u32 bytes,
		     u32 elements)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_INNER_MAP);
	u32 place = (u32)(generation & 1);
	char pin[PIN_BYTES];
	int fd, err;

	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(u32), bytes, elements, &options);
	if (fd < 0)
		return fd;
	unlink_others(name, in_force);
	name_pin(pin, name, generation);
	err = bpf_obj_pin(fd, pin);
	if (!err)
		err = bpf_map_update_elem(outer, &place, &fd, BPF_ANY);
	close(fd);
	return err;
}

/*
 * Makes the sums of a table before the table is in force. Those of the generation in_force (0:
 * none) remain.
 */
static int new_sums(struct loaded *l, const struct ens_table *t, u64 in_force)
{
	int err = new_array(l->sums, "sums", t->generation, in_force, sizeof(struct ccatune_sums),
			    ens_rows(t) * CCATUNE_GROUPS);

	return err ? err : new_array(l->delays, "delays", t->generation, in_force,
				     sizeof(struct ccatune_delays),
				     ens_state_rows(t) * CCATUNE_GROUPS);
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
	u64 in_force = before ? before->generation : 0;
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
		/* The sums of the table in force are at its generation modulo 2: not in that place. */
		do
			host.generations++;
		while (before && !((host.generations ^ in_force) & 1));
		offered->generation = host.generations;
		offered->values = NULL;
		l->config->table.ens = *offered;
		memcpy(l->config->table.values, values, ens_values_bytes(offered));
		l->config->has_table = 1;
		err = host_write(l, &host);
		if (!err)
			err = new_sums(l, offered, in_force);
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
	int taken, err;

	if (!len)
		return 0;
	ens_parser_init(&parser, &table, l->id);
	taken = parse(&parser, values, text, len);
	if (taken < 0) {
		complain("line %u: expected a table of %s, whole and within its ranges (docs/proc.md)",
			 parser.line_no + !parser.error, l->name);
		return taken;
	}
	err = ens_is_clear(&parser) ? clear_table(l) : take_table(l, &table, values);
	/* As in /proc: the table is in force, and what follows its end is refused. */
	if (!err && (u32)taken < len) {
		complain("expected no text after the end; what came before it is in force");
		err = -EINVAL;
	}
	return err;
}
