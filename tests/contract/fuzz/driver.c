// SPDX-License-Identifier: MIT
/*
 * Drives a fuzz target without clang: inputs of a small pool are changed over
 * and over by the target's own mutator. The same seed and number of runs give
 * the same inputs on every machine.
 *
 *   program --seed N --runs N            or --seconds N
 *   program FILE...                      runs these inputs: what a failed run left
 *
 * The input that a property fails on is left in failed-input.
 */
#include "fuzz.h"

#include <signal.h>
#include <time.h>

#define POOL 64u
#define MAX_INPUT (300u * 1024u)
#define MAX_PROGRAM 1024u	/* of a target without a mutator of its own */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
	__attribute__((weak));
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static struct dice dice;
static uint8_t current[MAX_INPUT];
static size_t current_size;

static struct {
	uint8_t *data;
	size_t size;
} pool[POOL];

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
	uint32_t changes = 1 + dice_below(&dice, 4);

	while (changes--) {
		size_t at = dice_below(&dice, (uint32_t)size);
		uint32_t kind = dice_below(&dice, 3);

		if (kind == 0 && size < max_size) {
			memmove(data + at + 1, data + at, size - at);
			data[at] = (uint8_t)dice_roll(&dice);
			size++;
		} else if (kind == 1 && size > 1) {
			memmove(data + at, data + at + 1, size - at - 1);
			size--;
		} else if (size) {
			data[at] = (uint8_t)(dice_one_in(&dice, 2) ? dice_roll(&dice) :
					     data[at] ^ (1u << dice_below(&dice, 8)));
		}
	}
	return size;
}

static void keep_failed_input(void)
{
	FILE *file = fopen("failed-input", "wb");

	if (!file)
		return;
	fwrite(current, 1, current_size, file);
	fclose(file);
}

static void on_abort(int number)
{
	keep_failed_input();
	signal(number, SIG_DFL);
	raise(number);
}

/* Without a mutator of the target's own: now and then more bytes, or others in their place. */
static void change_current(void)
{
	uint32_t n = dice_below(&dice, 120);

	if (LLVMFuzzerCustomMutator) {
		current_size = LLVMFuzzerCustomMutator(current, current_size, MAX_INPUT,
						       (unsigned int)dice_roll(&dice));
	} else if (current_size && !dice_one_in(&dice, 8)) {
		current_size = LLVMFuzzerMutate(current, current_size, MAX_PROGRAM);
	} else {
		current_size *= dice_below(&dice, 2);
		for (; n && current_size < MAX_PROGRAM; n--)
			current[current_size++] = (uint8_t)dice_roll(&dice);
	}
}

static void run_one(void)
{
	uint32_t slot = dice_below(&dice, POOL);

	current_size = pool[slot].size;
	if (current_size)
		memcpy(current, pool[slot].data, current_size);
	change_current();
	LLVMFuzzerTestOneInput(current, current_size);
	/* Long inputs and most others are not kept: changes of changes soon are noise. */
	if (current_size > 8192 || !dice_one_in(&dice, 4))
		return;
	slot = dice_below(&dice, POOL);
	free(pool[slot].data);
	pool[slot].data = (uint8_t *)malloc(current_size ? current_size : 1);
	memcpy(pool[slot].data, current, current_size);
	pool[slot].size = current_size;
}

static int run_file(const char *name)
{
	FILE *file = fopen(name, "rb");

	if (!file) {
		fprintf(stderr, "%s: cannot be read\n", name);
		return 1;
	}
	current_size = fread(current, 1, sizeof(current), file);
	fclose(file);
	return LLVMFuzzerTestOneInput(current, current_size);
}

int main(int argc, char **argv)
{
	unsigned long long runs = 0, seconds = 0;
	time_t end;
	uint32_t i;
	int a;

	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(keep_failed_input);
	signal(SIGABRT, on_abort);
	for (a = 1; a + 1 < argc && !strncmp(argv[a], "--", 2); a += 2) {
		unsigned long long value = strtoull(argv[a + 1], NULL, 10);

		if (!strcmp(argv[a], "--seed"))
			dice.state = value;
		else if (!strcmp(argv[a], "--runs"))
			runs = value;
		else
			seconds = value;
	}
	for (; a < argc; a++)
		if (run_file(argv[a]))
			return 1;
	end = time(NULL) + (time_t)seconds;
	for (; runs; runs--)
		run_one();
	while (seconds && time(NULL) < end)
		for (i = 0; i < 100; i++)
			run_one();
	for (i = 0; i < POOL; i++)
		free(pool[i].data);
	return 0;
}
