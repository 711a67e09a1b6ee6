/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Formats an ensemble as the text from which it was parsed (ensemble_text.h). It
 * works line by line, so a host can output the text in pieces (seq_file) without a
 * buffer for the whole text.
 */
#ifndef CCA_ENSEMBLE_FORMAT_H
#define CCA_ENSEMBLE_FORMAT_H

#include "ensemble_text.h"

/* A text that grows up to `size` bytes. Further characters are dropped. */
struct ens_writer {
	char *at;
	u32 len;
	u32 size;
};

CCA_FN void ens_put_char(struct ens_writer *w, char c)
{
	if (w->len < w->size)
		w->at[w->len++] = c;
}

CCA_FN void ens_put_text(struct ens_writer *w, const char *text)
{
	u32 i;

	for (i = 0; i < ENS_MAX_LINE && text[i]; i++)
		ens_put_char(w, text[i]);
}

CCA_FN void ens_put_number(struct ens_writer *w, u64 number)
{
	char digits[20];	/* of 2^64 */
	u32 n = 0;

	do {
		digits[n++] = (char)('0' + (char)(number - cca_div(number, 10) * 10));
		number = cca_div(number, 10);
	} while (number && n < sizeof(digits));
	while (n)
		ens_put_char(w, digits[--n]);
}

CCA_FN void ens_put_field(struct ens_writer *w, const char *key, u64 number)
{
	ens_put_text(w, key);
	ens_put_char(w, ' ');
	ens_put_number(w, number);
}

CCA_FN void ens_put_named(struct ens_writer *w, const char *key, const char *name)
{
	ens_put_text(w, key);
	ens_put_char(w, ' ');
	ens_put_text(w, name);
}

CCA_FN void ens_put_classes(struct ens_writer *w, const struct ens_table *t)
{
	u32 i;

	ens_put_text(w, "classes");
	for (i = 0; i < t->n_classes; i++) {
		ens_put_char(w, ' ');
		ens_put_number(w, t->classes[i].percentile);
		ens_put_char(w, ':');
		ens_put_number(w, t->classes[i].queueing_delay_us);
	}
}

CCA_FN void ens_put_axis(struct ens_writer *w, u32 id, const struct ens_axis *a)
{
	ens_put_named(w, "axis", cca_axis_name(id, a->number));
	ens_put_field(w, a->scale == ENS_LOG ? " log" : " linear", a->step);
	ens_put_field(w, "", a->count);
	if (a->scale == ENS_LOG)
		ens_put_field(w, "", a->per_octave);
}

CCA_FN void ens_put_columns(struct ens_writer *w, const struct ens_table *t)
{
	u32 i;

	ens_put_text(w, "columns");
	for (i = 0; i < t->n_columns; i++)
		ens_put_named(w, "", cca_param_at(t->id, t->column[i])->name);
}

CCA_FN void ens_put_row(struct ens_writer *w, const struct ens_table *t, u32 row)
{
	u32 state = row / ens_state_rows(t);
	u32 i;

	if (t->n_axes > 1) {
		ens_put_number(w, state / t->axis[1].count);
		ens_put_field(w, "", state % t->axis[1].count);
	} else {
		ens_put_number(w, state);
	}
	if (t->n_classes)
		ens_put_field(w, "", row % t->n_classes);
	for (i = 0; i < t->n_columns; i++)
		ens_put_field(w, "", t->values[row * t->n_columns + i]);
}

CCA_FN void ens_put_header(struct ens_writer *w, const struct ens_table *t, u32 line)
{
	switch (line) {
	case ENS_VERSION:
		ens_put_text(w, "ccatune-ensemble 1");
		break;
	case ENS_CCA:
		ens_put_named(w, "cca", cca_name_of(t->id));
		break;
	case ENS_REGISTRY:
		ens_put_named(w, "registry", t->registry);
		break;
	case ENS_CHANNEL:
		ens_put_named(w, "channel", t->channel);
		break;
	case ENS_SERIAL:
		ens_put_field(w, "serial", t->serial);
		if (t->urgent)
			ens_put_text(w, " urgent");
		break;
	case ENS_DIGEST:
		ens_put_named(w, "digest", t->digest);
		break;
	case ENS_EPOCH:
		ens_put_field(w, "epoch_ms", t->epoch_ms);
		break;
	case ENS_ESTIMATE:
		ens_put_field(w, "estimate_ms", t->estimate_ms);
		break;
	case ENS_EPSILON:
		ens_put_field(w, "epsilon_pct", t->epsilon_pct);
		break;
	case ENS_HOLD_BACK:
		ens_put_field(w, "hold_back_permille", t->hold_back_permille);
		break;
	default:
		ens_put_classes(w, t);
		break;
	}
}

/* The number of header lines. Without classes `epsilon_pct` and `classes` are absent. */
CCA_FN u32 ens_header_lines(const struct ens_table *t)
{
	return t->n_classes ? ENS_AXIS : ENS_AXIS - 2;
}

CCA_FN u32 ens_lines(const struct ens_table *t)
{
	return ens_header_lines(t) + t->n_axes + 1 + ens_rows(t) + 1;
}

/*
 * Writes one line (0 to ens_lines() - 1) with its LF, without a terminating NUL.
 * Returns its length, or 0 after the last line. size: at least ENS_MAX_LINE.
 */
CCA_FN u32 ens_format_line(const struct ens_table *t, u32 line, char *text, u32 size)
{
	struct ens_writer w = { text, 0, size };
	u32 header = ens_header_lines(t);
	u32 columns = header + t->n_axes;

	if (line >= ens_lines(t))
		return 0;
	if (line < header)
		ens_put_header(&w, t, line + (!t->n_classes && line >= ENS_EPSILON));
	else if (line < columns)
		ens_put_axis(&w, t->id, &t->axis[line - header]);
	else if (line == columns)
		ens_put_columns(&w, t);
	else if (line <= columns + ens_rows(t))
		ens_put_row(&w, t, line - columns - 1);
	else
		ens_put_field(&w, "end", ens_rows(t));
	ens_put_char(&w, '\n');
	return w.len;
}

#endif /* CCA_ENSEMBLE_FORMAT_H */
