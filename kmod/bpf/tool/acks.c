// SPDX-License-Identifier: GPL-2.0
/*
 * `ccatune-bpf acks`: attaches acks.bpf.c, and answers commands from standard input (acks.h).
 *
 * Nothing is pinned. The process that starts it holds the other ends of standard input and output.
 * So it ends with that process. However it ends, the kernel removes the programs.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

#include "../acks.h"

#define MOST_RING_BYTES (1u << 28)

INCLUDE_OBJECT(acks, "acks.bpf.o")

struct reading {
	struct bpf_object *object;
	struct ring_buffer *ring;
	struct acks_record *records;	/* as many as fill the ring */
	u64 n, most;
};

static int take(void *to, void *data, size_t bytes)
{
	struct reading *r = to;

	if (bytes >= sizeof(*r->records))
		memcpy(&r->records[r->n++], data, sizeof(*r->records));
	/* The programs may add faster than this reads. The rest waits for the next answer. */
	return r->n < r->most ? 0 : -EAGAIN;
}

static int map_of(const struct reading *r, const char *name)
{
	return bpf_object__find_map_fd_by_name(r->object, name);
}

static int configure(const struct reading *r, char **numbers, int n_ports, char **port_texts)
{
	struct acks_settings settings = { .most_hash = strtoull(numbers[0], NULL, 10) };
	u64 rate = strtoull(numbers[1], NULL, 10);
	struct timespec jiffy = {};
	u32 place = 0;
	struct stat ns;
	u8 yes = 1;
	u16 port;
	int i, err = 0;

	/* The resolution of a coarse clock is a jiffy. */
	if (stat("/proc/self/ns/net", &ns) || clock_getres(CLOCK_MONOTONIC_COARSE, &jiffy))
		return -errno;
	settings.netns = ns.st_ino;
	settings.us_per_jiffy = (u32)(jiffy.tv_nsec / 1000);
	settings.apart_ns = 1000000000ull / (rate ? rate : 1);
	settings.has_ports = n_ports > 0;
	for (i = 0; i < n_ports && !err; i++) {
		port = (u16)strtoul(port_texts[i], NULL, 10);
		err = bpf_map_update_elem(map_of(r, "ports"), &port, &yes, BPF_ANY);
	}
	return err ? err : bpf_map_update_elem(map_of(r, "settings"), &place, &settings, BPF_ANY);
}

/* ring_bytes: a power of two of at least a page, as the kernel requires. */
static int load_acks(struct reading *r, u32 ring_bytes)
{
	int err;

	r->object = bpf_object__open_mem(object_acks, (size_t)(object_acks_end - object_acks),
					 NULL);
	r->most = ring_bytes / sizeof(*r->records);
	r->records = calloc(r->most, sizeof(*r->records));
	if (!r->object || !r->records)
		return r->object ? -ENOMEM : -errno;
	err = bpf_map__set_max_entries(bpf_object__find_map_by_name(r->object, "ring"), ring_bytes);
	if (!err)
		err = bpf_object__load(r->object);
	if (err == -EPERM || err == -EACCES)
		complain("acks: the kernel refuses BPF programs: %s; expected CAP_BPF and CAP_PERFMON",
			 strerror(-err));
	else if (err && access("/sys/kernel/btf/vmlinux", R_OK))
		complain("acks: the kernel has no BTF (CONFIG_DEBUG_INFO_BTF), which BPF needs");
	else if (err)
		complain("acks: the kernel does not load the program: %s", strerror(-err));
	return err;
}

static int attach(struct reading *r)
{
	struct bpf_program *program;

	r->ring = ring_buffer__new(map_of(r, "ring"), take, r, NULL);
	if (!r->ring)
		return -errno;
	/* The programs stay attached as long as this process lives. */
	bpf_object__for_each_program(program, r->object)
		if (!bpf_program__attach(program)) {
			complain("acks: %s cannot be attached: %s", bpf_program__name(program),
				 strerror(errno));
			return -errno;
		}
	return 0;
}

/* How often the kernel skipped a program because it was already running on that processor. */
static u64 skipped(const struct reading *r)
{
	struct bpf_program *program;
	u64 sum = 0;

	bpf_object__for_each_program(program, r->object) {
		struct bpf_prog_info info = {};
		u32 bytes = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes))
			sum += info.recursion_misses;
	}
	return sum;
}

static int answer(struct reading *r)
{
	struct acks_head head = { .record_bytes = sizeof(*r->records) };
	struct acks_counts counts = {};
	u32 place = 0;
	int err;

	r->n = 0;
	err = ring_buffer__consume(r->ring);
	if (err < 0 && err != -EAGAIN)
		return err;
	err = bpf_map_lookup_elem(map_of(r, "counts"), &place, &counts);
	if (err)
		return err;
	head.records = r->n;
	head.over_limit = counts.over_limit;
	head.ring_full = counts.ring_full + skipped(r);
	if (fwrite(&head, sizeof(head), 1, stdout) != 1 ||
	    fwrite(r->records, sizeof(*r->records), r->n, stdout) != r->n || fflush(stdout))
		return -EPIPE;
	return 0;
}

static int serve(struct reading *r)
{
	struct acks_command command;
	u8 yes = 1;
	int err = answer(r);

	while (!err && fread(&command, sizeof(command), 1, stdin) == 1) {
		if (command.kind == ACKS_DRAIN)
			err = answer(r);
		else
			err = bpf_map_update_elem(map_of(r, "refused"), &command.cookie, &yes,
						  BPF_ANY);
	}
	return err;
}

/* argv: HASH RATE RING PORT...; HASH is the largest hash that is sampled, RATE in samples/s. */
int acks(int argc, char **argv)
{
	unsigned long ring_bytes = strtoul(argv[2], NULL, 10);
	struct reading r = {};
	int err;

	if (ring_bytes < (unsigned long)sysconf(_SC_PAGESIZE) || ring_bytes > MOST_RING_BYTES ||
	    ring_bytes & (ring_bytes - 1) || argc - 3 > (int)ACKS_MOST_PORTS) {
		complain("acks: expected a RING that is a power of two from a page to %u bytes, and at "
			 "most %u ports", MOST_RING_BYTES, ACKS_MOST_PORTS);
		return -EINVAL;
	}
	quieten_libbpf();
	err = load_acks(&r, (u32)ring_bytes);
	if (!err)
		err = configure(&r, argv, argc - 3, argv + 3);
	if (!err)
		err = attach(&r);
	return err ? err : serve(&r);
}
