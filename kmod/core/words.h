/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Reads the words and numbers of a line of text. One space separates words. Numbers
 * are decimal, without leading zeros, and below 2^63. Words are not copied, and have
 * no terminating NUL.
 */
#ifndef CCA_WORDS_H
#define CCA_WORDS_H

#include "params.h"

#define ENS_MAX_NUMBER ((1ull << 63) - 1)

struct ens_cursor {
	const char *at;
	const char *end;
};

CCA_FN bool ens_at_end(const struct ens_cursor *c)
{
	return c->at == c->end;
}

CCA_FN int ens_take_char(struct ens_cursor *c, char expected)
{
	if (ens_at_end(c) || *c->at != expected)
		return -CCA_EINVAL;
	c->at++;
	return 0;
}

CCA_FN struct cca_word ens_take_word(struct ens_cursor *c)
{
	struct cca_word word = { c->at, 0 };

	while (!ens_at_end(c) && *c->at != ' ') {
		c->at++;
		word.len++;
	}
	return word;
}

/* Reads the word `key` and the space after it. */
CCA_FN int ens_take_key(struct ens_cursor *c, const char *key)
{
	if (!cca_word_is(ens_take_word(c), key))
		return -CCA_EINVAL;
	return ens_take_char(c, ' ');
}

CCA_FN int ens_take_number(struct ens_cursor *c, u64 low, u64 high, u64 *value)
{
	const char *start = c->at;
	u64 number = 0;
	bool too_large = false;

	while (!ens_at_end(c) && *c->at >= '0' && *c->at <= '9') {
		u32 digit = (u32)(*c->at - '0');

		/* The number stays below 2^63, so it never wraps. */
		if (number > (ENS_MAX_NUMBER - digit) / 10)
			too_large = true;
		else
			number = number * 10 + digit;
		c->at++;
	}
	if (c->at == start || (*start == '0' && c->at - start > 1))
		return -CCA_EINVAL;
	if (too_large || number < low || number > high)
		return -CCA_ERANGE;
	*value = number;
	return 0;
}

CCA_FN int ens_take_u32(struct ens_cursor *c, u32 low, u32 high, u32 *value)
{
	u64 number = 0;
	int err = ens_take_number(c, low, high, &number);

	if (!err)
		*value = (u32)number;
	return err;
}

/* The number of digits of a number, at most 10. */
CCA_FN u32 ens_digits(u32 number)
{
	u32 digits = 1;

	for (; number > 9 && digits < 10; number /= 10)
		digits++;
	return digits;
}

#endif /* CCA_WORDS_H */
