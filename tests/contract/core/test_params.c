// SPDX-License-Identifier: MIT
/* kmod/core/params.h: params.def as tables, found by name and by index. */
#include "params.h"

#include "gr.h"

#include "check.h"

static struct cca_word word_of(const char *text)
{
	struct cca_word word = { text, (u32)strlen(text) };

	return word;
}

TEST(a_word_is_a_name_only_whole)
{
	static const struct { const char *text; u32 len; const char *name; bool same; } cases[] = {
		{ "gr", 2, "gr", true },
		{ "gr x", 2, "gr", true },	/* the word ends before the text does */
		{ "gr", 1, "gr", false },
		{ "gra", 3, "gr", false },
		{ "g", 1, "gr", false },
		{ "ga", 2, "gr", false },
		{ "", 0, "gr", false },
		{ "", 0, "", true },
		{ "g", 1, "", false },
		{ "gr\0x", 4, "gr", false },	/* a NUL within the word */
		{ "\0", 1, "", false },
	};

	FOR_ROWS(cases) {
		struct cca_word word = { c->text, c->len };

		CHECK_EQ(cca_word_is(word, c->name), c->same);
	}
}

TEST(every_range_holds_its_default)
{
	FOR_ROWS(cca_params) {
		CHECK(c->min <= c->initial);
		CHECK(c->initial <= c->max);
		CHECK(c->name[0] && c->unit[0]);
		CHECK(cca_name_of(c->id) != NULL);
	}
}

TEST(no_algorithm_has_more_than_its_room)
{
	u32 a, i, count, column_bytes;

	for (a = 0; a < CCA_COUNT_OF(cca_algorithms); a++) {
		row = (int)a + 1;
		column_bytes = (u32)sizeof("columns");
		for (count = 0, i = 0; i < CCA_COUNT_OF(cca_params); i++) {
			if (cca_params[i].id != cca_algorithms[a].id)
				continue;
			count++;
			column_bytes += (u32)strlen(cca_params[i].name) + 1;
		}
		CHECK(count <= CCA_MAX_PARAMS);
		CHECK(column_bytes < 512);	/* a line of the table's text */
	}
}

TEST(parameters_are_counted_within_their_algorithm)
{
	static const struct { u32 id, index; const char *name; } cases[] = {
		{ CCA_ID_gr, 0, "bandwidth_window_us" },
		{ CCA_ID_gr, 1, "adaptation_interval_us" },
		{ CCA_ID_gr, 2, "delay_threshold_us" },
		{ CCA_ID_gr, 5, "loss_hold_permille" },
		{ CCA_ID_gr, 6, "tracking_gain_permille" },
		{ CCA_ID_gr, 9, "share_gain_pct" },
		{ CCA_ID_gr, 10, NULL },
		{ CCA_ID_gr, 0xffffffffu, NULL },
		{ CCA_ID_reno, 0, NULL },
		{ 0, 0, NULL },
		{ CCA_ID_twin, 0, "whole_range" },
		{ CCA_ID_twin, 15, "p15" },
		{ CCA_ID_twin, 16, NULL },
	};

	FOR_ROWS(cases) {
		const struct cca_param_spec *spec = cca_param_at(c->id, c->index);

		CHECK_EQ(!spec, !c->name);
		if (spec && c->name) {
			CHECK(!strcmp(spec->name, c->name));
			CHECK_EQ(cca_param_find(c->id, word_of(c->name)), c->index);
		}
	}
}

TEST(names_of_others_are_not_found)
{
	CHECK_EQ(cca_param_find(CCA_ID_gr, word_of("whole_range")), CCA_MAX_PARAMS);
	CHECK_EQ(cca_param_find(CCA_ID_reno, word_of("bandwidth_window_us")), CCA_MAX_PARAMS);
	CHECK_EQ(cca_param_find(CCA_ID_gr, word_of("bandwidth_window_u")), CCA_MAX_PARAMS);
	CHECK_EQ(cca_param_find(CCA_ID_gr, word_of("")), CCA_MAX_PARAMS);
	CHECK_EQ(cca_param_find(CCA_ID_twin, word_of("p1")), CCA_MAX_PARAMS);
	CHECK_EQ(cca_param_find(CCA_ID_twin, word_of("p10")), 10);
	CHECK_EQ(cca_axis_find(CCA_ID_gr, word_of("first_axis")), CCA_MAX_AXES);
	CHECK_EQ(cca_axis_find(CCA_ID_gr, word_of("throughput_bytes_per_s")), 0);
	CHECK_EQ(cca_axis_find(CCA_ID_twin, word_of("first_axis")), 0);
	CHECK_EQ(cca_axis_find(CCA_ID_twin, word_of("second_axis")), 1);
	CHECK(cca_axis_name(CCA_ID_twin, 2) == NULL);
	CHECK(!strcmp(cca_name_of(CCA_ID_gr), "gr"));
	CHECK(!strcmp(cca_name_of(CCA_ID_reno), "reno"));
	CHECK(cca_name_of(0) == NULL);
	CHECK(cca_name_of(0xffffffffu) == NULL);
}

/* Where access by index and the struct's own fields must agree. */
TEST(the_struct_holds_a_word_for_each_line)
{
	struct gr_params p;

	CHECK_EQ(sizeof(p), 10 * sizeof(u32));
	cca_params_init(&p, CCA_ID_gr);
	CHECK_EQ(p.bandwidth_window_us, 100000);
	CHECK_EQ(p.adaptation_interval_us, 10000);
	CHECK_EQ(p.delay_threshold_us, 50000);
	CHECK_EQ(p.cwnd_gain_pct, 150);
	CHECK_EQ(p.min_rtt_window_ms, 60000);
	CHECK_EQ(p.loss_hold_permille, 20);
	cca_param_set(&p, 1, 4321);
	CHECK_EQ(p.adaptation_interval_us, 4321);
	CHECK_EQ(cca_param_get(&p, 1), 4321);
	CHECK_EQ(cca_param_get(&p, 5), 20);
	CHECK_EQ(p.bandwidth_window_us, 100000);
	CHECK_EQ(p.delay_threshold_us, 50000);
}

TEST(defaults_fill_an_algorithm_and_no_more)
{
	u32 words[CCA_MAX_PARAMS + 1];
	u32 i;

	memset(words, 0xa5, sizeof(words));
	cca_params_init(words, CCA_ID_twin);
	CHECK_EQ(words[0], 7);
	CHECK_EQ(words[3], 2147483648u);
	CHECK_EQ(words[16], 0xa5a5a5a5u);
	memset(words, 0xa5, sizeof(words));
	cca_params_init(words, CCA_ID_reno);
	for (i = 0; i <= CCA_MAX_PARAMS; i++)
		CHECK_EQ(words[i], 0xa5a5a5a5u);
}
