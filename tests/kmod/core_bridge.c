// SPDX-License-Identifier: MIT
/* kmod/core for Python's tests, through ctypes: what the core says, to compare with what Python says. */
#include "../contract/core/read_table.h"

struct spec {
	const char *name, *unit;
	u32 id, min, initial, max, kind;
};

u32 bridge_max_text_bytes(void);
u32 bridge_level(u32 is_log, u32 step, u32 count, u32 per_octave, u64 value);
int bridge_param(u32 index, struct spec *spec);
const char *bridge_axis(u32 index, u32 *id);
const char *bridge_algorithm(u32 index, u32 *id);
int bridge_read_back(u32 id, const char *text, u32 len, char *back, u32 size);
int bridge_row(u32 id, const char *text, u32 len, u32 state, u32 delay_class, u32 *params);

u32 bridge_level(u32 is_log, u32 step, u32 count, u32 per_octave, u64 value)
{
	struct ens_axis a = { 0, step, count, per_octave, is_log ? ENS_LOG : ENS_LINEAR };

	return ens_level(&a, value);
}

/* 0 behind the last. */
int bridge_param(u32 index, struct spec *spec)
{
	const struct cca_param_spec *found;

	if (index >= CCA_COUNT_OF(cca_params))
		return 0;
	found = &cca_params[index];
	spec->name = found->name;
	spec->unit = found->unit;
	spec->id = found->id;
	spec->min = found->min;
	spec->initial = found->initial;
	spec->max = found->max;
	spec->kind = found->kind;
	return 1;
}

static const char *name_at(const struct cca_name_spec *specs, u32 count, u32 index, u32 *id)
{
	if (index >= count)
		return NULL;
	*id = specs[index].id;
	return specs[index].name;
}

const char *bridge_axis(u32 index, u32 *id)
{
	return name_at(cca_axes, CCA_COUNT_OF(cca_axes), index, id);
}

const char *bridge_algorithm(u32 index, u32 *id)
{
	return name_at(cca_algorithms, CCA_COUNT_OF(cca_algorithms), index, id);
}

/* Parses a text whole; the caller frees the values. Returns 0, or an error; -EAGAIN (11) if it is not complete. */
static int read_text(u32 id, const char *text, u32 len, struct ens_table *table)
{
	struct ens_parser parser;
	int taken;

	ens_parser_init(&parser, table, id);
	taken = feed_table(&parser, text, len);
	if (taken < 0)
		return taken;
	return ens_is_complete(&parser) ? 0 : -11;
}

/* The length of the text that the core makes of it, or an error. */
int bridge_read_back(u32 id, const char *text, u32 len, char *back, u32 size)
{
	struct ens_table table;
	int result = read_text(id, text, len, &table);

	if (!result)
		result = (int)write_table(&table, back, size);
	free(table.values);
	return result;
}

int bridge_row(u32 id, const char *text, u32 len, u32 state, u32 delay_class, u32 *params)
{
	struct ens_table table;
	int result = read_text(id, text, len, &table);

	cca_params_init(params, id);
	if (!result)
		ens_take_row(&table, state, delay_class, params);
	free(table.values);
	return result;
}

u32 bridge_max_text_bytes(void)
{
	return ENS_MAX_TEXT_BYTES;
}
