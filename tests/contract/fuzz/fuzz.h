/* SPDX-License-Identifier: MIT */
/*
 * What a fuzz target and whoever drives it share. The names LLVMFuzzer... are
 * those of clang's fuzzer; driver.c calls the same ones without clang.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The target: runs one input, and aborts when a property does not hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* The target's own way to change an input: returns the new size, at most max_size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
/* The driver's: changes bytes anyhow. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Code between these makes inputs: what it reaches is not what the fuzzer is to look for. */
#ifdef __clang__
#define UNGUIDED_BEGIN                                                        \
	_Pragma("clang attribute push(__attribute__((no_sanitize(\"coverage\"))), apply_to=function)")
#define UNGUIDED_END _Pragma("clang attribute pop")
#else
#define UNGUIDED_BEGIN
#define UNGUIDED_END
#endif

#define PROPERTY(condition)                                                   \
	do {                                                                  \
		if (!(condition)) {                                           \
			fprintf(stderr, "%s:%d: does not hold: %s\n",         \
				__FILE__, __LINE__, #condition);              \
			abort();                                              \
		}                                                             \
	} while (0)

/* Splitmix64: each seed is a stream of its own. */
struct dice {
	uint64_t state;
};

static inline uint64_t dice_roll(struct dice *d)
{
	uint64_t z = d->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint32_t dice_below(struct dice *d, uint32_t bound)
{
	return (uint32_t)(dice_roll(d) % (bound ? bound : 1));
}

static inline int dice_one_in(struct dice *d, uint32_t n)
{
	return dice_below(d, n) == 0;
}

/* Counters say at the end what the inputs reached: a fuzzer that reaches nothing proves nothing. */
struct counter {
	const char *name;
	unsigned long long count;
};

static inline void print_counters(const struct counter *counters, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		printf("count %s %llu\n", counters[i].name, counters[i].count);
	fflush(stdout);
}

#endif /* TESTS_FUZZ_H */
