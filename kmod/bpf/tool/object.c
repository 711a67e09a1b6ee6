// SPDX-License-Identifier: GPL-2.0
/* Loading and unloading, and the maps of a loaded algorithm. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

/* The objects, each for three kinds of kernel (kernel.h). */
#define OBJECT(algorithm, kernel) \
	INCLUDE_OBJECT(algorithm##_##kernel, #algorithm "-" #kernel ".bpf.o")
#define OBJECTS_BPF(name) \
	extern const struct algorithm algorithm_##name; \
	OBJECT(name, 601) OBJECT(name, 610) OBJECT(name, 701)
#define OBJECTS_MODULE(name) OBJECTS_BPF(name)
#define OBJECTS_NAMESAKE(name) OBJECTS_BPF(name)
#define OBJECTS_SIMULATOR(name)
#define CCA_ALGORITHM(name, mode, host, meaning) OBJECTS_##host(name)
#include "params.def"

struct variant {
	const char *start, *end;
};

#define VARIANT(algorithm, kernel) \
	{ object_##algorithm##_##kernel, object_##algorithm##_##kernel##_end }
#define ENTRY_BPF(name) \
	{ #name, &algorithm_##name, { VARIANT(name, 601), VARIANT(name, 610), VARIANT(name, 701) } },

#define ENTRY_MODULE(name) ENTRY_BPF(name)
#define ENTRY_NAMESAKE(name) ENTRY_BPF(name)
#define ENTRY_SIMULATOR(name)

static const struct {
	const char *name;
	const struct algorithm *algorithm;
	struct variant variant[3];
} algorithms[] = {
#define CCA_ALGORITHM(name, mode, host, meaning) ENTRY_##host(name)
#include "params.def"
};

/* The names of all algorithms, separated by commas. */
const char *algorithm_names(void)
{
	static char names[256];
	size_t i;

	*names = '\0';
	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		strcat(strcat(names, i ? ", " : ""), algorithms[i].name);
	return names;
}

static int find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		if (!strcmp(algorithms[i].name, name))
			return (int)i;
	complain("expected an algorithm among %s, got %s", algorithm_names(), name);
	return -ENOENT;
}

/* Returns the variant for the running kernel. The kernel's types decide, not its version. */
static int variant_of_kernel(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_type *ops, *type;
	const struct btf_member *member;
	int id, i, variant = -ENOTSUP;

	if (!btf) {
		complain("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF), which BPF needs");
		return -ENOTSUP;
	}
	id = btf__find_by_name_kind(btf, "tcp_congestion_ops", BTF_KIND_STRUCT);
	ops = id < 0 ? NULL : btf__type_by_id(btf, (u32)id);
	for (i = 0; ops && i < btf_vlen(ops); i++) {
		member = btf_members(ops) + i;
		if (!strcmp(btf__name_by_offset(btf, member->name_off), "cwnd_event_tx_start"))
			variant = 2;
		if (strcmp(btf__name_by_offset(btf, member->name_off), "cong_control") ||
		    variant >= 0)
			continue;
		type = btf__type_by_id(btf, member->type);
		type = type ? btf__type_by_id(btf, type->type) : NULL;
		if (type && btf_is_func_proto(type))
			variant = btf_vlen(type) == 4 ? 1 : 0;
	}
	btf__free(btf);
	return variant;
}

/* Whether the algorithm whose pins are here is offered to sockets. */
static bool is_registered(const struct loaded *l)
{
	int ops = open_pin(l, "ops", BPF_MAP_TYPE_STRUCT_OPS, sizeof(u32), 0);
	struct bpf_map_info info = {};
	u32 bytes = sizeof(info), place = 0;
	struct ops_head {
		u32 refs;
		u32 state;	/* enum bpf_struct_ops_state: 1 is in use */
	} *value;
	bool registered = false;

	if (ops < 0)
		return false;
	if (!bpf_obj_get_info_by_fd(ops, &info, &bytes)) {
		value = calloc(1, info.value_size);
		registered = value && !bpf_map_lookup_elem(ops, &place, value) && value->state == 1;
		free(value);
	}
	close(ops);
	return registered;
}

static int name_folder(struct loaded *l, const char *pins, const char *name)
{
	int at = find(name);

	memset(l, 0, sizeof(*l));
	l->pins = -1;
	l->lock = -1;
	if (at < 0)
		return at;
	l->name = algorithms[at].name;
	l->algorithm = algorithms[at].algorithm;
	l->id = l->algorithm->id;
	if (snprintf(l->folder, sizeof(l->folder), "%s/%s", pins, l->name) >= (int)sizeof(l->folder))
		return -ENAMETOOLONG;
	return at;
}

static int open_maps(struct loaded *l)
{
	const struct {
		const char *name;
		int *fd;
		u32 type, key_bytes;
		size_t value_bytes;
	} maps[] = {
		{ "configs", &l->configs, BPF_MAP_TYPE_ARRAY_OF_MAPS, sizeof(u32), sizeof(u32) },
		{ "sums", &l->sums, BPF_MAP_TYPE_ARRAY_OF_MAPS, sizeof(u32), sizeof(u32) },
		{ "delays", &l->delays, BPF_MAP_TYPE_ARRAY_OF_MAPS, sizeof(u32), sizeof(u32) },
		{ "records", &l->records, BPF_MAP_TYPE_ARRAY_OF_MAPS, sizeof(u32), sizeof(u32) },
		{ "counters", &l->counters, BPF_MAP_TYPE_ARRAY, sizeof(u32),
		  sizeof(struct ccatune_totals) },
		{ "flows", &l->flows, BPF_MAP_TYPE_HASH, sizeof(u64), l->algorithm->flow_bytes },
		{ "host", &l->host, BPF_MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct ccatune_host) },
	};
	size_t i;

	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		*maps[i].fd = open_pin(l, maps[i].name, maps[i].type, maps[i].key_bytes,
				       maps[i].value_bytes);
		if (*maps[i].fd == -ENOENT)
			complain("%s/%s: expected this map, there is none; unload %s and load it again",
				 l->folder, maps[i].name, l->name);
		if (*maps[i].fd < 0)
			return *maps[i].fd;
	}
	return 0;
}

/* Locks the folder of an algorithm that is loaded. */
static int lock_loaded(struct loaded *l, const char *pins, const char *name)
{
	int err = name_folder(l, pins, name);

	if (err < 0)
		return err;
	l->pins = open_pins(pins, false);
	err = l->pins < 0 ? l->pins : lock_folder(l);
	if (err == -ENOENT)
		complain("%s is not loaded below %s; `ccatune-bpf load %s` does", name, pins, name);
	return err;
}

int open_loaded(struct loaded *l, const char *pins, const char *name)
{
	int err = lock_loaded(l, pins, name);

	if (!err)
		err = open_maps(l);
	if (!err)
		err = config_read(l);
	if (err)
		close_loaded(l);
	return err;
}

/* The end of the process closes the other descriptors. */
void close_loaded(struct loaded *l)
{
	free(l->config);
	l->config = NULL;
	close(l->lock);
}

/* --- load and unload -------------------------------------------------------------- */

static int pin_maps(struct bpf_object *object, struct loaded *l)
{
	struct bpf_map *map;
	const char *name;
	int err;

	bpf_object__for_each_map(map, object) {
		name = bpf_map__name(map);
		if (bpf_map__is_internal(map) || !strcmp(name, "blank"))
			continue;
		err = bpf_obj_pin(bpf_map__fd(map), name);
		if (err) {
			complain("%s/%s: %s", l->folder, name, strerror(-err));
			return err;
		}
	}
	return 0;
}

/* Puts a first configuration in force, then offers the algorithm to sockets. */
static int begin(struct bpf_object *object, struct loaded *l)
{
	struct ccatune_host host = { .versions = 1 };
	struct bpf_link *link;
	int err;

	err = pin_maps(object, l);
	if (!err)
		err = open_maps(l);
	if (!err && getrandom(&host.instance, sizeof(host.instance), 0) < 0)
		err = -errno;
	if (!err)
		err = host_write(l, &host);
	if (!err)
		err = config_first(l);
	if (err)
		return err;
	link = bpf_map__attach_struct_ops(bpf_object__find_map_by_name(object, "ops"));
	if (!link) {
		err = -errno;
		complain("%s: cannot be registered: %s%s", l->name, strerror(-err),
			 err == -EEXIST ? "; a module has the name, or BPF below other pins" : "");
		return err;
	}
	/* The map keeps it registered; the link would end it with this process. */
	bpf_link__disconnect(link);
	return bpf_link__destroy(link);
}

static int load_object(struct loaded *l, const struct variant *variant)
{
	struct bpf_object *object;
	int err;

	object = bpf_object__open_mem(variant->start, (size_t)(variant->end - variant->start), NULL);
	if (!object)
		return -errno;
	err = bpf_object__load(object);
	if (err == -EFAULT || err == -E2BIG)
		complain("%s: the verifier of this kernel cannot follow the program; expected a newer "
			 "kernel (docs/bpf.md)", l->name);
	else if (err)
		complain("%s: the kernel does not load it: %s", l->name, strerror(-err));
	else
		err = begin(object, l);
	bpf_object__close(object);
	return err;
}

/* libbpf's own messages are long; they are of use where an object is refused. */
static int be_quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level != LIBBPF_WARN || !getenv("CCATUNE_BPF_VERBOSE"))
		return 0;
	return vfprintf(stderr, format, args);
}

void quieten_libbpf(void)
{
	libbpf_set_print(be_quiet);
}

static int load_locked(struct loaded *l, const struct variant *variant)
{
	int err;

	if (is_registered(l)) {
		complain("%s is loaded already", l->name);
		return -EEXIST;
	}
	/* Removes the pins that a killed load has left. */
	err = empty_folder();
	if (!err)
		err = load_object(l, variant);
	if (err)
		remove_folder(l);
	return err;
}

int load(const char *pins, const char *name)
{
	struct loaded l;
	int at = name_folder(&l, pins, name), variant, err;

	if (at < 0)
		return at;
	quieten_libbpf();
	variant = variant_of_kernel();
	if (variant < 0)
		return variant;
	l.pins = open_pins(pins, true);
	if (l.pins == -ENOENT)
		complain("%s: expected the folder above it to exist; make it, or set --pins", pins);
	if (l.pins < 0)
		return l.pins;
	if (mkdirat(l.pins, l.name, 0700) && errno != EEXIST) {
		err = -errno;
		complain("%s: %s", l.folder, strerror(-err));
		return err;
	}
	err = lock_folder(&l);
	if (err == -ENOENT)
		complain("%s: another program unloads it, try again", l.folder);
	if (!err)
		err = load_locked(&l, &algorithms[at].variant[variant]);
	close_loaded(&l);
	return err;
}

/*
 * Takes the table from sockets and network namespaces that keep the object. Its maps may be of
 * another version, so that this cannot be done.
 */
static void recall_table(struct loaded *l)
{
	int err = open_maps(l);

	if (!err)
		err = config_read(l);
	if (!err && l->config->has_table) {
		l->config->has_table = 0;
		l->config->recalls++;
		err = config_publish(l);
	}
	if (err)
		complain("%s: sockets that use it keep its table", l->name);
}

/*
 * Sockets that run it keep it until they end, and network namespaces whose default it is until they
 * have another one.
 */
int unload(const char *pins, const char *name)
{
	struct loaded l;
	u32 place = 0;
	int err = lock_loaded(&l, pins, name), ops;

	if (err)
		return err;
	ops = open_pin(&l, "ops", BPF_MAP_TYPE_STRUCT_OPS, sizeof(u32), 0);
	if (is_registered(&l))
		recall_table(&l);
	err = ops < 0 ? ops : bpf_map_delete_elem(ops, &place);
	/* ENOENT: a load was killed before this. EINPROGRESS: an unload was killed after this. */
	if (err && err != -ENOENT && err != -EINPROGRESS)
		complain("%s: cannot be unregistered: %s", name, strerror(-err));
	else
		err = remove_folder(&l);
	close_loaded(&l);
	return err;
}

int list(const char *pins)
{
	int fd = open_pins(pins, false);
	struct dirent *entry;
	DIR *dir;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (*entry->d_name != '.')
			puts(entry->d_name);
	closedir(dir);
	return 0;
}
