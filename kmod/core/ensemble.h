/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A parameter ensemble in memory: the network states of one algorithm, and a
 * parameter set for each state and delay class.
 *
 *   level on a linear axis  = min(value / step, count - 1)       (PQSA eq. 2)
 *   level on a log axis     = octave * per_octave + part, where
 *                             octave = floor(log2(value / step)) and part is
 *                             the value's place among per_octave equal parts
 *                             of that octave; 0 below step; at most count - 1
 *   row                     = (level0 * count1 + level1) * classes + class,
 *                             where a table without classes counts as one class
 *
 * ensemble_text.h describes the text form. epoch.h selects the row of a flow in each
 * epoch.
 */
#ifndef CCA_ENSEMBLE_H
#define CCA_ENSEMBLE_H

#include "cca.h"
#include "words.h"

#define ENS_MAX_AXES 2u
#define ENS_MAX_LEVELS 64u
#define ENS_MAX_CLASSES 8u
#define ENS_MAX_NAME 63u
#define ENS_DIGEST_LEN 71u			/* "sha256:" and 64 hexadecimal digits */
#define ENS_MAX_EPOCH_MS 3600000u
#define ENS_MAX_EPSILON_PCT 1000u
#define ENS_MAX_QUEUEING_DELAY_US 60000000u
#define ENS_MAX_SERIAL ENS_MAX_NUMBER
#define ENS_PERMILLE 1000u

enum ens_scale {
	ENS_LINEAR,
	ENS_LOG,
};

struct ens_axis {
	u32 number;			/* among the algorithm's axes in params.def, from 0 */
	u32 step;			/* linear: width of a level; log: start of octave 0 */
	u32 count;			/* levels, 1 to 64 */
	u32 per_octave;			/* log only, 1 to 64 */
	enum ens_scale scale;
};

/* A target: this percentile of the queueing delay is at most queueing_delay_us. */
struct ens_class {
	u32 percentile;			/* 1 to 99 */
	u32 queueing_delay_us;
};

struct ens_table {
	char registry[ENS_MAX_NAME + 1];
	char channel[ENS_MAX_NAME + 1];
	char digest[ENS_DIGEST_LEN + 1];
	u64 serial;
	bool urgent;			/* flows use it immediately, not after their epoch */
	u64 generation;			/* the host's number for the table, never reused */
	u32 id;				/* CCA_ID_ of the algorithm */
	u32 epoch_ms;			/* P */
	u32 estimate_ms;		/* gamma P */
	u32 epsilon_pct;		/* epsilon; 0: every epoch looks up its row */
	u32 hold_back_permille;
	u32 n_axes, n_classes, n_columns;	/* n_classes may be 0 */
	struct ens_axis axis[ENS_MAX_AXES];
	struct ens_class classes[ENS_MAX_CLASSES];
	u32 column[CCA_MAX_PARAMS];	/* index of the parameter in params.def */
	u32 *values;			/* [rows][n_columns], in memory of the host */
};

CCA_FN u32 ens_states(const struct ens_table *t)
{
	/* At most 64 x 64. */
	return t->axis[0].count * (t->n_axes > 1 ? t->axis[1].count : 1);
}

/* The number of rows of a state: one for each delay class, or 1 without classes. */
CCA_FN u32 ens_state_rows(const struct ens_table *t)
{
	return t->n_classes ? t->n_classes : 1;
}

CCA_FN u32 ens_rows(const struct ens_table *t)
{
	return ens_states(t) * ens_state_rows(t);
}

/* The size of the values in bytes: at most 2^15 rows of 20 u32. */
CCA_FN u32 ens_values_bytes(const struct ens_table *t)
{
	return ens_rows(t) * t->n_columns * (u32)sizeof(u32);
}

CCA_FN u32 ens_log_level(const struct ens_axis *a, u64 value)
{
	u64 ratio = cca_div(value, a->step);
	u64 part;
	u32 octave;

	if (!ratio)
		return 0;
	for (octave = 0; octave < 63; octave++)
		if (ratio >> octave == 1)
			break;
	/* step <= value >> octave < 2 step: the product stays below 2^32 x 2^6. */
	part = cca_div(((value >> octave) - a->step) * a->per_octave, a->step);
	return cca_min_u32(octave * a->per_octave + (u32)part, a->count - 1);
}

CCA_FN u32 ens_level(const struct ens_axis *a, u64 value)
{
	if (a->scale == ENS_LOG)
		return ens_log_level(a, value);
	return (u32)cca_min_u64(cca_div(value, a->step), a->count - 1);
}

/* The state for a level on the first axis and a value on the second, if there is a second. */
CCA_FN u32 ens_state(const struct ens_table *t, u32 level, u64 second_value)
{
	u32 first = cca_min_u32(level, t->axis[0].count - 1);

	if (t->n_axes < 2)
		return first;
	return first * t->axis[1].count + ens_level(&t->axis[1], second_value);
}

/* The index of a row. A state and class from another table are limited to those of this one. */
CCA_FN u32 ens_row_index(const struct ens_table *t, u32 state, u32 delay_class)
{
	return cca_min_u32(state, ens_states(t) - 1) * ens_state_rows(t) +
	       cca_min_u32(delay_class, ens_state_rows(t) - 1);
}

/*
 * A host that cannot follow the pointer to the values (a BPF map holds none), or that must show its
 * bounds to a verifier, defines these before it includes the core: the value of a table at an index
 * below ens_rows() x n_columns, and the number of parameters that a set has room for.
 */
#ifndef ENS_VALUE
#define ENS_VALUE(table, index) ((table)->values[index])
#endif
#ifndef ENS_PARAMS
#define ENS_PARAMS CCA_MAX_PARAMS
#endif

/* Overwrites the parameters that the ensemble covers with those of the state. */
CCA_FN void ens_take_row(const struct ens_table *t, u32 state, u32 delay_class, void *params)
{
	u32 first = ens_row_index(t, state, delay_class) * t->n_columns;
	u32 column, i;

	for (i = 0; i < ENS_PARAMS && i < t->n_columns; i++) {
		column = t->column[i];
		if (column < ENS_PARAMS)
			cca_param_set(params, column, ENS_VALUE(t, first + i));
	}
}

CCA_FN bool ens_same_text(const char *a, const char *b, u32 size)
{
	u32 i;

	for (i = 0; i < size; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			break;
	}
	return true;
}

/*
 * Whether the offered table may replace the one in force (NULL: none).
 *   1        yes
 *   0        it is the one in force already
 *   -EEXIST  the table in force has the same serial, but other content
 *   -ESTALE  the table in force has a later serial
 * Serials of different registries or channels are not comparable, so a table of another
 * registry or channel is always admitted.
 */
CCA_FN int ens_admit(const struct ens_table *in_force, const struct ens_table *offered)
{
	if (!in_force ||
	    !ens_same_text(in_force->registry, offered->registry, ENS_MAX_NAME + 1) ||
	    !ens_same_text(in_force->channel, offered->channel, ENS_MAX_NAME + 1))
		return 1;
	if (offered->serial > in_force->serial)
		return 1;
	if (offered->serial < in_force->serial)
		return -CCA_ESTALE;
	return ens_same_text(in_force->digest, offered->digest, ENS_DIGEST_LEN + 1) ?
		0 : -CCA_EEXIST;
}

/* Whether this flow is held back, so ignores the ensemble. hash: any number, fixed per flow. */
CCA_FN bool ens_held_back(const struct ens_table *t, u32 hash)
{
	/* A multiplicative hash spreads any numbers that the host uses; 2^22 x 1000 < 2^32. */
	return (((hash * 2654435761u) >> 10) * (u64)ENS_PERMILLE) >> 22 < t->hold_back_permille;
}

#endif /* CCA_ENSEMBLE_H */
