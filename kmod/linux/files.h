/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The text of the files `parameters` and `settings`, and the commands and the content of the file
 * `recording`, for the modules and ccatune-bpf. The includer has seq_printf().
 */
#ifndef CCATUNE_FILES_H
#define CCATUNE_FILES_H

#include "ensemble_recording.h"
#include "params_text.h"

#define CCATUNE_VALUES_MAX_BYTES 4096u		/* of a write to `parameters` or `settings` */
#define CCATUNE_MAX_RECORDS (1u << 18)		/* of a recording, 32 MiB */

static inline void ccatune_show_parameters(struct seq_file *m, u32 id, const u32 *values)
{
	const struct cca_param_spec *spec;
	u32 i;

	for (i = 0; i < CCA_MAX_PARAMS; i++) {
		spec = cca_param_at(id, i);
		if (!spec)
			break;
		seq_printf(m, "%s %u %u %u %u %s\n", spec->name, values[i], spec->min,
			   spec->initial, spec->max, spec->unit);
	}
}

static inline void ccatune_show_setting(struct seq_file *m, const struct cca_setting_spec *spec,
					u32 value)
{
	seq_printf(m, "%s %u %u %u %u %s\n", spec->name, value, spec->min, spec->initial, spec->max,
		   spec->unit);
}

/* --- recording -------------------------------------------------------------------- */

enum ccatune_command {
	CCATUNE_START,
	CCATUNE_STOP,
	CCATUNE_CLEAR,
};

/* Parses `start N`, `stop` or `clear`. Returns the command, or an error. size: N. */
static inline int ccatune_take_command(const char *text, u32 len, u32 *size)
{
	const char *end = text + len;
	struct ens_cursor line = cca_next_line(&text, end);
	struct cca_word word = ens_take_word(&line);
	int command = -CCA_EINVAL, err = 0;

	if (cca_word_is(word, "start"))
		command = CCATUNE_START;
	else if (cca_word_is(word, "stop"))
		command = CCATUNE_STOP;
	else if (cca_word_is(word, "clear"))
		command = CCATUNE_CLEAR;
	if (command == CCATUNE_START)
		err = ens_take_char(&line, ' ');
	if (command == CCATUNE_START && !err)
		err = ens_take_u32(&line, 1, CCATUNE_MAX_RECORDS, size);
	if (err)
		return err;
	return text == end && ens_at_end(&line) ? command : -CCA_EINVAL;
}

/* place: for rec_table_records() records, or NULL. */
static inline void ccatune_fill_table(struct rec_record *place, const struct ens_table *t)
{
	u32 i, n = rec_table_records(t);

	for (i = 0; place && i < n; i++) {
		rec_init(&place[i], REC_TABLE, 0, 0);
		rec_put_table(&place[i], t, i);
		rec_finish(&place[i]);
	}
}

/* place: for a record, or NULL. */
static inline void ccatune_fill_params(struct rec_record *place, const u32 *values, u32 id,
				       u32 version)
{
	if (!place)
		return;
	rec_init(place, REC_PARAMS, 0, 0);
	rec_put_params(place, values, id, version);
	rec_finish(place);
}

/* next: the records taken; those beyond size are lost. */
static inline void ccatune_fill_header(struct rec_header *h, u32 id, u64 next, u32 size)
{
	__builtin_memset(h, 0, sizeof(*h));
	h->magic = REC_MAGIC;
	h->version = REC_VERSION;
	h->header_bytes = sizeof(*h);
	h->record_bytes = sizeof(struct rec_record);
	h->id = id;
	h->records = (u32)cca_min_u64(next, size);
	h->lost = next - h->records;
}

#endif /* CCATUNE_FILES_H */
