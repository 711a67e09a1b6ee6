// SPDX-License-Identifier: MIT
/* kmod/core/ensemble_text.h, ensemble_format.h: texts in pieces, cut short or too long, and the formatter's edges. */
#include "texts.h"

/* --- delivery ------------------------------------------------------------- */

TEST(text_behind_the_end_is_an_error_however_it_is_cut)
{
	u32 whole;

	set_text(gr_lines, 0, NULL);
	whole = r.len;
	append("clear");
	start_reading(CCA_ID_gr);
	CHECK(ens_parse(&r.parser, r.text, whole) > 0);
	ens_give_values(&r.parser, (u32 *)malloc(ens_values_bytes(&r.table)));
	CHECK_EQ(r.parser.text_bytes + (u32)ens_parse(&r.parser, r.text + r.parser.text_bytes,
						      r.len - r.parser.text_bytes), whole);
	CHECK(ens_is_complete(&r.parser));
	CHECK_EQ(ens_parse(&r.parser, r.text + whole, r.len - whole), -CCA_EINVAL);
	finish_reading();
	start_reading(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, "clear\nclear\n", 12), 6);
	CHECK(ens_is_clear(&r.parser));
	CHECK_EQ(ens_parse(&r.parser, "clear\n", 6), -CCA_EINVAL);
}

TEST(clear_counts_with_its_line_feed_alone)
{
	start_reading(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, "clear", 5), 5);
	CHECK(!ens_is_clear(&r.parser));
	CHECK_EQ(ens_parse(&r.parser, "\n", 1), 1);
	CHECK(ens_is_clear(&r.parser));
	CHECK(!ens_needs_values(&r.parser));
}

TEST(the_parser_stops_where_it_needs_memory)
{
	u32 columns_end;

	set_text(gr_lines, 0, NULL);
	columns_end = (u32)(strstr(r.text, "0 0 60000") - r.text);
	start_reading(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, r.text, r.len), columns_end);
	CHECK(ens_needs_values(&r.parser));
	CHECK_EQ(ens_values_bytes(&r.table), 4 * 3 * sizeof(u32));
	/* Without it nothing more is taken. */
	CHECK_EQ(ens_parse(&r.parser, r.text + columns_end, 9), 0);
	CHECK(ens_needs_values(&r.parser));
	CHECK_EQ(feed_table(&r.parser, r.text + columns_end, r.len - columns_end), r.len - columns_end);
	CHECK(ens_is_complete(&r.parser));
	finish_reading();
}

TEST(a_line_longer_than_its_room_is_refused)
{
	char longest[ENS_MAX_LINE + 1];

	memset(longest, 'x', sizeof(longest));
	start_reading(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, longest, ENS_MAX_LINE - 1), ENS_MAX_LINE - 1);
	CHECK_EQ(ens_parse(&r.parser, longest, 1), -CCA_EINVAL);
	start_reading(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, longest, ENS_MAX_LINE + 1), -CCA_EINVAL);
}

/* 64 levels of 31 and 8 classes: rows that would fit at their shortest, and do not. */
static char huge[ENS_MAX_TEXT_BYTES + 4096];

static void make_huge(void)
{
	u32 i, len = 0;

	for (i = 0; i < 14; i++)
		len += (u32)snprintf(huge + len, sizeof(huge) - len, "%s\n", i == 11 ?
				     "axis first_axis linear 1 64" : i == 12 ?
				     "axis second_axis linear 1 31" : i == 13 ?
				     "columns whole_range lone_value" : twin_lines[i]);
	for (i = 0; len < sizeof(huge) - 64; i++)
		len += (u32)snprintf(huge + len, sizeof(huge) - len, "%u %u %u 4294967295 5\n",
				     i / (31 * 8), i / 8 % 31, i % 8);
}

TEST(more_than_256_kib_is_refused_as_such)
{
	make_huge();
	start_reading(CCA_ID_twin);
	CHECK_EQ(feed_table(&r.parser, huge, ENS_MAX_TEXT_BYTES), ENS_MAX_TEXT_BYTES);
	CHECK(!ens_is_complete(&r.parser));
	CHECK_EQ(ens_parse(&r.parser, huge + ENS_MAX_TEXT_BYTES, 1), -CCA_EFBIG);
	finish_reading();
	/* In one delivery as well. */
	start_reading(CCA_ID_twin);
	CHECK_EQ(feed_table(&r.parser, huge, ENS_MAX_TEXT_BYTES + 1), -CCA_EFBIG);
	CHECK_EQ(r.parser.text_bytes, ENS_MAX_TEXT_BYTES + 1);
	finish_reading();
}

/* A row takes at least 2 x 3 + 2 + 11 bytes, a level 64 x 8 of them: 26 levels fit into what is left. */
TEST(a_header_whose_rows_cannot_fit_is_refused_before_memory_is_asked_for)
{
	static const struct { u32 levels; int result; } cases[] = { { 25, 0 }, { 26, 0 }, { 27, -CCA_EFBIG }, { 64, -CCA_EFBIG } };

	FOR_ROWS(cases) {
		char axis[64];
		u32 i;
		int result;

		snprintf(axis, sizeof(axis), "axis second_axis linear 1 %u", c->levels);
		for (r.len = 0, i = 0; i < 14; i++)
			append(i == 11 ? "axis first_axis linear 1 64" : i == 12 ? axis :
			       i == 13 ? "columns whole_range top_half" : twin_lines[i]);
		start_reading(CCA_ID_twin);
		result = ens_parse(&r.parser, r.text, r.len);
		CHECK_EQ(result, c->result ? c->result : (int)r.len);
		CHECK_EQ(ens_needs_values(&r.parser), !c->result);
		CHECK_EQ(ens_least_rows_bytes(&r.table), 64 * 8 * 19 * c->levels);
	}
}

TEST(digits_are_counted)
{
	static const struct { u32 number, digits; } cases[] = {
		{ 0, 1 }, { 9, 1 }, { 10, 2 }, { 999999999, 9 }, { 1000000000, 10 }, { 4294967295u, 10 },
	};

	FOR_ROWS(cases)
		CHECK_EQ(ens_digits(c->number), c->digits);
}

/* --- the formatter's edges --------------------------------------------------- */

TEST(there_is_no_line_behind_the_last)
{
	char line[ENS_MAX_LINE];

	set_text(gr_lines, 0, NULL);
	check_reads_back(CCA_ID_gr);
	CHECK_EQ(ens_lines(&r.table), 18);
	CHECK_EQ(ens_format_line(&r.table, 17, line, sizeof(line)), strlen("end 4\n"));
	CHECK_EQ(ens_format_line(&r.table, 18, line, sizeof(line)), 0);
	CHECK_EQ(ens_format_line(&r.table, 0xffffffffu, line, sizeof(line)), 0);
	finish_reading();
}

TEST(a_buffer_too_small_is_filled_and_not_overrun)
{
	char small[8];

	set_text(gr_lines, 0, NULL);
	check_reads_back(CCA_ID_gr);
	memset(small, '#', sizeof(small));
	CHECK_EQ(ens_format_line(&r.table, 0, small, 5), 5);
	CHECK(!memcmp(small, "ccatu###", 8));
	CHECK_EQ(ens_format_line(&r.table, 0, small, 0), 0);
	CHECK(!memcmp(small, "ccatu###", 8));
	finish_reading();
}

TEST(the_largest_number_is_written_whole)
{
	char text[2 * ENS_MAX_LINE];
	struct ens_writer w = { text, 0, sizeof(text) };

	ens_put_number(&w, 0xffffffffffffffffull);
	ens_put_number(&w, 0);
	CHECK_EQ(w.len, 21);
	CHECK(!memcmp(text, "184467440737095516150", 21));
	/* A text without an end is cut where a line would be. */
	memset(text, 'x', sizeof(text));
	w.len = 0;
	ens_put_text(&w, text);
	CHECK_EQ(w.len, ENS_MAX_LINE);
}
