/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ccatune-bpf: loads the BPF objects, and serves the files of /proc/net/ccatune over their maps.
 *
 *   main.c     the command line
 *   pins.c     the folders of pins and their locks; opening a pinned map
 *   object.c   loading and unloading; the maps of a loaded algorithm
 *   config.c   the configuration in force, and how a new one takes its place
 *   values.c   `parameters` and `settings`
 *   table.c    `ensemble`
 *   show.c     `status` and `flows`
 *   flow.c     what an algorithm says of a flow
 *   record.c   `recording`
 *   acks.c     `acks`
 *
 * Functions that can fail return 0 or a negative errno. What went wrong is printed where it
 * happened.
 */
#ifndef CCATUNE_BPF_TOOL_H
#define CCATUNE_BPF_TOOL_H

#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#define CCA_FN static inline __attribute__((unused))
#include "ensemble_format.h"
#include "ensemble_text.h"
#include "params_text.h"

#include "../layout.h"

#define DEFAULT_PINS "/sys/fs/bpf/ccatune"
#define PIN_BYTES 64			/* of the name of a pin */

/* The text is that of the modules. A flow is a copy here. */
struct seq_file {
	FILE *out;
};

#define seq_printf(m, ...) fprintf((m)->out, __VA_ARGS__)
#define seq_puts(m, text) fputs(text, (m)->out)
#define READ_ONCE(x) (x)
#define data_race(x) (x)
#define ccatune_read(count) (*(count))

#include "../../linux/show.h"

/* What this program knows of an algorithm (flow.c). */
struct algorithm {
	u32 id;
	size_t flow_bytes;		/* of a flow in the map */
	void (*view)(const struct ccatune_flow *flow, struct ccatune_view *view);
	void (*show)(struct seq_file *m, const struct ccatune_flow *flow);
};

/* A loaded algorithm: its folder of pins, locked, and its maps. */
struct loaded {
	const char *name;
	u32 id;
	const struct algorithm *algorithm;
	char folder[PATH_MAX];		/* for messages */
	int pins, lock;			/* descriptors of the folder of pins, and of this folder */
	int configs, sums, delays, records, counters, flows, host;
	struct ccatune_config *config;	/* a copy of the one in force, for the next one */
};

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An object in the memory of this program, from `object_NAME` to `object_NAME_end`. */
#define INCLUDE_OBJECT(name, file) \
	extern const char object_##name[], object_##name##_end[]; \
	__asm__(".section .rodata\n.balign 16\n" \
		"object_" #name ":\n.incbin \"" file "\"\nobject_" #name "_end:\n" \
		".byte 0\n.previous\n");

/* acks.c */
int acks(int argc, char **argv);

/* object.c */
void quieten_libbpf(void);
const char *algorithm_names(void);
int load(const char *pins, const char *name);
int unload(const char *pins, const char *name);
int list(const char *pins);
int open_loaded(struct loaded *l, const char *pins, const char *name);
void close_loaded(struct loaded *l);

/* pins.c */
int open_pins(const char *pins, bool make);
int lock_folder(struct loaded *l);
int empty_folder(void);
int remove_folder(const struct loaded *l);
int check_map(const struct loaded *l, const char *name, int fd, u32 type, u32 key_bytes,
	      size_t value_bytes);
int open_pin(const struct loaded *l, const char *name, u32 type, u32 key_bytes, size_t value_bytes);
void name_pin(char *to, const char *name, u64 number);

/* config.c */
int config_first(struct loaded *l);
int config_read(struct loaded *l);
int config_publish(struct loaded *l);
struct ccatune_host host_read(const struct loaded *l);
int host_write(const struct loaded *l, const struct ccatune_host *host);

/* The files. text: what was written, of len bytes. */
int values_show(struct loaded *l, FILE *out);
int settings_show(struct loaded *l, FILE *out);
int parameters_write(struct loaded *l, const char *text, u32 len);
int settings_write(struct loaded *l, const char *text, u32 len);
int ensemble_show(struct loaded *l, FILE *out);
int ensemble_write(struct loaded *l, const char *text, u32 len);
int status_show(struct loaded *l, FILE *out);
int flows_show(struct loaded *l, FILE *out);
int recording_show(struct loaded *l, FILE *out);
int recording_write(struct loaded *l, const char *text, u32 len);
int recording_add_table(struct loaded *l);
int recording_add_params(struct loaded *l);

#endif /* CCATUNE_BPF_TOOL_H */
