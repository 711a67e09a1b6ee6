/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The text of an ensemble. It is written to /proc/net/ccatune/<cca>/ensemble, and
 * read from there byte for byte.
 *
 *   ccatune-ensemble 1                 version of this format
 *   cca NAME
 *   registry NAME                      names: 1 to 63 of A-Z a-z 0-9 . _ -
 *   channel NAME
 *   serial N                           or `serial N urgent`
 *   digest sha256:<64 hexadecimal digits>
 *   epoch_ms N
 *   estimate_ms N                      1 to epoch_ms
 *   epsilon_pct N                      only with classes
 *   hold_back_permille N
 *   classes PERCENTILE:DELAY_US ...    1 to 8; without this line rows have no CLASS
 *   axis NAME linear STEP COUNT        one or two of these,
 *   axis NAME log STEP COUNT PER_OCTAVE
 *   columns PARAMETER ...
 *   LEVEL [LEVEL] [CLASS] VALUE ...    every row once, in order
 *   end ROWS
 *
 * The other valid text is the single line "clear". One space separates words. Numbers are
 * decimal, without leading zeros. Each line ends with LF. So a table has exactly one text.
 * `urgent` belongs to the deployment, as the serial does, and the digest does not cover it.
 *
 * Any other text gives -EINVAL, a number out of range -ERANGE, and a text of more than
 * 256 KiB -EFBIG. If the rows that the header announces cannot fit, -EFBIG is returned at
 * `columns`. So no header makes the host allocate more than its text could fill.
 *
 * The parser accepts the text in pieces of any size, and stores one line. After the header
 * it requires memory for the values, whose size is then known:
 *
 *   ens_parser_init(p, table, id)
 *   n = ens_parse(p, text, len)        bytes read, or an error, which is permanent
 *   ens_needs_values(p)?               allocate ens_values_bytes(table)
 *   ens_give_values(p, values)         then continue with the rest of the text
 *   ens_is_complete(p) / ens_is_clear(p)
 *
 * A table is valid only when its text is complete. The parser reads no byte after the last
 * line. It rejects any remaining bytes when they are passed in again. So the result does
 * not depend on how the text was divided into pieces.
 */
#ifndef CCA_ENSEMBLE_TEXT_H
#define CCA_ENSEMBLE_TEXT_H

#include "ensemble.h"
#include "words.h"

#define ENS_MAX_TEXT_BYTES (256u * 1024u)
#define ENS_MAX_LINE 512u		/* bytes, including LF */

enum ens_line {				/* the header's lines, in their order; then the rest */
	ENS_VERSION, ENS_CCA, ENS_REGISTRY, ENS_CHANNEL, ENS_SERIAL, ENS_DIGEST,
	ENS_EPOCH, ENS_ESTIMATE, ENS_EPSILON, ENS_HOLD_BACK, ENS_CLASSES,
	ENS_AXIS, ENS_AXIS_OR_COLUMNS, ENS_ROW,
	ENS_COMPLETE, ENS_CLEAR,
};

struct ens_parser {
	struct ens_table *table;
	u32 text_bytes;
	u32 line_no;			/* lines read, for messages */
	u32 next_row;
	u32 line_len;
	int error;			/* 0, or the first error */
	enum ens_line expects;
	char line[ENS_MAX_LINE];
};

/* --- names ------------------------------------------------------------------ */

CCA_FN bool ens_is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

CCA_FN int ens_take_name(struct ens_cursor *c, char *name)
{
	struct cca_word word = ens_take_word(c);
	u32 i;

	if (!word.len || word.len > ENS_MAX_NAME)
		return -CCA_EINVAL;
	for (i = 0; i < word.len; i++) {
		if (!ens_is_name_char(word.at[i]))
			return -CCA_EINVAL;
		name[i] = word.at[i];
	}
	name[word.len] = '\0';
	return 0;
}

CCA_FN int ens_take_digest(struct ens_cursor *c, char *digest)
{
	const char *prefix = "sha256:";
	struct cca_word word = ens_take_word(c);
	u32 i;

	if (word.len != ENS_DIGEST_LEN)
		return -CCA_EINVAL;
	for (i = 0; i < ENS_DIGEST_LEN; i++) {
		char ch = word.at[i];
		bool hex = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'f');

		if (i < 7 ? ch != prefix[i] : !hex)
			return -CCA_EINVAL;
		digest[i] = ch;
	}
	digest[ENS_DIGEST_LEN] = '\0';
	return 0;
}

/* --- lines ------------------------------------------------------------------ */

CCA_FN int ens_take_classes(struct ens_cursor *c, struct ens_table *t)
{
	int err;

	for (t->n_classes = 0; t->n_classes < ENS_MAX_CLASSES; ) {
		struct ens_class *k = &t->classes[t->n_classes];

		err = ens_take_u32(c, 1, 99, &k->percentile);
		if (!err)
			err = ens_take_char(c, ':');
		if (!err)
			err = ens_take_u32(c, 1, ENS_MAX_QUEUEING_DELAY_US, &k->queueing_delay_us);
		if (err)
			return err;
		t->n_classes++;
		if (ens_at_end(c))
			return 0;
		err = ens_take_char(c, ' ');
		if (err)
			return err;
	}
	return -CCA_EINVAL;
}

CCA_FN int ens_take_axis(struct ens_cursor *c, struct ens_table *t)
{
	struct ens_axis *a = &t->axis[t->n_axes];
	struct cca_word scale;
	int err;

	a->number = cca_axis_find(t->id, ens_take_word(c));
	if (a->number == CCA_MAX_AXES || (t->n_axes && a->number == t->axis[0].number))
		return -CCA_EINVAL;
	err = ens_take_char(c, ' ');
	if (err)
		return err;
	scale = ens_take_word(c);
	a->scale = cca_word_is(scale, "log") ? ENS_LOG : ENS_LINEAR;
	a->per_octave = 0;
	if (a->scale == ENS_LINEAR && !cca_word_is(scale, "linear"))
		return -CCA_EINVAL;
	err = ens_take_char(c, ' ');
	if (!err)
		err = ens_take_u32(c, 1, 0xffffffffu, &a->step);
	if (!err)
		err = ens_take_char(c, ' ');
	if (!err)
		err = ens_take_u32(c, 1, ENS_MAX_LEVELS, &a->count);
	if (!err && a->scale == ENS_LOG) {
		err = ens_take_char(c, ' ');
		if (!err)
			err = ens_take_u32(c, 1, ENS_MAX_LEVELS, &a->per_octave);
	}
	if (!err)
		t->n_axes++;
	return err;
}

CCA_FN int ens_take_columns(struct ens_cursor *c, struct ens_table *t)
{
	u32 i, index;

	for (t->n_columns = 0; t->n_columns < CCA_MAX_PARAMS; ) {
		index = cca_param_find(t->id, ens_take_word(c));
		if (index == CCA_MAX_PARAMS || cca_param_at(t->id, index)->kind == CCA_FIXED)
			return -CCA_EINVAL;
		for (i = 0; i < t->n_columns; i++)
			if (t->column[i] == index)
				return -CCA_EINVAL;
		t->column[t->n_columns++] = index;
		if (ens_at_end(c))
			return 0;
		if (ens_take_char(c, ' '))
			return -CCA_EINVAL;
	}
	return -CCA_EINVAL;
}

/*
 * The minimum size of the rows: the digits of each number's minimum, and the space
 * or LF after it. 2^15 rows x (3 + 16) numbers x 11 < 2^23.
 */
CCA_FN u32 ens_least_rows_bytes(const struct ens_table *t)
{
	u32 row_bytes = 2 * (t->n_axes + (t->n_classes ? 1 : 0));
	u32 i;

	for (i = 0; i < t->n_columns; i++)
		row_bytes += ens_digits(cca_param_at(t->id, t->column[i])->min) + 1;
	return ens_rows(t) * row_bytes;
}

/* A row contains its own place, so that a text with a missing row is rejected. */
CCA_FN int ens_take_place(struct ens_cursor *c, u32 expected)
{
	u32 place = 0;
	int err = ens_take_u32(c, 0, 0xffffffffu, &place);

	if (err)
		return err;
	return place == expected ? ens_take_char(c, ' ') : -CCA_EINVAL;
}

CCA_FN int ens_take_values(struct ens_cursor *c, const struct ens_table *t, u32 *values)
{
	const struct cca_param_spec *spec;
	u32 i;
	int err;

	for (i = 0; i < t->n_columns; i++) {
		spec = cca_param_at(t->id, t->column[i]);
		err = i ? ens_take_char(c, ' ') : 0;
		if (!err)
			err = ens_take_u32(c, spec->min, spec->max, &values[i]);
		if (err)
			return err;
	}
	return 0;
}

CCA_FN int ens_take_row_line(struct ens_parser *p, struct ens_cursor *c)
{
	struct ens_table *t = p->table;
	u32 state = p->next_row / ens_state_rows(t);
	u32 inner = t->n_axes > 1 ? t->axis[1].count : 1;
	int err;

	if (p->next_row == ens_rows(t)) {
		err = ens_take_key(c, "end");
		if (!err)
			err = ens_take_u32(c, p->next_row, p->next_row, &state);
		p->expects = ENS_COMPLETE;
		return err;
	}
	err = ens_take_place(c, state / inner);
	if (!err && t->n_axes > 1)
		err = ens_take_place(c, state % inner);
	if (!err && t->n_classes)
		err = ens_take_place(c, p->next_row % t->n_classes);
	if (!err)
		err = ens_take_values(c, t, t->values + p->next_row * t->n_columns);
	p->next_row++;
	return err;
}

CCA_FN int ens_take_version(struct ens_parser *p, struct ens_cursor *c)
{
	struct cca_word word = ens_take_word(c);
	u32 version = 0;

	if (cca_word_is(word, "clear")) {
		p->expects = ENS_CLEAR;
		return 0;
	}
	p->expects = ENS_CCA;
	if (!cca_word_is(word, "ccatune-ensemble") || ens_take_char(c, ' '))
		return -CCA_EINVAL;
	return ens_take_u32(c, 1, 1, &version);
}

CCA_FN int ens_take_axis_or_columns(struct ens_parser *p, struct ens_cursor *c)
{
	struct cca_word key = ens_take_word(c);
	int err;

	if (ens_take_char(c, ' '))
		return -CCA_EINVAL;
	if (cca_word_is(key, "axis") && p->table->n_axes < ENS_MAX_AXES) {
		p->expects = ENS_AXIS_OR_COLUMNS;
		return ens_take_axis(c, p->table);
	}
	if (!cca_word_is(key, "columns") || !p->table->n_axes)
		return -CCA_EINVAL;
	err = ens_take_columns(c, p->table);
	if (!err && ens_least_rows_bytes(p->table) > ENS_MAX_TEXT_BYTES - p->text_bytes)
		err = -CCA_EFBIG;
	p->expects = ENS_ROW;
	return err;
}

CCA_FN int ens_take_u32_line(struct ens_cursor *c, const char *key, u32 low, u32 high, u32 *value)
{
	int err = ens_take_key(c, key);

	return err ? err : ens_take_u32(c, low, high, value);
}

/* Reads "key NAME" with a NAME that must equal `name`. */
CCA_FN int ens_take_known(struct ens_cursor *c, const char *key, const char *name)
{
	if (ens_take_key(c, key) || !name || !cca_word_is(ens_take_word(c), name))
		return -CCA_EINVAL;
	return 0;
}

CCA_FN int ens_take_serial(struct ens_table *t, struct ens_cursor *c)
{
	int err = ens_take_key(c, "serial");

	if (!err)
		err = ens_take_number(c, 1, ENS_MAX_SERIAL, &t->serial);
	if (err || ens_at_end(c))
		return err;
	t->urgent = true;
	err = ens_take_char(c, ' ');
	return err || !cca_word_is(ens_take_word(c), "urgent") ? -CCA_EINVAL : 0;
}

CCA_FN int ens_take_identity(struct ens_table *t, enum ens_line line, struct ens_cursor *c)
{
	int err;

	switch (line) {
	case ENS_CCA:
		return ens_take_known(c, "cca", cca_name_of(t->id));
	case ENS_REGISTRY:
		err = ens_take_key(c, "registry");
		return err ? err : ens_take_name(c, t->registry);
	case ENS_CHANNEL:
		err = ens_take_key(c, "channel");
		return err ? err : ens_take_name(c, t->channel);
	case ENS_SERIAL:
		return ens_take_serial(t, c);
	default:
		err = ens_take_key(c, "digest");
		return err ? err : ens_take_digest(c, t->digest);
	}
}

CCA_FN int ens_take_header(struct ens_table *t, enum ens_line line, struct ens_cursor *c)
{
	int err;

	switch (line) {
	case ENS_EPOCH:
		return ens_take_u32_line(c, "epoch_ms", 1, ENS_MAX_EPOCH_MS, &t->epoch_ms);
	case ENS_ESTIMATE:
		return ens_take_u32_line(c, "estimate_ms", 1, t->epoch_ms, &t->estimate_ms);
	case ENS_EPSILON:
		return ens_take_u32_line(c, "epsilon_pct", 0, ENS_MAX_EPSILON_PCT,
					 &t->epsilon_pct);
	case ENS_HOLD_BACK:
		return ens_take_u32_line(c, "hold_back_permille", 0, ENS_PERMILLE,
					 &t->hold_back_permille);
	default:
		err = ens_take_key(c, "classes");
		return err ? err : ens_take_classes(c, t);
	}
}

/*
 * The header line at the cursor. Only `epsilon_pct` may be absent. `classes` is then absent as
 * well, because the table has none.
 */
CCA_FN enum ens_line ens_line_of(const struct ens_cursor *c, enum ens_line expected)
{
	struct ens_cursor ahead = *c;

	if (expected == ENS_EPSILON && cca_word_is(ens_take_word(&ahead), "hold_back_permille"))
		return ENS_HOLD_BACK;
	return expected;
}

/* Parses one line, which is passed in without its LF. */
CCA_FN int ens_take_line(struct ens_parser *p, struct ens_cursor *c)
{
	enum ens_line line = ens_line_of(c, p->expects);
	int err;

	if (line == ENS_VERSION) {
		err = ens_take_version(p, c);
	} else if (line <= ENS_CLASSES) {
		/* Without the epsilon line the axes follow `hold_back_permille`. */
		p->expects = line == p->expects ? (enum ens_line)(line + 1) : ENS_AXIS;
		err = line <= ENS_DIGEST ? ens_take_identity(p->table, line, c) :
					   ens_take_header(p->table, line, c);
	} else if (line <= ENS_AXIS_OR_COLUMNS) {
		err = ens_take_axis_or_columns(p, c);
	} else if (line == ENS_ROW) {
		err = ens_take_row_line(p, c);
	} else {
		err = -CCA_EINVAL;	/* text after the end */
	}
	return !err && !ens_at_end(c) ? -CCA_EINVAL : err;
}

/* --- the parser -------------------------------------------------------------- */

CCA_FN void ens_parser_init(struct ens_parser *p, struct ens_table *table, u32 id)
{
	__builtin_memset(table, 0, sizeof(*table));
	table->id = id;
	__builtin_memset(p, 0, sizeof(*p));
	p->table = table;
	p->expects = ENS_VERSION;
}

CCA_FN bool ens_needs_values(const struct ens_parser *p)
{
	return !p->error && p->expects == ENS_ROW && !p->table->values;
}

CCA_FN void ens_give_values(struct ens_parser *p, u32 *values)
{
	p->table->values = values;
}

CCA_FN bool ens_is_complete(const struct ens_parser *p)
{
	return !p->error && p->expects == ENS_COMPLETE && !p->line_len;
}

CCA_FN bool ens_is_clear(const struct ens_parser *p)
{
	return !p->error && p->expects == ENS_CLEAR && !p->line_len;
}

CCA_FN bool ens_has_ended(const struct ens_parser *p)
{
	return ens_is_complete(p) || ens_is_clear(p);
}

CCA_FN int ens_parse_char(struct ens_parser *p, char ch)
{
	struct ens_cursor c;

	if (++p->text_bytes > ENS_MAX_TEXT_BYTES)
		return -CCA_EFBIG;
	if (p->expects >= ENS_COMPLETE)
		return -CCA_EINVAL;
	if (ch != '\n') {
		if (p->line_len == ENS_MAX_LINE - 1)
			return -CCA_EINVAL;
		p->line[p->line_len++] = ch;
		return 0;
	}
	c.at = p->line;
	c.end = p->line + p->line_len;
	p->line_len = 0;
	p->line_no++;
	return ens_take_line(p, &c);
}

/*
 * Returns the number of bytes read. It is less than len if memory for the values is
 * needed first, or if the text has ended. A negative result is an error and permanent.
 * Bytes after the end of the text are an error as well.
 */
CCA_FN int ens_parse(struct ens_parser *p, const char *text, u32 len)
{
	u32 i;

	len = cca_min_u32(len, ENS_MAX_TEXT_BYTES + 1);
	for (i = 0; i < len && !p->error && !ens_needs_values(p); i++) {
		p->error = ens_parse_char(p, text[i]);
		if (ens_has_ended(p)) {
			i++;
			break;
		}
	}
	return p->error ? p->error : (int)i;
}

#endif /* CCA_ENSEMBLE_TEXT_H */
