// SPDX-License-Identifier: MIT
/*
 * Fuzz target: the parser and the formatter of an ensemble's text.
 *
 * An input is a kind (1 byte), a seed (8 bytes), and for KIND_TEXT a text. The
 * seed cuts the text into pieces; for the other kinds the text is made from it
 * (made_text.h), so that an input of nine bytes can be a table of 256 KiB.
 *
 * Properties:
 *   - any pieces give the same result, and what was in memory before does not count
 *   - what is accepted is written back byte for byte, holds values in their
 *     ranges, and is admitted as the rules of serials say
 *   - a valid text is accepted; one with a known fault is refused as it must be
 *   - an error stays, and changes nothing any more
 *   - no byte outside is read or written (the sanitizers; all memory is of exact size)
 */
#include "../core/read_table.h"
#include "made_text.h"

#define KIND_TEXT 0
#define KIND_VALID 1
#define KIND_FAULTY 2
#define KINDS 3
#define HEADER_BYTES 9u
#define ANY 2			/* nothing is known of how a text must end */

enum reached {
	INPUTS, ACCEPTED, CLEARED, INCOMPLETE, REFUSED_EINVAL, REFUSED_ERANGE, REFUSED_EFBIG,
	ACCEPTED_FROM_TEXT, TWO_AXES, LOGARITHMIC, FAULTY, REACHED,
};

static struct counter counters[REACHED] = {
	{ "inputs", 0 }, { "accepted", 0 }, { "cleared", 0 }, { "incomplete", 0 },
	{ "einval", 0 }, { "erange", 0 }, { "efbig", 0 }, { "accepted_changed", 0 },
	{ "two_axes", 0 }, { "logarithmic", 0 }, { "faulty", 0 },
};

static void count(enum reached what)
{
	counters[what].count++;
}

static void print_reached(void)
{
	print_counters(counters, REACHED);
}

/* One reading of a text: table and parser in memory of their own. */
struct reading {
	struct ens_table *table;
	struct ens_parser *parser;
	int error;
};

static struct reading open_reading(u32 id, int garbage)
{
	struct reading r;

	r.table = (struct ens_table *)malloc(sizeof(*r.table));
	r.parser = (struct ens_parser *)malloc(sizeof(*r.parser));
	memset(r.table, garbage, sizeof(*r.table));
	memset(r.parser, garbage, sizeof(*r.parser));
	ens_parser_init(r.parser, r.table, id);
	r.error = 0;
	return r;
}

static void close_reading(struct reading *r)
{
	free(r->table->values);
	free(r->table);
	free(r->parser);
}

/* Feeds a copy of exactly this size, so that reading beyond it shows. */
static void feed(struct reading *r, const char *text, u32 len)
{
	char *piece = (char *)malloc(len);
	int taken;

	memcpy(piece, text, len);
	taken = feed_table(r->parser, piece, len);
	if (taken < 0)
		r->error = taken;
	else
		PROPERTY((u32)taken == len);
	free(piece);
}

static void feed_in_pieces(struct reading *r, const char *text, u32 len, struct dice *dice)
{
	u32 at = 0, largest = 1u << dice_below(dice, 14), pieces;

	/* The smallest pieces for a while only: a byte at a time costs a hundred times as much. */
	for (pieces = 0; at < len && !r->error; pieces++) {
		u32 n = cca_min_u32(dice_below(dice, largest + 1), len - at);

		feed(r, text + at, n);
		at += n;
		if (pieces % 64 == 63)
			largest *= 8;
	}
}

/* --- properties ------------------------------------------------------------ */

static void check_same_end(const struct reading *a, const struct reading *b)
{
	PROPERTY(a->error == b->error);
	PROPERTY(a->parser->error == b->parser->error);
	PROPERTY(a->parser->expects == b->parser->expects);
	PROPERTY(a->parser->line_no == b->parser->line_no);
	PROPERTY(a->parser->line_len == b->parser->line_len);
	PROPERTY(a->parser->text_bytes == b->parser->text_bytes);
	PROPERTY(a->parser->next_row == b->parser->next_row);
	PROPERTY(!memcmp(a->parser->line, b->parser->line, a->parser->line_len));
}

static void check_reads_back(const struct ens_table *t, const char *text, u32 len)
{
	char *back = (char *)malloc(len + ENS_MAX_LINE);

	PROPERTY(write_table(t, back, len + ENS_MAX_LINE) == len);
	PROPERTY(!memcmp(back, text, len));
	free(back);
}

static void check_values(const struct ens_table *t, struct dice *dice)
{
	u32 params[CCA_MAX_PARAMS], i;
	u32 state = ens_state(t, ens_level(&t->axis[0], dice_roll(dice) >> dice_below(dice, 64)),
			      dice_roll(dice) >> dice_below(dice, 64));

	PROPERTY(t->n_axes >= 1 && t->n_axes <= ENS_MAX_AXES);
	PROPERTY(t->n_classes <= ENS_MAX_CLASSES);
	PROPERTY(t->n_classes || !t->epsilon_pct);
	PROPERTY(t->n_columns >= 1 && t->n_columns <= CCA_MAX_PARAMS);
	PROPERTY(state < ens_states(t));
	cca_params_init(params, t->id);
	ens_take_row(t, state, dice_below(dice, 256), params);
	for (i = 0; cca_param_at(t->id, i); i++) {
		PROPERTY(params[i] >= cca_param_at(t->id, i)->min);
		PROPERTY(params[i] <= cca_param_at(t->id, i)->max);
	}
	(void)ens_held_back(t, (u32)dice_roll(dice));
	if (t->n_axes > 1)
		count(TWO_AXES);
	if (t->axis[0].scale == ENS_LOG)
		count(LOGARITHMIC);
}

static void check_admission(const struct ens_table *t)
{
	struct ens_table other = *t;

	PROPERTY(ens_admit(NULL, t) == 1);
	PROPERTY(ens_admit(t, &other) == 0);
	other.digest[ENS_DIGEST_LEN - 1] ^= 1;
	PROPERTY(ens_admit(t, &other) == -CCA_EEXIST);
	other.serial = t->serial + 1;
	PROPERTY(ens_admit(t, &other) == 1);
	other.serial = t->serial - 1;
	PROPERTY(ens_admit(t, &other) == -CCA_ESTALE);
	other.channel[0] ^= 1;
	PROPERTY(ens_admit(t, &other) == 1);
}

static void check_accepted(const struct reading *r, const char *text, u32 len, struct dice *dice)
{
	check_reads_back(r->table, text, len);
	check_values(r->table, dice);
	check_admission(r->table);
	count(ACCEPTED);
}

/* Nothing more is taken behind an error, and behind the end. */
static void check_it_stays(struct reading *r)
{
	int before = r->parser->error;
	struct ens_parser parser = *r->parser;
	struct ens_table table = *r->table;

	if (before) {
		PROPERTY(ens_parse(r->parser, "clear\n", 6) == before);
		PROPERTY(!memcmp(&parser, r->parser, sizeof(parser)));
		PROPERTY(!memcmp(&table, r->table, sizeof(table)));
		PROPERTY(!ens_needs_values(r->parser));
	} else if (ens_is_complete(r->parser) || ens_is_clear(r->parser)) {
		before = ens_parse(r->parser, "\n", 1);
		PROPERTY(before == -CCA_EINVAL || before == -CCA_EFBIG);
	} else {
		return;
	}
	PROPERTY(!ens_is_complete(r->parser) && !ens_is_clear(r->parser));
}

static void check_expected(const struct reading *r, int expected)
{
	if (expected == ANY)
		return;
	if (expected == REFUSED)
		PROPERTY(!ens_is_complete(r->parser) && !ens_is_clear(r->parser));
	else
		PROPERTY(r->error == expected && ens_is_complete(r->parser) == !expected);
}

static void count_end(const struct reading *r)
{
	if (r->error == -CCA_EINVAL)
		count(REFUSED_EINVAL);
	else if (r->error == -CCA_ERANGE)
		count(REFUSED_ERANGE);
	else if (r->error == -CCA_EFBIG)
		count(REFUSED_EFBIG);
	else if (ens_is_clear(r->parser))
		count(CLEARED);
	else if (!ens_is_complete(r->parser))
		count(INCOMPLETE);
	PROPERTY(!r->error || r->error == -CCA_EINVAL || r->error == -CCA_ERANGE ||
		 r->error == -CCA_EFBIG);
}

static void check_text(const char *text, u32 len, u32 id, int expected, u64 seed)
{
	struct dice dice = { seed };
	struct reading whole = open_reading(id, 0xa5), pieces = open_reading(id, 0x5a);

	feed(&whole, text, len);
	feed_in_pieces(&pieces, text, len, &dice);
	check_same_end(&whole, &pieces);
	check_expected(&whole, expected);
	if (ens_is_complete(whole.parser)) {
		check_accepted(&whole, text, len, &dice);
		check_reads_back(pieces.table, text, len);
		if (expected == ANY)
			count(ACCEPTED_FROM_TEXT);
	}
	count_end(&whole);
	check_it_stays(&whole);
	check_it_stays(&pieces);
	close_reading(&whole);
	close_reading(&pieces);
}

/* --- inputs ------------------------------------------------------------------- */

static u64 seed_of(const uint8_t *data)
{
	u64 seed;

	memcpy(&seed, data + 1, sizeof(seed));
	return seed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct made_text made;
	u64 seed;

	if (!counters[INPUTS].count++)
		atexit(print_reached);
	if (size < HEADER_BYTES)
		return 0;
	seed = seed_of(data);
	if (data[0] % KINDS == KIND_TEXT) {
		check_text((const char *)data + HEADER_BYTES, (u32)(size - HEADER_BYTES),
			   seed % 2 ? CCA_ID_gr : CCA_ID_twin, ANY, seed);
		return 0;
	}
	made = make_text(seed, 0, ENS_MAX_LEVELS, data[0] % KINDS == KIND_FAULTY);
	check_text(made.text, made.len, made.id, made.expected, seed);
	if (data[0] % KINDS == KIND_FAULTY)
		count(FAULTY);
	free(made.text);
	return 0;
}
