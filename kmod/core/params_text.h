/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The text that /proc/net/ccatune/<cca>/parameters takes: lines of `NAME VALUE`,
 * one space between, decimal without leading zeros; the last LF may be missing.
 * An unknown name or a malformed line is -EINVAL, a value out of its range
 * -ERANGE. All lines of a text count, or none.
 */
#ifndef CCA_PARAMS_TEXT_H
#define CCA_PARAMS_TEXT_H

#include "words.h"

/* The line at *at without its LF; *at moves behind it. */
CCA_FN struct ens_cursor cca_next_line(const char **at, const char *end)
{
	struct ens_cursor line = { *at, *at };

	while (line.end != end && *line.end != '\n')
		line.end++;
	*at = line.end == end ? end : line.end + 1;
	return line;
}

/* "NAME VALUE" and nothing else. */
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
 * Sets what the text names in params (a u32 a line of params.def). After an
 * error params holds the lines before it: hand in a copy. line_no: lines taken.
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

#endif /* CCA_PARAMS_TEXT_H */
