/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Parses the text that is written to /proc/net/ccatune/<cca>/parameters. Its lines are
 * `NAME VALUE`, separated by one space. Values are decimal, without leading zeros. The
 * last LF may be missing. An unknown name or a malformed line gives -EINVAL, a value out
 * of its range -ERANGE. The text takes effect as a whole, or not at all.
 */
#ifndef CCA_PARAMS_TEXT_H
#define CCA_PARAMS_TEXT_H

#include "words.h"

/* The line at *at without its LF. Moves *at to the next line. */
CCA_FN struct ens_cursor cca_next_line(const char **at, const char *end)
{
	struct ens_cursor line = { *at, *at };

	while (line.end != end && *line.end != '\n')
		line.end++;
	*at = line.end == end ? end : line.end + 1;
	return line;
}

/* Reads "NAME VALUE", to the end of the line. */
CCA_FN int cca_take_assignment(struct ens_cursor *line, struct cca_word *name, u64 *value)
{
	int err;

	*name = ens_take_word(line);
	err = ens_take_char(line, ' ');
	if (!err)
		err = ens_take_number(line, 0, ENS_MAX_NUMBER, value);
	return !err && !ens_at_end(line) ? -CCA_EINVAL : err;
}

/*
 * Sets the parameters that the text names in params. After an error params contains the
 * lines before it, so callers pass in a copy. line_no: the number of lines read.
 */
CCA_FN int cca_parse_params(void *params, u32 id, const char *text, u32 len, u32 *line_no)
{
	const char *end = text + len;
	const struct cca_param_spec *spec;
	struct ens_cursor line;
	struct cca_word name;
	u64 value = 0;
	u32 index;
	int err;

	for (*line_no = 0; text != end; ) {
		line = cca_next_line(&text, end);
		++*line_no;
		err = cca_take_assignment(&line, &name, &value);
		index = cca_param_find(id, name);
		if (index == CCA_MAX_PARAMS)
			return -CCA_EINVAL;
		if (err)
			return err;
		spec = cca_param_at(id, index);
		if (value < spec->min || value > spec->max)
			return -CCA_ERANGE;
		cca_param_set(params, index, (u32)value);
	}
	return 0;
}

/* Whether the text is the one line `clear`. */
CCA_FN bool cca_is_clear(const char *text, u32 len)
{
	const char *end = text + len;
	struct ens_cursor line = cca_next_line(&text, end);

	return cca_word_is(ens_take_word(&line), "clear") && ens_at_end(&line) && text == end;
}

/* A setting of a host, which is no parameter of an algorithm. */
struct cca_setting_spec {
	const char *name;
	u32 min, initial, max;
	const char *unit;
};

/*
 * Sets what the text names in values, one for each of the count specs. After an error values holds
 * the lines before it. line_no: lines taken.
 */
CCA_FN int cca_parse_settings(const struct cca_setting_spec *specs, u32 count, u32 *values,
			      const char *text, u32 len, u32 *line_no)
{
	const char *end = text + len;
	struct ens_cursor line;
	struct cca_word name;
	u64 value = 0;
	u32 i;
	int err;

	for (*line_no = 0; text != end; ) {
		line = cca_next_line(&text, end);
		++*line_no;
		err = cca_take_assignment(&line, &name, &value);
		for (i = 0; i < count; i++)
			if (cca_word_is(name, specs[i].name))
				break;
		if (i == count)
			return -CCA_EINVAL;
		if (err)
			return err;
		if (value < specs[i].min || value > specs[i].max)
			return -CCA_ERANGE;
		values[i] = (u32)value;
	}
	return 0;
}

#endif /* CCA_PARAMS_TEXT_H */
