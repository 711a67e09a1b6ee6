// SPDX-License-Identifier: GPL-2.0
/*
 * The file `recording` (kmod/core/recording.h): `start N`, `stop`, `clear`. The records are an
 * array that the object appends to; this program puts in what is in force, before it is.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tool.h"

#include "../../linux/files.h"

#define PIN "recording"

static size_t bytes_of(u32 size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes;

	bytes = ((size_t)size + 1) * sizeof(struct rec_record);
	return (bytes + page - 1) / page * page;
}

static bool is_running(const struct loaded *l)
{
	u32 place = 0, id = 0;

	return !bpf_map_lookup_elem(l->records, &place, &id) && id;
}

/* The recording's memory, NULL if there is none. */
static struct ccatune_recording *map_pinned(const struct loaded *l)
{
	int fd = open_pin(l, PIN, BPF_MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct rec_record));
	struct bpf_map_info info = {};
	struct ccatune_recording *r;
	u32 bytes = sizeof(info);

	if (fd < 0)
		return NULL;
	if (bpf_obj_get_info_by_fd(fd, &info, &bytes)) {
		close(fd);
		return NULL;
	}
	r = mmap(NULL, bytes_of(info.max_entries - 1), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (r == MAP_FAILED)
		return NULL;
	if (r->size == info.max_entries - 1)
		return r;
	munmap(r, bytes_of(info.max_entries - 1));
	return NULL;
}

static struct rec_record *records_of(struct ccatune_recording *r)
{
	return (struct rec_record *)r + 1;
}

/* The first of n records in a row, NULL when there is no room. */
static struct rec_record *reserve(struct ccatune_recording *r, u32 n)
{
	u64 first = __sync_fetch_and_add(&r->next, n);

	return first + n <= r->size ? records_of(r) + first : NULL;
}

static void add_table(struct loaded *l, struct ccatune_recording *r)
{
	struct ens_table *t = &l->config->table.ens;

	t->values = l->config->table.values;
	ccatune_fill_table(reserve(r, rec_table_records(t)), t);
	t->values = NULL;
}

static void add_params(struct loaded *l, struct ccatune_recording *r)
{
	ccatune_fill_params(reserve(r, 1), l->config->params.value, l->id,
			    l->config->params.version);
}

typedef void change(struct loaded *l, struct ccatune_recording *r);

static int change_recording(struct loaded *l, change *what)
{
	struct ccatune_recording *r = map_pinned(l);

	if (!r)
		return -EIO;
	what(l, r);
	munmap(r, bytes_of(r->size));
	return 0;
}

int recording_add_table(struct loaded *l)
{
	return is_running(l) ? change_recording(l, add_table) : 0;
}

int recording_add_params(struct loaded *l)
{
	return is_running(l) ? change_recording(l, add_params) : 0;
}

static int stop(struct loaded *l)
{
	u32 place = 0;
	int err = bpf_map_delete_elem(l->records, &place);

	return err == -ENOENT ? 0 : err;
}

static int clear(struct loaded *l)
{
	int err = stop(l);

	if (!err && unlink(PIN) && errno != ENOENT)
		err = -errno;
	return err;
}

/* The number that the next flow will receive. */
static u32 next_flow(const struct loaded *l)
{
	struct ccatune_totals totals = {};
	u32 place = 0;

	bpf_map_lookup_elem(l->counters, &place, &totals);
	return (u32)totals.keys + 1;
}

/* Adds the table and parameters in force. Flows are recorded from a number on that none has yet. */
static void fill(struct loaded *l, struct ccatune_recording *r)
{
	r->first = next_flow(l) + (1u << 30);
	add_params(l, r);
	if (l->config->has_table)
		add_table(l, r);
}

/* From here on the recording includes every flow that begins. */
static void admit_flows(struct loaded *l, struct ccatune_recording *r)
{
	__atomic_store_n(&r->first, next_flow(l), __ATOMIC_RELEASE);
}

static int start(struct loaded *l, u32 size)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_INNER_MAP | BPF_F_MMAPABLE);
	struct ccatune_recording head = { .size = size };
	struct rec_record first = {};
	u32 place = 0;
	int fd, err = clear(l);

	if (err)
		return err;
	memcpy(&first, &head, sizeof(head));
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "records", sizeof(u32), sizeof(struct rec_record),
			    size + 1, &options);
	if (fd < 0)
		return fd;
	err = bpf_map_update_elem(fd, &place, &first, BPF_ANY);
	if (!err)
		err = bpf_obj_pin(fd, PIN);
	if (!err)
		err = change_recording(l, fill);
	if (!err)
		err = bpf_map_update_elem(l->records, &place, &fd, BPF_ANY);
	if (!err)
		err = change_recording(l, admit_flows);
	close(fd);
	if (err)
		clear(l);
	return err;
}

int recording_write(struct loaded *l, const char *text, u32 len)
{
	u32 size = 0;
	int command = ccatune_take_command(text, len, &size);

	if (command == CCATUNE_START)
		return start(l, size);
	if (command == CCATUNE_STOP)
		return stop(l);
	if (command == CCATUNE_CLEAR)
		return clear(l);
	complain("expected `start N` with N from 1 to %u, `stop` or `clear`", CCATUNE_MAX_RECORDS);
	return command;
}

int recording_show(struct loaded *l, FILE *out)
{
	struct ccatune_recording *r;
	struct rec_header h;

	if (is_running(l)) {
		complain("%s/recording: runs; write `stop` first", l->name);
		return -EBUSY;
	}
	r = map_pinned(l);
	if (!r)
		return 0;
	ccatune_fill_header(&h, l->id, r->next, r->size);
	fwrite(&h, sizeof(h), 1, out);
	fwrite(records_of(r), sizeof(struct rec_record), h.records, out);
	munmap(r, bytes_of(r->size));
	return 0;
}
