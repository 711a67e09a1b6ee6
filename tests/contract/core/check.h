/* SPDX-License-Identifier: MIT */
/*
 * A C test program: each TEST runs, and a failed check does not end it, so that
 * one run shows all. A check in a table of rows names the row that failed, where
 * the loop sets `row`. The program fails when a check failed, or if there was none.
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
#define FOR_ROWS(cases)                                                       \
	for (const __typeof__((cases)[0]) *c = (row = 1, (cases));            \
	     c < (cases) + sizeof(cases) / sizeof((cases)[0]) || (row = 0);   \
	     c++, row++)

static struct {
	void (*run)(void);
	const char *title;
} tests[64];
static unsigned int n_tests;

/* TEST(name) { ... }: a test that main() runs. */
#define TEST(name)                                                            \
	static void name(void);                                               \
	__attribute__((constructor)) static void register_##name(void)        \
	{                                                                     \
		tests[n_tests].run = name;                                    \
		tests[n_tests++].title = #name;                               \
	}                                                                     \
	static void name(void)

int main(void)
{
	unsigned int i, failed_before;

	for (i = 0; i < n_tests; i++) {
		failed_before = checks_failed;
		row = 0;
		tests[i].run();
		printf("%s %s\n", checks_failed == failed_before ? "ok" : "FAILED", tests[i].title);
	}
	printf("%u checks, %u failed\n", checks_made, checks_failed);
	return checks_failed || !checks_made;
}

#endif /* TESTS_CHECK_H */
