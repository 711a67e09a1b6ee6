/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * params.def as tables that can be searched by name, and access by index to a
 * parameter struct. Such a struct has one u32 per parameter of its algorithm, in the
 * order of params.def.
 */
#ifndef CCA_PARAMS_H
#define CCA_PARAMS_H

#include "cca.h"

#define CCA_MAX_PARAMS 20u	/* of one algorithm */
#define CCA_MAX_AXES 16u	/* of one algorithm */

enum cca_param_kind {
	CCA_FIXED,
	CCA_GIVEN,
	CCA_TUNED,
	CCA_TRACKED,
};

struct cca_param_spec {
	const char *name;
	const char *unit;
	u32 id;			/* CCA_ID_ of its algorithm */
	u32 min, initial, max;
	enum cca_param_kind kind;
};

struct cca_name_spec {
	const char *name;
	u32 id;
};

#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) \
	{ #name, #unit, CCA_ID_##algorithm, min, default, max, CCA_##kind },
static const struct cca_param_spec cca_params[] = {
#include "params.def"
};

/* The range of each parameter. */
enum cca_range {
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) \
	CCA_MIN_##algorithm##_##name = min, CCA_MAX_##algorithm##_##name = max,
#include "params.def"
};

#define CCA_AXIS(algorithm, name, meaning) { #name, CCA_ID_##algorithm },
static const struct cca_name_spec cca_axes[] = {
#include "params.def"
};

#define CCA_ALGORITHM(name, mode, host, meaning) { #name, CCA_ID_##name },
static const struct cca_name_spec cca_algorithms[] = {
#include "params.def"
};

#define CCA_COUNT_OF(array) ((u32)(sizeof(array) / sizeof((array)[0])))

/* A word within a text, without a terminating NUL. */
struct cca_word {
	const char *at;
	u32 len;
};

CCA_FN bool cca_word_is(struct cca_word word, const char *name)
{
	u32 i;

	for (i = 0; i < word.len; i++)
		if (!name[i] || name[i] != word.at[i])
			return false;
	return !name[word.len];
}

/* The algorithm's parameter at this index; NULL after the last one. */
CCA_FN const struct cca_param_spec *cca_param_at(u32 id, u32 index)
{
	u32 i;

	for (i = 0; i < CCA_COUNT_OF(cca_params); i++)
		if (cca_params[i].id == id && !index--)
			return &cca_params[i];
	return (const struct cca_param_spec *)0;
}

/* Index of the algorithm's parameter of that name; CCA_MAX_PARAMS if none. */
CCA_FN u32 cca_param_find(u32 id, struct cca_word word)
{
	u32 i, index = 0;

	for (i = 0; i < CCA_COUNT_OF(cca_params); i++) {
		if (cca_params[i].id != id)
			continue;
		if (cca_word_is(word, cca_params[i].name))
			return index;
		index++;
	}
	return CCA_MAX_PARAMS;
}

/* The name of the algorithm's axis with this number; NULL beyond the last. */
CCA_FN const char *cca_axis_name(u32 id, u32 number)
{
	u32 i;

	for (i = 0; i < CCA_COUNT_OF(cca_axes); i++)
		if (cca_axes[i].id == id && !number--)
			return cca_axes[i].name;
	return (const char *)0;
}

/* The number of the algorithm's axis of that name; CCA_MAX_AXES if it has none. */
CCA_FN u32 cca_axis_find(u32 id, struct cca_word word)
{
	u32 number;

	for (number = 0; number < CCA_MAX_AXES && cca_axis_name(id, number); number++)
		if (cca_word_is(word, cca_axis_name(id, number)))
			return number;
	return CCA_MAX_AXES;
}

/* The algorithm's name; NULL for a number that is no CCA_ID_. */
CCA_FN const char *cca_name_of(u32 id)
{
	u32 i;

	for (i = 0; i < CCA_COUNT_OF(cca_algorithms); i++)
		if (cca_algorithms[i].id == id)
			return cca_algorithms[i].name;
	return (const char *)0;
}

/* params: a parameter struct, with one u32 per parameter. */
CCA_FN void cca_param_set(void *params, u32 index, u32 value)
{
	__builtin_memcpy((char *)params + index * sizeof(u32), &value, sizeof(u32));
}

CCA_FN u32 cca_param_get(const void *params, u32 index)
{
	u32 value;

	__builtin_memcpy(&value, (const char *)params + index * sizeof(u32), sizeof(u32));
	return value;
}

CCA_FN void cca_params_init(void *params, u32 id)
{
	const struct cca_param_spec *spec;
	u32 i;

	for (i = 0; i < CCA_MAX_PARAMS; i++) {
		spec = cca_param_at(id, i);
		if (!spec)
			break;
		cca_param_set(params, i, spec->initial);
	}
}

#endif /* CCA_PARAMS_H */
