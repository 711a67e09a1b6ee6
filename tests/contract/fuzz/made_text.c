// SPDX-License-Identifier: MIT
/*
 * A text is made twice from the same dice: the first time to count its numbers,
 * words, spaces and lines, the second time with the fault in one of them.
 */
#include "made_text.h"

UNGUIDED_BEGIN

struct maker {
	struct dice dice;
	char *text;
	uint32_t len, room;
	uint32_t id, largest_count;
	int is_huge;		/* as many levels as there may be: may exceed 256 KiB */
	enum fault fault;
	uint32_t place;		/* of the fault, among its kind; -1: none */
	uint32_t seen[FAULT_KINDS];
	struct dice fault_dice;
	int fault_error;
	uint32_t fault_line_end;	/* length of the text with the line of the fault */
	int fault_in_line;
	uint32_t line_start;
};

/* Whether the fault belongs here. */
static int strikes(struct maker *m, enum fault fault, int error)
{
	if (m->seen[fault]++ != m->place || m->fault != fault)
		return 0;
	m->fault_error = error;
	m->fault_in_line = 1;
	return 1;
}

static void make_room(struct maker *m, uint32_t n)
{
	if (m->len + n <= m->room)
		return;
	m->room = 2 * (m->len + n);
	m->text = (char *)realloc(m->text, m->room);
}

static void put(struct maker *m, const char *bytes, uint32_t n)
{
	make_room(m, n);
	memcpy(m->text + m->len, bytes, n);
	m->len += n;
}

static void put_plain(struct maker *m, const char *text)
{
	put(m, text, (uint32_t)strlen(text));
}

static void put_word(struct maker *m, const char *word)
{
	put_plain(m, word);
	if (strikes(m, FAULT_WORD, -CCA_EINVAL))
		put_plain(m, dice_one_in(&m->fault_dice, 2) ? "!" : "\xc3");
}

static void put_space(struct maker *m)
{
	if (strikes(m, FAULT_SPACE, -CCA_EINVAL))
		put_plain(m, dice_one_in(&m->fault_dice, 2) ? "  " : "\t");
	else
		put_plain(m, " ");
}

static void end_line(struct maker *m)
{
	static const char *const ends[] = { " \n", "\r\n", "\n\n", "\t\n" };
	uint32_t n;

	if (strikes(m, FAULT_LINE_END, -CCA_EINVAL))
		put_plain(m, ends[dice_below(&m->fault_dice, 4)]);
	else
		put_plain(m, "\n");
	if (strikes(m, FAULT_LINE_LOST, REFUSED))
		m->len = m->line_start;
	n = m->len - m->line_start;
	if (strikes(m, FAULT_LINE_TWICE, REFUSED)) {
		make_room(m, n);	/* first: the line that is copied may move */
		put(m, m->text + m->line_start, n);
	}
	if (m->fault_in_line)
		m->fault_line_end = m->len;
	m->fault_in_line = 0;
	m->line_start = m->len;
}

/* An out-of-range neighbour, or far out: 2^64 and more cannot be held at all. */
static void put_out_of_range(struct maker *m, uint64_t low, uint64_t high)
{
	char digits[64];

	if (low && dice_one_in(&m->fault_dice, 3))
		snprintf(digits, sizeof(digits), "%llu", (unsigned long long)low - 1);
	else if (dice_one_in(&m->fault_dice, 2))
		snprintf(digits, sizeof(digits), "%llu", (unsigned long long)high + 1);
	else	/* the value itself, modulo 2^64: 2^64 + low */
		snprintf(digits, sizeof(digits), "18446744073709551616%u",
			 dice_below(&m->fault_dice, 99));
	put_plain(m, digits);
}

static void put_value(struct maker *m, uint64_t value, uint64_t low, uint64_t high, int error)
{
	static const char *const malformed[] = { "0%llu", "+%llu", "-%llu", "%llux", "", "%llu.0" };
	char digits[32];

	if (strikes(m, FAULT_NUMBER_RANGE, error)) {
		put_out_of_range(m, low, high);
		return;
	}
	if (strikes(m, FAULT_NUMBER_FORM, -CCA_EINVAL))
		snprintf(digits, sizeof(digits), malformed[dice_below(&m->fault_dice, 6)],
			 (unsigned long long)value);
	else
		snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	put_plain(m, digits);
}

/* A value within its range, often at an end of it; returns it. */
static uint64_t put_number(struct maker *m, uint64_t low, uint64_t high)
{
	uint64_t span = high - low, value;

	switch (dice_below(&m->dice, 5)) {
	case 0:
		value = low;
		break;
	case 1:
		value = high;
		break;
	case 2:
		value = low + (span ? dice_roll(&m->dice) % (span < 9 ? span : 9) : 0);
		break;
	default:
		value = low + (span == UINT64_MAX ? 0 : dice_roll(&m->dice) % (span + 1));
		break;
	}
	put_value(m, value, low, high, -CCA_ERANGE);
	return value;
}

/* Where a row says where it stands: another place is no number out of range, but beyond 2^32 it is. */
static void put_place(struct maker *m, uint32_t place)
{
	char digits[16];

	if (strikes(m, FAULT_NUMBER_RANGE, -CCA_EINVAL)) {
		snprintf(digits, sizeof(digits), "%u", place + 1 + dice_below(&m->fault_dice, 9));
		put_plain(m, digits);
		return;
	}
	if (strikes(m, FAULT_NUMBER_FORM, -CCA_EINVAL))
		put_plain(m, "0");
	snprintf(digits, sizeof(digits), "%u", place);
	put_plain(m, digits);
}

static void put_field(struct maker *m, const char *key, uint64_t low, uint64_t high)
{
	put_word(m, key);
	put_space(m);
	put_number(m, low, high);
	end_line(m);
}

static void put_name(struct maker *m, const char *key)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	uint32_t len = dice_one_in(&m->dice, 4) ? 63 : 1 + dice_below(&m->dice, 12);
	char name[64];
	uint32_t i;

	for (i = 0; i < len; i++)
		name[i] = letters[dice_below(&m->dice, 65)];
	name[len] = '\0';
	put_word(m, key);
	put_space(m);
	put_word(m, name);
	end_line(m);
}

static void put_digest(struct maker *m)
{
	char digest[ENS_DIGEST_LEN + 1] = "sha256:";
	uint32_t i;

	for (i = 7; i < ENS_DIGEST_LEN; i++)
		digest[i] = "0123456789abcdef"[dice_below(&m->dice, 16)];
	digest[i] = '\0';
	put_word(m, "digest");
	put_space(m);
	put_word(m, digest);
	end_line(m);
}

static uint32_t put_classes(struct maker *m)
{
	uint32_t n = 1 + dice_below(&m->dice, ENS_MAX_CLASSES), i;

	put_word(m, "classes");
	for (i = 0; i < n; i++) {
		put_space(m);
		put_number(m, 1, 99);
		put_plain(m, ":");
		put_number(m, 1, ENS_MAX_QUEUEING_DELAY_US);
	}
	end_line(m);
	return n;
}

static uint32_t put_axis(struct maker *m, const char *name)
{
	int is_log = dice_one_in(&m->dice, 2);
	uint32_t largest = m->is_huge || dice_one_in(&m->dice, 16) ? m->largest_count :
			   cca_min_u32(m->largest_count, 4);
	uint32_t count = m->is_huge ? largest : 1 + dice_below(&m->dice, largest);

	put_word(m, "axis");
	put_space(m);
	put_word(m, name);
	put_space(m);
	put_word(m, is_log ? "log" : "linear");
	put_space(m);
	put_number(m, 1, 0xffffffffu);
	put_space(m);
	put_value(m, count, 1, ENS_MAX_LEVELS, -CCA_ERANGE);
	if (is_log) {
		put_space(m);
		put_number(m, 1, ENS_MAX_LEVELS);
	}
	end_line(m);
	return count;
}

/* One axis or two, in either order; returns the levels of the second, 0 if there is none. */
static uint32_t put_axes(struct maker *m, uint32_t *first_count)
{
	const char *names[2] = { cca_axis_name(m->id, 0), cca_axis_name(m->id, 1) };
	uint32_t swap = names[1] ? dice_below(&m->dice, 2) : 0;

	*first_count = put_axis(m, names[swap]);
	return !names[1] || dice_one_in(&m->dice, 3) ? 0 : put_axis(m, names[1 - swap]);
}

/* Some of the tuned parameters, in any order; returns how many. */
static uint32_t put_columns(struct maker *m, const struct cca_param_spec **columns)
{
	uint32_t n = 0, i, chosen;

	for (i = 0; cca_param_at(m->id, i); i++)
		if (cca_param_at(m->id, i)->kind == CCA_TUNED)
			columns[n++] = cca_param_at(m->id, i);
	chosen = 1 + dice_below(&m->dice, n);
	put_word(m, "columns");
	for (i = 0; i < chosen; i++) {
		uint32_t k = i + dice_below(&m->dice, n - i);
		const struct cca_param_spec *spec = columns[k];

		columns[k] = columns[i];
		columns[i] = spec;
		put_space(m);
		put_word(m, spec->name);
	}
	end_line(m);
	return chosen;
}

static void put_rows(struct maker *m)
{
	const struct cca_param_spec *columns[CCA_MAX_PARAMS];
	uint32_t classes = put_classes(m);
	uint32_t outer, inner = put_axes(m, &outer);
	uint32_t n_columns = put_columns(m, columns);
	uint32_t rows = outer * (inner ? inner : 1) * classes, r, i;

	/* What lies beyond 256 KiB is not read. */
	for (r = 0; r < rows && m->len < 270000; r++) {
		uint32_t state = r / classes;

		put_place(m, inner ? state / inner : state);
		put_space(m);
		if (inner) {
			put_place(m, state % inner);
			put_space(m);
		}
		put_place(m, r % classes);
		for (i = 0; i < n_columns; i++) {
			put_space(m);
			put_number(m, columns[i]->min, columns[i]->max);
		}
		end_line(m);
	}
	put_word(m, "end");
	put_space(m);
	put_value(m, rows, rows, rows, -CCA_ERANGE);
	end_line(m);
}

static void put_table(struct maker *m)
{
	uint64_t epoch_ms;

	put_word(m, "ccatune-ensemble");
	put_space(m);
	put_value(m, 1, 1, 1, -CCA_ERANGE);
	end_line(m);
	put_word(m, "cca");
	put_space(m);
	put_word(m, cca_name_of(m->id));
	end_line(m);
	put_name(m, "registry");
	put_name(m, "channel");
	put_field(m, "serial", 1, ENS_MAX_SERIAL);
	put_digest(m);
	put_word(m, "epoch_ms");
	put_space(m);
	epoch_ms = put_number(m, 1, ENS_MAX_EPOCH_MS);
	end_line(m);
	put_field(m, "estimate_ms", 1, epoch_ms);
	put_field(m, "epsilon_pct", 0, ENS_MAX_EPSILON_PCT);
	put_field(m, "hold_back_permille", 0, ENS_PERMILLE);
	put_rows(m);
}

static struct maker open_maker(uint64_t seed, uint32_t id, uint32_t largest_count)
{
	struct maker m;

	memset(&m, 0, sizeof(m));
	m.dice.state = seed;
	m.place = 0xffffffffu;
	m.largest_count = largest_count;
	m.is_huge = dice_one_in(&m.dice, 128);
	m.id = id ? id : dice_one_in(&m.dice, 2) ? CCA_ID_gr : CCA_ID_twin;
	return m;
}

struct made_text make_text(uint64_t seed, uint32_t id, uint32_t largest_count, int with_fault)
{
	struct maker m = open_maker(seed, id, largest_count);
	struct made_text made;

	put_table(&m);
	if (with_fault) {
		struct maker whole = m;

		free(m.text);
		m = open_maker(seed, id, largest_count);
		m.fault_dice.state = ~seed;
		m.fault = (enum fault)(1 + dice_below(&m.fault_dice, FAULT_KINDS - 1));
		m.place = dice_below(&m.fault_dice, whole.seen[m.fault]);
		put_table(&m);
	}
	made.id = m.id;
	made.len = m.len;
	made.expected = m.fault_error;
	/* An error shows at the end of its line, if that is still read. */
	if (m.len > ENS_MAX_TEXT_BYTES && (!m.fault || m.fault_line_end > ENS_MAX_TEXT_BYTES))
		made.expected = m.fault_error == REFUSED ? REFUSED : -CCA_EFBIG;
	else if (m.len > ENS_MAX_TEXT_BYTES)
		made.expected = REFUSED;	/* the header alone may say so, or the fault first */
	made.text = (char *)malloc(m.len);
	memcpy(made.text, m.text, m.len);
	free(m.text);
	return made;
}

UNGUIDED_END
