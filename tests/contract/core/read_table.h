/* SPDX-License-Identifier: MIT */
/* Tables from text and back, as a host does it, for tests: memory of exactly the size asked for. */
#ifndef TESTS_READ_TABLE_H
#define TESTS_READ_TABLE_H

#include <stdlib.h>

#include "ensemble_format.h"

/* Parses the pieces of a text; gives the values' memory once it is asked for. The caller frees it. */
static inline int feed_table(struct ens_parser *p, const char *text, u32 len)
{
	u32 at = 0;

	for (;;) {
		int taken = ens_parse(p, text + at, len - at);

		if (taken < 0)
			return taken;
		at += (u32)taken;
		if (ens_needs_values(p))
			ens_give_values(p, (u32 *)malloc(ens_values_bytes(p->table)));
		else if (at == len)
			return (int)at;
	}
}

/* The whole text of a table, at most `size`; returns its length. */
static inline u32 write_table(const struct ens_table *t, char *text, u32 size)
{
	char line[ENS_MAX_LINE];
	u32 i, n, len = 0;

	for (i = 0; (n = ens_format_line(t, i, line, sizeof(line))) && n <= size - len; i++) {
		__builtin_memcpy(text + len, line, n);
		len += n;
	}
	return len;
}

#endif /* TESTS_READ_TABLE_H */
