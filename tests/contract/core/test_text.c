// SPDX-License-Identifier: MIT
/* kmod/core/ensemble_text.h, ensemble_format.h: one table has one text, and everything else is refused. */
#include "texts.h"

TEST(a_table_is_read_and_written_back)
{
	set_text(gr_lines, 0, NULL);
	check_reads_back(CCA_ID_gr);
	CHECK_EQ(r.table.serial, 3);
	CHECK_EQ(r.table.generation, 0);
	CHECK_EQ(r.table.n_axes, 1);
	CHECK_EQ(r.table.n_classes, 2);
	CHECK_EQ(r.table.n_columns, 3);
	CHECK_EQ(r.table.epoch_ms, 30000);
	CHECK_EQ(r.table.estimate_ms, 250);
	CHECK_EQ(r.table.epsilon_pct, 25);
	CHECK_EQ(r.table.hold_back_permille, 10);
	CHECK_EQ(r.table.classes[1].percentile, 99);
	CHECK_EQ(r.table.classes[1].queueing_delay_us, 100000);
	CHECK_EQ(r.table.axis[0].step, 125000);
	CHECK_EQ(r.table.values[ens_row_index(&r.table, 1, 1) * r.table.n_columns + 2], 1000000);
	CHECK(!strcmp(r.table.registry, "local"));
	CHECK(!strcmp(r.table.digest, DIGEST));
	finish_reading();
	set_text(twin_lines, 0, NULL);
	check_reads_back(CCA_ID_twin);
	CHECK_EQ(r.table.serial, ENS_MAX_SERIAL);
	CHECK_EQ(ens_rows(&r.table), 16);
	CHECK_EQ(r.table.column[0], 3);
	CHECK_EQ(r.table.values[ens_row_index(&r.table, 1, 1) * r.table.n_columns + 1], 0xffffffffu);
	finish_reading();
}

TEST(an_urgent_table_is_read_and_written_back)
{
	set_text(gr_lines, 5, "serial 3 urgent");
	check_reads_back(CCA_ID_gr);
	CHECK_EQ(r.table.serial, 3);
	CHECK(r.table.urgent);
	finish_reading();
	set_text(gr_lines, 0, NULL);
	check_reads_back(CCA_ID_gr);
	CHECK(!r.table.urgent);
	finish_reading();
}

#define FIFTEEN "columns p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 top_half whole_range lone_value "

/* Texts that may stand in place of a line, each of them with the same result. */
struct line_case { u32 line; int error; const char *const *texts; };

#define TEXTS(...) (const char *const[]){ __VA_ARGS__, NULL }

static const char lost[] = "";		/* in place of a line: there is none */

static void check_refused(const char *const *lines, u32 id, const struct line_case *c)
{
	for (const char *const *text = c->texts; *text; text++) {
		set_text(lines, c->line, *text == lost ? NULL : *text);
		start_reading(id);
		CHECK_EQ(feed_table(&r.parser, r.text, r.len), c->error);
		CHECK(!ens_is_complete(&r.parser));
		CHECK(!ens_needs_values(&r.parser));
		CHECK_EQ(r.parser.line_no, c->line);
		finish_reading();
	}
}

TEST(a_malformed_header_is_refused_at_its_line)
{
	const struct line_case cases[] = {
		{ 1, -CCA_ERANGE, TEXTS("ccatune-ensemble 2", "ccatune-ensemble 0") },
		{ 1, -CCA_EINVAL, TEXTS("ccatune-ensemble", "ccatune-ensemble  1",
			"ccatune-ensemble 1 ", "ccatune-ensembles 1", "") },
		{ 1, -CCA_EINVAL, TEXTS(lost) },
		{ 1, -CCA_EINVAL, TEXTS(" clear", "clear ", "clear it") },
		{ 2, -CCA_EINVAL, TEXTS("cca reno", "cca g", "cca", "cca gr ", "cca gr\r",
			"clear") },
		{ 2, -CCA_EINVAL, TEXTS(lost) },
		{ 3, -CCA_EINVAL, TEXTS("registry ", "registry", "registry a/b", "registry a b",
			"registry \x80", "registry " NAME63 "x") },
		{ 4, -CCA_EINVAL, TEXTS("channel `", "channel {", "channel [", "channel @",
			"channel :", "registry x") },
		{ 5, -CCA_ERANGE, TEXTS("serial 0") },
		{ 5, -CCA_EINVAL, TEXTS("serial 3 ", "serial 3 urgently", "serial 3 urgen",
			"serial 3  urgent", "serial 3 urgent ", "serial urgent") },
		{ 5, -CCA_ERANGE, TEXTS("serial 9223372036854775808", "serial 18446744073709551617",
			"serial 99999999999999999999999999999999999999999") },
		{ 5, -CCA_EINVAL, TEXTS("serial 03", "serial +3", "serial -3", "serial 3x") },
		{ 5, -CCA_ERANGE, TEXTS("serial 0x3") },	/* errors count from the left: it is 0 */
		{ 5, -CCA_EINVAL, TEXTS("serial ", "serial", "serial 3 ", "serial 3/",
			"serial 3:") },
		{ 6, -CCA_EINVAL, TEXTS("digest sha256:" HEX HEX HEX, "digest " DIGEST "0",
			"digest sha256." HEX HEX HEX HEX,
			"digest sha256:" HEX HEX HEX "0123456789abcdeF",
			"digest sha256:" HEX HEX HEX "0123456789abcdeg",
			"digest sha256:" HEX HEX HEX "0123456789abcde/",
			"digest sha256:" HEX HEX HEX "0123456789abcde:", "digest") },
		{ 7, -CCA_ERANGE, TEXTS("epoch_ms 0", "epoch_ms 3600001") },
		{ 7, -CCA_EINVAL, TEXTS("epoch 30000") },
		{ 8, -CCA_ERANGE, TEXTS("estimate_ms 0", "estimate_ms 30001") },
		{ 8, -CCA_EINVAL, TEXTS("estimate_ms") },
		{ 9, -CCA_ERANGE, TEXTS("epsilon_pct 1001", "epsilon_pct 4294967296") },
		{ 9, -CCA_EINVAL, TEXTS("epsilon_pct 00") },
		{ 10, -CCA_ERANGE, TEXTS("hold_back_permille 1001") },
		{ 10, -CCA_EINVAL, TEXTS("hold_back_permille 1 0") },
		{ 11, -CCA_EINVAL, TEXTS("classes", "classes ") },
		{ 11, -CCA_ERANGE, TEXTS("classes 0:5", "classes 100:5", "classes 95:0",
			"classes 95:60000001") },
		{ 11, -CCA_EINVAL, TEXTS("classes 95", "classes 95:", "classes :5", "classes 95:5 ",
			"classes 95:5,96:5", "classes 1:1 1:1 1:1 1:1 1:1 1:1 1:1 1:1 1:1") },
	};

	FOR_ROWS(cases)
		check_refused(gr_lines, CCA_ID_gr, c);
}

TEST(a_malformed_axis_or_column_is_refused_at_its_line)
{
	const struct line_case cases[] = {
		{ 12, -CCA_ERANGE, TEXTS("axis throughput_bytes_per_s linear 0 2",
			"axis throughput_bytes_per_s linear 4294967296 2",
			"axis throughput_bytes_per_s linear 1 0",
			"axis throughput_bytes_per_s linear 1 65") },
		{ 12, -CCA_EINVAL, TEXTS("axis throughput_bytes_per_s linear 1 2 3",
			"axis throughput_bytes_per_s linear 1 2 ",
			"axis throughput_bytes_per_s linear 1",
			"axis throughput_bytes_per_s linear", "axis throughput_bytes_per_s",
			"axis throughput_bytes_per_s log 1 2") },
		{ 12, -CCA_ERANGE, TEXTS("axis throughput_bytes_per_s log 1 2 0",
			"axis throughput_bytes_per_s log 1 2 65") },
		{ 12, -CCA_EINVAL, TEXTS("axis throughput_bytes_per_s log 1 2 ",
			"axis throughput_bytes_per_s logs 1 2 1",
			"axis throughput_bytes_per_s cubic 1 2", "axis first_axis linear 1 2",
			"axis", "axles throughput_bytes_per_s linear 1 2") },
		{ 12, -CCA_EINVAL, TEXTS(lost) },	/* columns without an axis */
		{ 13, -CCA_EINVAL, TEXTS("axis throughput_bytes_per_s linear 1 2") },	/* twice */
		{ 13, -CCA_EINVAL, TEXTS("columns", "columns ", "columns delay_threshold_us ",
			"columns delay_threshold_us  bandwidth_window_us",
			"columns delay_threshold_us delay_threshold_us") },
		{ 13, -CCA_EINVAL, TEXTS("columns cwnd_gain_pct") },	/* only set by hand */
		{ 13, -CCA_EINVAL, TEXTS("columns whole_range", "columns delay_threshold") },
		{ 13, -CCA_EINVAL, TEXTS(lost) },
	};
	const struct line_case twin_cases[] = {
		{ 13, -CCA_EINVAL, TEXTS("axis second_axis linear 1 1") },	/* the first once more */
		{ 14, -CCA_EINVAL, TEXTS("axis first_axis linear 1 1") },	/* a third */
		{ 14, -CCA_EINVAL, TEXTS("columns p1") },
		/* Sixteen are all that there may be: a space behind them is too much. */
		{ 14, -CCA_EINVAL, TEXTS(FIFTEEN "narrow ", FIFTEEN "p4") },
	};

	FOR_ROWS(cases)
		check_refused(gr_lines, CCA_ID_gr, c);
	FOR_ROWS(twin_cases)
		check_refused(twin_lines, CCA_ID_twin, c);
}

TEST(a_malformed_row_is_refused_at_its_line)
{
	const struct line_case cases[] = {
		{ 14, -CCA_ERANGE, TEXTS("0 0 1999 3000 12000", "0 0 4000001 3000 12000",
			"0 0 60000 499 12000", "0 0 60000 3000 1000001") },
		{ 14, -CCA_ERANGE, TEXTS("0 0 60000 3000 4294979296") },	/* 12000 modulo 2^32 */
		{ 14, -CCA_EINVAL, TEXTS("0 0 60000 3000", "0 0 60000 3000 ",
			"0 0 60000 3000 12000 ", "0 0 60000 3000 12000 1", "0 0  60000 3000 12000",
			"0 0\t60000 3000 12000", " 0 0 60000 3000 12000",
			"0 0 060000 3000 12000") },
		{ 14, -CCA_EINVAL, TEXTS("0 1 60000 3000 25000") },	/* the row before is lost */
		{ 14, -CCA_EINVAL, TEXTS("1 0 60000 3000 12000", "00 0 60000 3000 12000") },
		{ 14, -CCA_ERANGE, TEXTS("4294967296 0 60000 3000 12000") },
		{ 14, -CCA_EINVAL, TEXTS("0", "") },
		{ 15, -CCA_EINVAL, TEXTS("0 0 60000 3000 12000") },	/* once more */
		{ 16, -CCA_EINVAL, TEXTS(lost) },
		{ 16, -CCA_EINVAL, TEXTS("end 2") },	/* too early */
		{ 18, -CCA_EINVAL, TEXTS("1 1 60000 3000 12000") },	/* a row too many */
		{ 18, -CCA_ERANGE, TEXTS("end 3", "end 5") },
		{ 18, -CCA_EINVAL, TEXTS("end 04", "end", "end 4 ") },
	};
	const struct line_case twin_cases[] = {
		{ 15, -CCA_ERANGE, TEXTS("0 0 0 2147483647 0 5", "0 0 0 4294967296 0 5",
			"0 0 0 2147483648 0 4", "0 0 0 2147483648 0 6") },
		{ 15, -CCA_EINVAL, TEXTS("0 1 0 2147483648 0 5") },
		{ 15, -CCA_EINVAL, TEXTS("0 0 2147483648 0 5") },	/* a level is lacking */
		{ 23, -CCA_EINVAL, TEXTS("0 1 0 2147483648 0 5") },	/* levels in the other order */
	};

	FOR_ROWS(cases)
		check_refused(gr_lines, CCA_ID_gr, c);
	FOR_ROWS(twin_cases)
		check_refused(twin_lines, CCA_ID_twin, c);
}

/* A host that asks for an algorithm that is not there gets no table. */
TEST(an_unknown_algorithm_has_no_text)
{
	const struct line_case c = { 2, -CCA_EINVAL, TEXTS("cca gr") };

	check_refused(gr_lines, 0, &c);
	check_refused(gr_lines, 0xffffffffu, &c);
}

TEST(names_and_numbers_are_taken_to_their_limits)
{
	const struct line_case cases[] = {
		{ 3, 0, TEXTS("registry " NAME63, "registry a") },
		{ 4, 0, TEXTS("channel _-.AZaz09") },
		{ 5, 0, TEXTS("serial 1", "serial 9223372036854775807") },
		{ 7, 0, TEXTS("epoch_ms 250") },	/* as long as the estimate */
		{ 8, 0, TEXTS("estimate_ms 30000", "estimate_ms 1") },
		{ 9, 0, TEXTS("epsilon_pct 0") },
		{ 10, 0, TEXTS("hold_back_permille 0") },
		{ 11, 0, TEXTS("classes 95:1 95:1") },
		{ 12, 0, TEXTS("axis throughput_bytes_per_s log 1 2 1") },
	};

	FOR_ROWS(cases)
		for (const char *const *text = c->texts; *text; text++) {
			set_text(gr_lines, c->line, *text);
			check_reads_back(CCA_ID_gr);
			finish_reading();
		}
}
