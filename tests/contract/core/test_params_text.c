// SPDX-License-Identifier: MIT
/* kmod/core/params_text.h, words.h: what `parameters` takes, what it refuses, and in which line. */
#include "gr.h"
#include "params_text.h"

#include "check.h"

TEST(lines_of_name_and_value_are_taken)
{
	static const struct {
		const char *text; int error; u32 lines, bandwidth_window_us, cwnd_gain_pct;
	} cases[] = {
		{ "", 0, 0, 100000, 150 },
		{ "cwnd_gain_pct 200\n", 0, 1, 100000, 200 },
		{ "cwnd_gain_pct 200", 0, 1, 100000, 200 },
		{ "cwnd_gain_pct 200\nbandwidth_window_us 2000\n", 0, 2, 2000, 200 },
		{ "cwnd_gain_pct 100\ncwnd_gain_pct 1000\n", 0, 2, 100000, 1000 },
		{ "cwnd_gain_pct 99\n", -CCA_ERANGE, 1, 100000, 150 },
		{ "cwnd_gain_pct 1001\n", -CCA_ERANGE, 1, 100000, 150 },
		{ "cwnd_gain_pct 4294967496\n", -CCA_ERANGE, 1, 100000, 150 },	/* 200 + 2^32 */
		{ "cwnd_gain_pct 9999999999999999999999\n", -CCA_ERANGE, 1, 100000, 150 },
		{ "cwnd_gain_pct 200\ncwnd_gain_pct x\n", -CCA_EINVAL, 2, 100000, 200 },
		{ "cwnd_gain_pct 0200\n", -CCA_EINVAL, 1, 100000, 150 },
		{ "cwnd_gain_pct -1\n", -CCA_EINVAL, 1, 100000, 150 },
		{ "cwnd_gain_pct  200\n", -CCA_EINVAL, 1, 100000, 150 },
		{ "cwnd_gain_pct 200 \n", -CCA_EINVAL, 1, 100000, 150 },
		{ "cwnd_gain_pct\n", -CCA_EINVAL, 1, 100000, 150 },
		{ "cwnd_gain 200\n", -CCA_EINVAL, 1, 100000, 150 },
		{ "\n", -CCA_EINVAL, 1, 100000, 150 },
		{ "cwnd_gain_pct 200\n\n", -CCA_EINVAL, 2, 100000, 200 },
	};

	FOR_ROWS(cases) {
		struct gr_params p;
		u32 lines = 99;

		cca_params_init(&p, CCA_ID_gr);
		CHECK_EQ(cca_parse_params(&p, CCA_ID_gr, c->text, (u32)strlen(c->text), &lines), c->error);
		CHECK_EQ(lines, c->lines);
		CHECK_EQ(p.bandwidth_window_us, c->bandwidth_window_us);
		CHECK_EQ(p.cwnd_gain_pct, c->cwnd_gain_pct);
	}
}

TEST(an_algorithm_without_parameters_takes_no_line)
{
	u32 lines, nothing = 0;

	CHECK_EQ(cca_parse_params(&nothing, CCA_ID_reno, "cwnd_gain_pct 200\n", 18, &lines), -CCA_EINVAL);
	CHECK_EQ(cca_parse_params(&nothing, CCA_ID_reno, "", 0, &lines), 0);
}
