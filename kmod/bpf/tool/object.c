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

/* As in the Makefile and in kmod/bpf_host.py. */
#define NAME(algorithm) #algorithm ", "
#define EACH_ALGORITHM(f) f(gr) f(roccet) f(rtcp_cubic) \
	f(rtcp_bbr) f(rtcp_bbr3) f(cubic) f(vegas)

EACH_ALGORITHM(OBJECTS)

struct variant {
	const char *start, *end;
};

#define VARIANT(algorithm, kernel) \
	{ object_##algorithm##_##kernel, object_##algorithm##_##kernel##_end }
#define ALGORITHM(name) \
	{ #name, CCA_ID_##name, { VARIANT(name, 601), VARIANT(name, 610), VARIANT(name, 701) } },

static const struct {
	const char *name;
	u32 id;
	struct variant variant[3];
} algorithms[] = {
	EACH_ALGORITHM(ALGORITHM)
};

static int find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		if (!strcmp(algorithms[i].name, name))
			return (int)i;
	complain("expected an algorithm among " EACH_ALGORITHM(NAME) "got %s", name);
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

/* Makes the folder. /sys/fs/bpf becomes a BPF file system where it is none yet. */
static int make_pins(const char *pins)
{
	char parent[256], *slash;
	int err;

	if (strlen(pins) >= sizeof(parent)) {
		complain("--pins: expected less than %zu characters", sizeof(parent));
		return -ENAMETOOLONG;
	}
	strcpy(parent, pins);
	slash = strrchr(parent, '/');
	if (*pins != '/' || !slash || slash == parent) {
		complain("--pins: expected an absolute folder below another one, got %s", pins);
		return -EINVAL;
	}
	*slash = '\0';
	/* Elsewhere a mount would hide files. */
	if (!is_bpffs(parent) && (strcmp(parent, "/sys/fs/bpf") ||
				  mount("bpf", parent, "bpf", 0, "mode=0700"))) {
		complain("%s: expected a BPF file system (`mount -t bpf bpf %s`)", parent, parent);
		return -ENOTDIR;
	}
	if (mkdir(pins, 0700) && errno != EEXIST) {
		err = -errno;
		complain("%s: %s", pins, strerror(-err));
		return err;
	}
	return 0;
}

static int lock_folder(struct loaded *l)
{
	struct stat locked, named;

	l->lock = open(l->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->lock < 0)
		return -errno;
	if (flock(l->lock, LOCK_EX))
		return -errno;
	/* While this waited, an unload may have removed the folder. */
	if (fstat(l->lock, &locked) || stat(l->folder, &named))
		return -errno;
	return locked.st_ino == named.st_ino ? 0 : -ENOENT;
}

static int empty_folder(const char *folder)
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
	return 0;
}

static int remove_folder(const char *folder)
{
	int err = empty_folder(folder);

	if (err)
		return err;
	return rmdir(folder) ? -errno : 0;
}

static int open_pin(const struct loaded *l, const char *name)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%s", l->folder, name);
	return bpf_obj_get(path);
}

/* Whether the algorithm whose pins are here is offered to sockets. */
static bool is_registered(const struct loaded *l)
{
	int ops = open_pin(l, "ops");
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
	l->lock = -1;
	if (at < 0)
		return at;
	l->name = algorithms[at].name;
	l->id = algorithms[at].id;
	if (snprintf(l->folder, sizeof(l->folder), "%s/%s", pins, l->name) >= (int)sizeof(l->folder))
		return -ENAMETOOLONG;
	return at;
}

static size_t value_bytes(int fd)
{
	struct bpf_map_info info = {};
	u32 bytes = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &bytes) ? 0 : info.value_size;
}

static int open_maps(struct loaded *l)
{
	const struct {
		const char *name;
		int *fd;
		size_t bytes;		/* of a value; 0: not compared */
	} maps[] = {
		{ "configs", &l->configs, 0 }, { "sums", &l->sums, 0 },
		{ "delays", &l->delays, 0 }, { "records", &l->records, 0 },
		{ "counters", &l->counters, sizeof(struct ccatune_counters) },
		{ "flows", &l->flows, flow_bytes(l->id) },
		{ "host", &l->host, sizeof(struct ccatune_host) },
	};
	size_t i;

	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		*maps[i].fd = open_pin(l, maps[i].name);
		if (*maps[i].fd < 0) {
			complain("%s/%s: %s", l->folder, maps[i].name, strerror(-*maps[i].fd));
			return *maps[i].fd;
		}
		if (maps[i].bytes && value_bytes(*maps[i].fd) != maps[i].bytes) {
			complain("%s was loaded by another version; unload it with that one", l->name);
			return -EPROTO;
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
		err = -errno;
		complain("%s: cannot be registered: %s%s", l->name, strerror(-err),
			 err == -EEXIST ? "; a module has the name, or BPF below other pins" : "");
		return err;
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
	if (mkdir(l.folder, 0700) && errno != EEXIST) {
		err = -errno;
		complain("%s: %s", l.folder, strerror(-err));
		return err;
	}
	err = lock_folder(&l);
	if (err) {
		complain("%s: %s; another program unloads it, try again", l.folder, strerror(-err));
		return err;
	}
	if (is_registered(&l)) {
		complain("%s is loaded already", name);
		return -EEXIST;
	}
	/* What a load that was killed has left. */
	err = empty_folder(l.folder);
	if (!err)
		err = load_object(&l, &algorithms[at].variant[variant]);
	if (err)
		remove_folder(l.folder);
	return err;
}

/*
 * Sockets that run it keep it until they end, and network namespaces whose default it is until they
 * have another one.
 */
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
	/* Network namespaces and listening sockets may keep the object: without its table. */
	if (!open_maps(&l) && !config_read(&l) && l.config->has_table) {
		l.config->has_table = 0;
		l.config->recalls++;
		config_publish(&l);
	}
	/* EINPROGRESS: an unload was killed after this. */
	err = ops < 0 ? 0 : bpf_map_delete_elem(ops, &place);
	if (err && err != -ENOENT && err != -EINPROGRESS) {
		complain("%s: cannot be unregistered: %s", name, strerror(-err));
		return err;
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
