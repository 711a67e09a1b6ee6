// SPDX-License-Identifier: GPL-2.0
/* Loading and unloading, and the pins of a loaded algorithm. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "tool.h"

/* The objects, each for three kinds of kernel (kernel.h), in the memory of this program. */
#define OBJECT(algorithm, kernel) \
	extern const char object_##algorithm##_##kernel[], object_##algorithm##_##kernel##_end[]; \
	__asm__(".section .rodata\n.balign 16\n" \
		"object_" #algorithm "_" #kernel ":\n" \
		".incbin \"" #algorithm "-" #kernel ".bpf.o\"\n" \
		"object_" #algorithm "_" #kernel "_end:\n" \
		".byte 0\n.previous\n");
#define OBJECTS(algorithm) OBJECT(algorithm, 601) OBJECT(algorithm, 610) OBJECT(algorithm, 701)

OBJECTS(gr)
OBJECTS(roccet)
OBJECTS(cubic)

struct variant {
	const char *start, *end;
};

#define VARIANT(algorithm, kernel) \
	{ object_##algorithm##_##kernel, object_##algorithm##_##kernel##_end }
#define ALGORITHM(name) \
	{ #name, CCA_ID_##name, { VARIANT(name, 601), VARIANT(name, 610), VARIANT(name, 701) } }

static const struct {
	const char *name;
	u32 id;
	struct variant variant[3];
} algorithms[] = {
	ALGORITHM(gr),
	ALGORITHM(roccet),
	ALGORITHM(cubic),
};

static int find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		if (!strcmp(algorithms[i].name, name))
			return (int)i;
	complain("expected an algorithm among gr, roccet and cubic, got %s", name);
	return -ENOENT;
}

/* Which variant the running kernel takes: told by its types, not by its version. */
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

/* --- the folder of pins --------------------------------------------------------- */

static bool is_bpffs(const char *path)
{
	struct statfs fs;

	return !statfs(path, &fs) && (unsigned long)fs.f_type == BPF_FS_MAGIC;
}

/* Makes the folder; where its parent is no BPF file system, one is mounted there. */
static int make_pins(const char *pins)
{
	char parent[256], *slash;

	if (strlen(pins) >= sizeof(parent)) {
		complain("--pins: expected less than %zu characters", sizeof(parent));
		return -ENAMETOOLONG;
	}
	strcpy(parent, pins);
	slash = strrchr(parent, '/');
	if (!slash || slash == parent) {
		complain("--pins: expected an absolute folder below another one, got %s", pins);
		return -EINVAL;
	}
	*slash = '\0';
	if (!is_bpffs(parent) && mount("bpf", parent, "bpf", 0, "mode=0700")) {
		complain("%s: expected a BPF file system, and none can be mounted there (%s)", parent,
			 strerror(errno));
		return -errno;
	}
	if (mkdir(pins, 0700) && errno != EEXIST) {
		complain("%s: %s", pins, strerror(errno));
		return -errno;
	}
	return 0;
}

static int lock_folder(struct loaded *l)
{
	l->lock = open(l->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->lock < 0)
		return -errno;
	return flock(l->lock, LOCK_EX) ? -errno : 0;
}

static int remove_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[600];

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	closedir(dir);
	return rmdir(folder) ? -errno : 0;
}

static int open_pin(const struct loaded *l, const char *name)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%s", l->folder, name);
	return bpf_obj_get(path);
}

static int name_folder(struct loaded *l, const char *pins, const char *name)
{
	int at = find(name);

	memset(l, 0, sizeof(*l));
	l->lock = -1;
	if (at < 0)
		return at;
	l->name = algorithms[at].name;
	l->id = algorithms[at].id;
	if (snprintf(l->folder, sizeof(l->folder), "%s/%s", pins, l->name) >= (int)sizeof(l->folder))
		return -ENAMETOOLONG;
	return at;
}

static int open_maps(struct loaded *l)
{
	const struct {
		const char *name;
		int *fd;
	} maps[] = {
		{ "configs", &l->configs }, { "sums", &l->sums }, { "delays", &l->delays },
		{ "records", &l->records }, { "counters", &l->counters }, { "flows", &l->flows },
		{ "host", &l->host },
	};
	size_t i;

	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		*maps[i].fd = open_pin(l, maps[i].name);
		if (*maps[i].fd < 0) {
			complain("%s/%s: %s", l->folder, maps[i].name, strerror(-*maps[i].fd));
			return *maps[i].fd;
		}
	}
	return 0;
}

int open_loaded(struct loaded *l, const char *pins, const char *name)
{
	int err = name_folder(l, pins, name);

	if (err < 0)
		return err;
	err = lock_folder(l);
	if (err) {
		complain("%s is not loaded below %s (%s); `ccatune-bpf load %s` does", name, pins,
			 strerror(-err), name);
		return err;
	}
	err = open_maps(l);
	return err ? err : config_read(l);
}

/* The path of a map that belongs to one table. */
int pin_of(const struct loaded *l, const char *name, u64 generation, char *path, size_t room)
{
	int len = snprintf(path, room, "%s/%s-%llu", l->folder, name, (unsigned long long)generation);

	return len < 0 || (size_t)len >= room ? -ENAMETOOLONG : 0;
}

/* The descriptors go with the process. */
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
	char path[600];
	int err;

	bpf_object__for_each_map(map, object) {
		if (bpf_map__is_internal(map) || !strcmp(bpf_map__name(map), "blank"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", l->folder, bpf_map__name(map));
		err = bpf_map__pin(map, path);
		if (err) {
			complain("%s: %s", path, strerror(-err));
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
		complain("%s: cannot be registered: %s%s", l->name, strerror(errno),
			 errno == EEXIST ? "; a module has the name" : "");
		return -errno;
	}
	/* The map keeps it registered; the link would end it with this process. */
	bpf_link__disconnect(link);
	return 0;
}

static int load_object(struct loaded *l, const struct variant *variant)
{
	struct bpf_object *object;
	int err;

	object = bpf_object__open_mem(variant->start, (size_t)(variant->end - variant->start), NULL);
	if (!object)
		return -errno;
	err = bpf_object__load(object);
	if (err)
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

int load(const char *pins, const char *name)
{
	struct loaded l;
	int at = name_folder(&l, pins, name), variant, err;

	if (at < 0)
		return at;
	libbpf_set_print(be_quiet);
	variant = variant_of_kernel();
	if (variant < 0)
		return variant;
	err = make_pins(pins);
	if (err)
		return err;
	if (mkdir(l.folder, 0700)) {
		if (errno == EEXIST)
			complain("%s is loaded already", name);
		else
			complain("%s: %s", l.folder, strerror(errno));
		return -errno;
	}
	err = lock_folder(&l);
	if (!err)
		err = load_object(&l, &algorithms[at].variant[variant]);
	if (err)
		remove_folder(l.folder);
	return err;
}

/* Sockets that run it keep it until they end. */
int unload(const char *pins, const char *name)
{
	struct loaded l;
	u32 place = 0;
	int err = name_folder(&l, pins, name), ops;

	if (err < 0)
		return err;
	err = lock_folder(&l);
	if (err) {
		complain("%s is not loaded below %s", name, pins);
		return err;
	}
	ops = open_pin(&l, "ops");
	if (ops >= 0 && bpf_map_delete_elem(ops, &place) && errno != ENOENT) {
		complain("%s: cannot be unregistered: %s", name, strerror(errno));
		return -errno;
	}
	return remove_folder(l.folder);
}

int list(const char *pins)
{
	DIR *dir = opendir(pins);
	struct dirent *entry;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(dir)))
		if (*entry->d_name != '.')
			puts(entry->d_name);
	closedir(dir);
	return 0;
}
