// SPDX-License-Identifier: MIT
/*
 * Changes an input of text_target.c where its structure is: lines lost, doubled
 * and swapped, numbers moved to limits, characters exchanged, and every now and
 * then a new table.
 */
#include "made_text.h"

#define HEADER_BYTES 9u

UNGUIDED_BEGIN

struct text {
	char *at;
	size_t len, room;
};

static void replace(struct text *t, size_t from, size_t old_len, const char *with, size_t len)
{
	if (from + old_len > t->len || t->len - old_len + len > t->room)
		return;
	memmove(t->at + from + len, t->at + from + old_len, t->len - from - old_len);
	memcpy(t->at + from, with, len);
	t->len = t->len - old_len + len;
}

static size_t somewhere(const struct text *t, struct dice *d)
{
	return dice_below(d, (uint32_t)t->len + 1);
}

/* The line around a place: from its first character to behind its LF. */
static void line_around(const struct text *t, size_t at, size_t *from, size_t *len)
{
	size_t end = at;

	while (at && t->at[at - 1] != '\n')
		at--;
	while (end < t->len && t->at[end] != '\n')
		end++;
	*from = at;
	*len = (end < t->len ? end + 1 : end) - at;
}

static void change_line(struct text *t, struct dice *d)
{
	size_t from, len, other, other_len;
	char copy[1024];

	line_around(t, somewhere(t, d), &from, &len);
	line_around(t, somewhere(t, d), &other, &other_len);
	if (len > sizeof(copy) || other_len > sizeof(copy))
		return;
	memcpy(copy, t->at + other, other_len);
	switch (dice_below(d, 5)) {
	case 0:		/* lost */
		replace(t, from, len, "", 0);
		break;
	case 1:		/* another one in its place */
		replace(t, from, len, copy, other_len);
		break;
	case 2:		/* another one before it */
		replace(t, from, 0, copy, other_len);
		break;
	case 3:		/* the rest cut off */
		t->len = from + dice_below(d, (uint32_t)len + 1);
		break;
	default:
		replace(t, 0, t->len, "clear\n", 6);
		break;
	}
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A number moved to a limit of something, or by one. */
static void change_number(struct text *t, struct dice *d)
{
	static const char *const limits[] = {
		"0", "1", "2", "63", "64", "65", "99", "100", "500", "499", "1000", "1001", "1999",
		"2000", "1000000", "1000001", "3600000", "4000000", "60000000", "2147483647",
		"2147483648", "4294967295", "4294967296", "9223372036854775807",
		"9223372036854775808", "18446744073709551615", "18446744073709551616",
		"00", "-1", "99999999999999999999999999",
	};
	size_t from = somewhere(t, d), len = 0;
	char digits[32];

	while (from < t->len && !is_digit(t->at[from]))
		from++;
	while (from + len < t->len && is_digit(t->at[from + len]))
		len++;
	if (!len)
		return;
	if (len < 19 && dice_one_in(d, 2)) {
		memcpy(digits, t->at + from, len);
		digits[len] = '\0';
		snprintf(digits, sizeof(digits), "%llu",
			 strtoull(digits, NULL, 10) + (dice_one_in(d, 2) ? 1 : (unsigned long long)-1));
		replace(t, from, len, digits, strlen(digits));
	} else {
		const char *limit = limits[dice_below(d, sizeof(limits) / sizeof(limits[0]))];

		replace(t, from, len, limit, strlen(limit));
	}
}

static void change_bytes(struct text *t, struct dice *d)
{
	static const char odd[] = " \n\r\t\0:09aAzZ._-/@[`{\x7f\x80\xff";
	char c = odd[dice_below(d, sizeof(odd) - 1)];

	switch (dice_below(d, 4)) {
	case 0:
		replace(t, somewhere(t, d), 1, &c, 1);
		break;
	case 1:
		replace(t, somewhere(t, d), 0, &c, 1);
		break;
	case 2:
		replace(t, somewhere(t, d), dice_below(d, 8), "", 0);
		break;
	default:
		t->len = LLVMFuzzerMutate((uint8_t *)t->at, t->len, t->room);
		break;
	}
}

/* A line without end, or a text without end. */
static void lengthen(struct text *t, struct dice *d)
{
	char chunk[600];
	size_t from, len, times = dice_one_in(d, 64) ? 5000 : dice_below(d, 8), gap;

	memset(chunk, "x0 \n"[dice_below(d, 4)], sizeof(chunk));
	if (dice_one_in(d, 2)) {
		replace(t, somewhere(t, d), 0, chunk, dice_below(d, sizeof(chunk)));
		return;
	}
	line_around(t, somewhere(t, d), &from, &len);
	if (!len || len > sizeof(chunk))
		return;
	memcpy(chunk, t->at + from, len);
	gap = times * len;
	if (gap > t->room - t->len)
		return;
	memmove(t->at + from + gap, t->at + from, t->len - from);
	t->len += gap;
	for (; gap; gap -= len)
		memcpy(t->at + from + gap - len, chunk, len);
}

static void change_text(struct text *t, struct dice *d)
{
	uint32_t changes = 1 + dice_below(d, 3);

	while (changes--) {
		switch (dice_below(d, 16)) {
		case 0: case 1: case 2: case 3:
			change_line(t, d);
			break;
		case 4: case 5: case 6: case 7: case 8:
			change_number(t, d);
			break;
		case 9:
			lengthen(t, d);
			break;
		default:
			change_bytes(t, d);
			break;
		}
	}
}

/* A new input: a seed alone, or the text that it makes, to be changed later. */
static size_t make_input(uint8_t *data, size_t max_size, struct dice *d)
{
	uint64_t seed = dice_roll(d);
	struct made_text made;
	size_t size = HEADER_BYTES;

	memcpy(data + 1, &seed, sizeof(seed));
	data[0] = (uint8_t)dice_below(d, 3);
	if (data[0])
		return size;
	made = make_text(seed, seed % 2 ? CCA_ID_gr : CCA_ID_twin, 4, 0);
	if (made.len <= max_size - size) {
		memcpy(data + size, made.text, made.len);
		size += made.len;
	}
	free(made.text);
	return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct dice d = { seed };
	struct text t = { (char *)data + HEADER_BYTES, size - HEADER_BYTES, max_size - HEADER_BYTES };

	if (max_size < HEADER_BYTES)
		return size;
	if (size <= HEADER_BYTES || data[0] % 3 || dice_one_in(&d, 32))
		return make_input(data, max_size, &d);
	if (dice_one_in(&d, 16))
		data[2] = (uint8_t)dice_roll(&d);	/* cut into other pieces; bit 0 of data[1] is the algorithm */
	change_text(&t, &d);
	return HEADER_BYTES + t.len;
}

UNGUIDED_END
