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

struct line_case { u32 line; const char *instead; int error; };

static void check_refused(const char *const *lines, u32 id, const struct line_case *c)
{
	set_text(lines, c->line, c->instead);
	start_reading(id);
	CHECK_EQ(feed_table(&r.parser, r.text, r.len), c->error);
	CHECK(!ens_is_complete(&r.parser));
	CHECK(!ens_needs_values(&r.parser));
	CHECK_EQ(r.parser.line_no, c->line);
	finish_reading();
}

TEST(a_malformed_header_is_refused_at_its_line)
{
	static const struct line_case cases[] = {
		{ 1, "ccatune-ensemble 2", -CCA_ERANGE },
		{ 1, "ccatune-ensemble 0", -CCA_ERANGE },
		{ 1, "ccatune-ensemble", -CCA_EINVAL },
		{ 1, "ccatune-ensemble  1", -CCA_EINVAL },
		{ 1, "ccatune-ensemble 1 ", -CCA_EINVAL },
		{ 1, "ccatune-ensembles 1", -CCA_EINVAL },
		{ 1, "", -CCA_EINVAL },
		{ 1, NULL, -CCA_EINVAL },
		{ 1, " clear", -CCA_EINVAL },
		{ 1, "clear ", -CCA_EINVAL },
		{ 1, "clear it", -CCA_EINVAL },
		{ 2, "cca reno", -CCA_EINVAL },
		{ 2, "cca g", -CCA_EINVAL },
		{ 2, "cca", -CCA_EINVAL },
		{ 2, "cca gr ", -CCA_EINVAL },
		{ 2, "cca gr\r", -CCA_EINVAL },
		{ 2, "clear", -CCA_EINVAL },
		{ 2, NULL, -CCA_EINVAL },
		{ 3, "registry ", -CCA_EINVAL },
		{ 3, "registry", -CCA_EINVAL },
		{ 3, "registry a/b", -CCA_EINVAL },
		{ 3, "registry a b", -CCA_EINVAL },
		{ 3, "registry \x80", -CCA_EINVAL },
		{ 3, "registry " NAME63 "x", -CCA_EINVAL },
		{ 4, "channel `", -CCA_EINVAL },
		{ 4, "channel {", -CCA_EINVAL },
		{ 4, "channel [", -CCA_EINVAL },
		{ 4, "channel @", -CCA_EINVAL },
		{ 4, "channel :", -CCA_EINVAL },
		{ 4, "registry x", -CCA_EINVAL },
		{ 5, "serial 0", -CCA_ERANGE },
		{ 5, "serial 3 ", -CCA_EINVAL },
		{ 5, "serial 3 urgently", -CCA_EINVAL },
		{ 5, "serial 3 urgen", -CCA_EINVAL },
		{ 5, "serial 3  urgent", -CCA_EINVAL },
		{ 5, "serial 3 urgent ", -CCA_EINVAL },
		{ 5, "serial urgent", -CCA_EINVAL },
		{ 5, "serial 9223372036854775808", -CCA_ERANGE },
		{ 5, "serial 18446744073709551617", -CCA_ERANGE },
		{ 5, "serial 99999999999999999999999999999999999999999", -CCA_ERANGE },
		{ 5, "serial 03", -CCA_EINVAL },
		{ 5, "serial +3", -CCA_EINVAL },
		{ 5, "serial -3", -CCA_EINVAL },
		{ 5, "serial 3x", -CCA_EINVAL },
		{ 5, "serial 0x3", -CCA_ERANGE },	/* errors count from the left: it is 0 */
		{ 5, "serial ", -CCA_EINVAL },
		{ 5, "serial", -CCA_EINVAL },
		{ 5, "serial 3 ", -CCA_EINVAL },
		{ 5, "serial 3/", -CCA_EINVAL },
		{ 5, "serial 3:", -CCA_EINVAL },
		{ 6, "digest sha256:" HEX HEX HEX, -CCA_EINVAL },
		{ 6, "digest " DIGEST "0", -CCA_EINVAL },
		{ 6, "digest sha256." HEX HEX HEX HEX, -CCA_EINVAL },
		{ 6, "digest sha256:" HEX HEX HEX "0123456789abcdeF", -CCA_EINVAL },
		{ 6, "digest sha256:" HEX HEX HEX "0123456789abcdeg", -CCA_EINVAL },
		{ 6, "digest sha256:" HEX HEX HEX "0123456789abcde/", -CCA_EINVAL },
		{ 6, "digest sha256:" HEX HEX HEX "0123456789abcde:", -CCA_EINVAL },
		{ 6, "digest", -CCA_EINVAL },
		{ 7, "epoch_ms 0", -CCA_ERANGE },
		{ 7, "epoch_ms 3600001", -CCA_ERANGE },
		{ 7, "epoch 30000", -CCA_EINVAL },
		{ 8, "estimate_ms 0", -CCA_ERANGE },
		{ 8, "estimate_ms 30001", -CCA_ERANGE },
		{ 8, "estimate_ms", -CCA_EINVAL },
		{ 9, "epsilon_pct 1001", -CCA_ERANGE },
		{ 9, "epsilon_pct 4294967296", -CCA_ERANGE },
		{ 9, "epsilon_pct 00", -CCA_EINVAL },
		{ 10, "hold_back_permille 1001", -CCA_ERANGE },
		{ 10, "hold_back_permille 1 0", -CCA_EINVAL },
		{ 11, "classes", -CCA_EINVAL },
		{ 11, "classes ", -CCA_EINVAL },
		{ 11, "classes 0:5", -CCA_ERANGE },
		{ 11, "classes 100:5", -CCA_ERANGE },
		{ 11, "classes 95:0", -CCA_ERANGE },
		{ 11, "classes 95:60000001", -CCA_ERANGE },
		{ 11, "classes 95", -CCA_EINVAL },
		{ 11, "classes 95:", -CCA_EINVAL },
		{ 11, "classes :5", -CCA_EINVAL },
		{ 11, "classes 95:5 ", -CCA_EINVAL },
		{ 11, "classes 95:5,96:5", -CCA_EINVAL },
		{ 11, "classes 1:1 1:1 1:1 1:1 1:1 1:1 1:1 1:1 1:1", -CCA_EINVAL },
	};

	FOR_ROWS(cases)
		check_refused(gr_lines, CCA_ID_gr, c);
}

TEST(a_malformed_axis_or_column_is_refused_at_its_line)
{
	static const struct line_case cases[] = {
		{ 12, "axis throughput_bytes_per_s linear 0 2", -CCA_ERANGE },
		{ 12, "axis throughput_bytes_per_s linear 4294967296 2", -CCA_ERANGE },
		{ 12, "axis throughput_bytes_per_s linear 1 0", -CCA_ERANGE },
		{ 12, "axis throughput_bytes_per_s linear 1 65", -CCA_ERANGE },
		{ 12, "axis throughput_bytes_per_s linear 1 2 3", -CCA_EINVAL },
		{ 12, "axis throughput_bytes_per_s linear 1 2 ", -CCA_EINVAL },
		{ 12, "axis throughput_bytes_per_s linear 1", -CCA_EINVAL },
		{ 12, "axis throughput_bytes_per_s linear", -CCA_EINVAL },
		{ 12, "axis throughput_bytes_per_s", -CCA_EINVAL },
		{ 12, "axis throughput_bytes_per_s log 1 2", -CCA_EINVAL },
		{ 12, "axis throughput_bytes_per_s log 1 2 0", -CCA_ERANGE },
		{ 12, "axis throughput_bytes_per_s log 1 2 65", -CCA_ERANGE },
		{ 12, "axis throughput_bytes_per_s log 1 2 ", -CCA_EINVAL },
		{ 12, "axis throughput_bytes_per_s logs 1 2 1", -CCA_EINVAL },
		{ 12, "axis throughput_bytes_per_s cubic 1 2", -CCA_EINVAL },
		{ 12, "axis first_axis linear 1 2", -CCA_EINVAL },
		{ 12, "axis", -CCA_EINVAL },
		{ 12, "axles throughput_bytes_per_s linear 1 2", -CCA_EINVAL },
		{ 12, NULL, -CCA_EINVAL },	/* columns without an axis */
		{ 13, "axis throughput_bytes_per_s linear 1 2", -CCA_EINVAL },	/* twice */
		{ 13, "columns", -CCA_EINVAL },
		{ 13, "columns ", -CCA_EINVAL },
		{ 13, "columns delay_threshold_us ", -CCA_EINVAL },
		{ 13, "columns delay_threshold_us  bandwidth_window_us", -CCA_EINVAL },
		{ 13, "columns delay_threshold_us delay_threshold_us", -CCA_EINVAL },
		{ 13, "columns cwnd_gain_pct", -CCA_EINVAL },	/* only set by hand */
		{ 13, "columns whole_range", -CCA_EINVAL },
		{ 13, "columns delay_threshold", -CCA_EINVAL },
		{ 13, NULL, -CCA_EINVAL },
	};
	static const struct line_case twin_cases[] = {
		{ 13, "axis second_axis linear 1 1", -CCA_EINVAL },	/* the first once more */
		{ 14, "axis first_axis linear 1 1", -CCA_EINVAL },	/* a third */
		{ 14, "columns p1", -CCA_EINVAL },
		/* Sixteen are all that there may be: a space behind them is too much. */
		{ 14, "columns p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 top_half whole_range lone_value narrow ",
		  -CCA_EINVAL },
		{ 14, "columns p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 top_half whole_range lone_value p4",
		  -CCA_EINVAL },
	};

	FOR_ROWS(cases)
		check_refused(gr_lines, CCA_ID_gr, c);
	FOR_ROWS(twin_cases)
		check_refused(twin_lines, CCA_ID_twin, c);
}

TEST(a_malformed_row_is_refused_at_its_line)
{
	static const struct line_case cases[] = {
		{ 14, "0 0 1999 3000 12000", -CCA_ERANGE },
		{ 14, "0 0 4000001 3000 12000", -CCA_ERANGE },
		{ 14, "0 0 60000 499 12000", -CCA_ERANGE },
		{ 14, "0 0 60000 3000 1000001", -CCA_ERANGE },
		{ 14, "0 0 60000 3000 4294979296", -CCA_ERANGE },	/* 12000 modulo 2^32 */
		{ 14, "0 0 60000 3000", -CCA_EINVAL },
		{ 14, "0 0 60000 3000 ", -CCA_EINVAL },
		{ 14, "0 0 60000 3000 12000 ", -CCA_EINVAL },
		{ 14, "0 0 60000 3000 12000 1", -CCA_EINVAL },
		{ 14, "0 0  60000 3000 12000", -CCA_EINVAL },
		{ 14, "0 0\t60000 3000 12000", -CCA_EINVAL },
		{ 14, " 0 0 60000 3000 12000", -CCA_EINVAL },
		{ 14, "0 0 060000 3000 12000", -CCA_EINVAL },
		{ 14, "0 1 60000 3000 25000", -CCA_EINVAL },		/* the row before is lost */
		{ 14, "1 0 60000 3000 12000", -CCA_EINVAL },
		{ 14, "00 0 60000 3000 12000", -CCA_EINVAL },
		{ 14, "4294967296 0 60000 3000 12000", -CCA_ERANGE },
		{ 14, "0", -CCA_EINVAL },
		{ 14, "", -CCA_EINVAL },
		{ 15, "0 0 60000 3000 12000", -CCA_EINVAL },		/* once more */
		{ 16, NULL, -CCA_EINVAL },
		{ 16, "end 2", -CCA_EINVAL },				/* too early */
		{ 18, "1 1 60000 3000 12000", -CCA_EINVAL },		/* a row too many */
		{ 18, "end 3", -CCA_ERANGE },
		{ 18, "end 5", -CCA_ERANGE },
		{ 18, "end 04", -CCA_EINVAL },
		{ 18, "end", -CCA_EINVAL },
		{ 18, "end 4 ", -CCA_EINVAL },
	};
	static const struct line_case twin_cases[] = {
		{ 15, "0 0 0 2147483647 0 5", -CCA_ERANGE },
		{ 15, "0 0 0 4294967296 0 5", -CCA_ERANGE },
		{ 15, "0 0 0 2147483648 0 4", -CCA_ERANGE },
		{ 15, "0 0 0 2147483648 0 6", -CCA_ERANGE },
		{ 15, "0 1 0 2147483648 0 5", -CCA_EINVAL },
		{ 15, "0 0 2147483648 0 5", -CCA_EINVAL },	/* a level is lacking */
		{ 23, "0 1 0 2147483648 0 5", -CCA_EINVAL },	/* levels in the other order */
	};

	FOR_ROWS(cases)
		check_refused(gr_lines, CCA_ID_gr, c);
	FOR_ROWS(twin_cases)
		check_refused(twin_lines, CCA_ID_twin, c);
}

/* A host that asks for an algorithm that is not there gets no table. */
TEST(an_unknown_algorithm_has_no_text)
{
	const struct line_case c = { 2, "cca gr", -CCA_EINVAL };

	check_refused(gr_lines, 0, &c);
	check_refused(gr_lines, 0xffffffffu, &c);
}

TEST(names_and_numbers_are_taken_to_their_limits)
{
	static const struct line_case cases[] = {
		{ 3, "registry " NAME63, 0 },
		{ 3, "registry a", 0 },
		{ 4, "channel _-.AZaz09", 0 },
		{ 5, "serial 1", 0 },
		{ 5, "serial 9223372036854775807", 0 },
		{ 7, "epoch_ms 250", 0 },		/* as long as the estimate */
		{ 8, "estimate_ms 30000", 0 },
		{ 8, "estimate_ms 1", 0 },
		{ 9, "epsilon_pct 0", 0 },
		{ 10, "hold_back_permille 0", 0 },
		{ 11, "classes 95:1 95:1", 0 },
		{ 12, "axis throughput_bytes_per_s log 1 2 1", 0 },
	};

	FOR_ROWS(cases) {
		set_text(gr_lines, c->line, c->instead);
		check_reads_back(CCA_ID_gr);
		finish_reading();
	}
}
