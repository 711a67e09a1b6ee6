/* SPDX-License-Identifier: MIT */
/*
 * Texts of ensembles, made from a seed: valid ones of every shape, and such
 * with exactly one fault, of which it is known how they must be refused.
 * Written apart from kmod/core's formatter, which is under test.
 */
#ifndef TESTS_MADE_TEXT_H
#define TESTS_MADE_TEXT_H

#include "ensemble_text.h"

#include "fuzz.h"

enum fault {
	FAULT_NONE,
	FAULT_NUMBER_RANGE,	/* a number just outside its range, or far */
	FAULT_NUMBER_FORM,	/* a leading zero, a sign, a letter, nothing */
	FAULT_WORD,		/* a letter too many */
	FAULT_SPACE,		/* two spaces, a tab */
	FAULT_LINE_END,		/* a space before it, CR LF, an empty line behind it */
	FAULT_LINE_LOST,
	FAULT_LINE_TWICE,
	FAULT_KINDS,
};

#define REFUSED 1		/* some error, or no end: which depends on what follows */

struct made_text {
	char *text;		/* of exactly len bytes */
	uint32_t len;
	int expected;		/* 0: complete, a negative error, or REFUSED */
	uint32_t id;
};

/* id 0: gr or the tests' own twin. largest_count: of an axis. The caller frees the text. */
struct made_text make_text(uint64_t seed, uint32_t id, uint32_t largest_count, int with_fault);

#endif /* TESTS_MADE_TEXT_H */
