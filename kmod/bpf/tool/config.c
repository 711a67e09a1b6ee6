// SPDX-License-Identifier: GPL-2.0
/*
 * The configuration in force: a map in the array `configs`, and pinned as config-N. A new one is
 * filled and pinned first. Then one update of `configs` puts it in force, and the old pin goes. A
 * program that is killed in between leaves a pin that `configs` does not name; the next writer
 * removes it.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

#define PIN_PREFIX "config"

struct ccatune_host host_read(const struct loaded *l)
{
	struct ccatune_host host = {};
	u32 place = 0;

	bpf_map_lookup_elem(l->host, &place, &host);
	return host;
}

int host_write(const struct loaded *l, const struct ccatune_host *host)
{
	u32 place = 0;

	return bpf_map_update_elem(l->host, &place, host, BPF_ANY);
}

static u32 map_id(int fd)
{
	struct bpf_map_info info = {};
	u32 bytes = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &bytes) ? 0 : info.id;
}

static u32 id_in_force(const struct loaded *l)
{
	u32 place = 0, id = 0;

	return bpf_map_lookup_elem(l->configs, &place, &id) ? 0 : id;
}

/* Visits the pins of configurations. Returns a descriptor of the one in force, or -ENOENT. */
static int walk_pins(const struct loaded *l, bool remove_others)
{
	u32 wanted = id_in_force(l), id;
	int found = -ENOENT, fd;
	struct dirent *entry;
	DIR *dir;

	if (!wanted)
		return -ENOENT;
	dir = opendir(".");
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, PIN_PREFIX "-", strlen(PIN_PREFIX "-")))
			continue;
		fd = bpf_obj_get(entry->d_name);
		if (fd < 0)
			continue;
		id = map_id(fd);
		if (found < 0 && id == wanted) {
			found = fd;
			continue;
		}
		close(fd);
		if (remove_others && id)
			unlink(entry->d_name);
	}
	closedir(dir);
	return found;
}

int config_read(struct loaded *l)
{
	int fd = walk_pins(l, false), err = 0;
	u32 place = 0;

	if (fd >= 0)
		fd = check_map(l, PIN_PREFIX, fd, BPF_MAP_TYPE_ARRAY, sizeof(u32), sizeof(*l->config));
	if (fd == -ENOENT)
		complain("%s: no configuration is in force in %s; unload and load it again", l->name,
			 l->folder);
	if (fd < 0)
		return fd;
	l->config = malloc(sizeof(*l->config));
	err = l->config ? bpf_map_lookup_elem(fd, &place, l->config) : -ENOMEM;
	if (err)
		complain("%s: its configuration cannot be read: %s", l->name, strerror(-err));
	close(fd);
	return err;
}

/* Puts l->config in force, under a pin of its own. */
static int put_in_force(struct loaded *l, u64 number)
{
	char name[PIN_BYTES];
	u32 place = 0;
	int fd, err;

	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "config", sizeof(u32), sizeof(*l->config), 1, NULL);
	if (fd < 0)
		return fd;
	name_pin(name, PIN_PREFIX, number);
	err = bpf_map_update_elem(fd, &place, l->config, BPF_ANY);
	unlink(name);
	if (!err)
		err = bpf_obj_pin(fd, name);
	if (!err) {
		err = bpf_map_update_elem(l->configs, &place, &fd, BPF_ANY);
		if (err)
			unlink(name);
	}
	close(fd);
	return err;
}

int config_publish(struct loaded *l)
{
	struct ccatune_host host = host_read(l);
	int err;

	host.pins++;
	err = host_write(l, &host);
	if (!err)
		err = put_in_force(l, host.pins);
	if (!err)
		close(walk_pins(l, true));
	return err;
}

/* The configuration of an algorithm that was just loaded. */
int config_first(struct loaded *l)
{
	l->config = calloc(1, sizeof(*l->config));
	if (!l->config)
		return -ENOMEM;
	l->config->params.version = 1;
	cca_params_init(l->config->params.value, l->id);
	l->config->setting[CCATUNE_CLASS_SOURCE] = CCATUNE_CLASS_OF_PRIORITY;
	l->config->setting[CCATUNE_CLASS_MASK] = 0xffffffffu;
	l->config->setting[CCATUNE_MAX_FLOWS] = CCATUNE_MOST_FLOWS;
	return put_in_force(l, 0);
}
