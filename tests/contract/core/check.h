/* SPDX-License-Identifier: MIT */
/*
 * What a C test needs: CHECK, CHECK_EQ, and RUN, which names the test it runs.
 * A check in a table of rows says which row failed, when the loop sets `row`.
 * A failed check goes on, so that one run shows all; check_report() is main's
 * result.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

static unsigned int checks_made, checks_failed;
static int row;		/* of the table that is gone through; 0: no table */

static inline void check_that(int holds, const char *file, int line, const char *text)
{
	checks_made++;
	if (holds)
		return;
	checks_failed++;
	printf("%s:%d: row %d: does not hold: %s\n", file, line, row, text);
}

static inline void check_equal(unsigned long long came, unsigned long long expected,
			       const char *file, int line, const char *text)
{
	checks_made++;
	if (came == expected)
		return;
	checks_failed++;
	printf("%s:%d: row %d: %s: expected %lld (%#llx), came %lld (%#llx)\n", file, line, row,
	       text, (long long)expected, expected, (long long)came, came);
}

#define CHECK(condition) check_that(!!(condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(came, expected)                                              \
	check_equal((unsigned long long)(long long)(came),                    \
		    (unsigned long long)(long long)(expected), __FILE__,      \
		    __LINE__, #came)

/* Goes through an array of cases, row numbers from 1: `c` points to the case. */
#define FOR_ROWS(type, cases)                                                 \
	for (const type *c = (row = 1, (cases));                              \
	     c < (cases) + sizeof(cases) / sizeof((cases)[0]) || (row = 0);   \
	     c++, row++)

#define RUN(test)                                                             \
	do {                                                                  \
		unsigned int failed_before = checks_failed;                   \
		row = 0;                                                      \
		test();                                                       \
		printf("%s %s\n", checks_failed == failed_before ? "ok" :     \
		       "FAILED", #test);                                      \
	} while (0)

static inline int check_report(void)
{
	printf("%u checks, %u failed\n", checks_made, checks_failed);
	return checks_failed || !checks_made;
}

#endif /* TESTS_CHECK_H */
