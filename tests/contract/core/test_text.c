// SPDX-License-Identifier: MIT
/* kmod/core/ensemble_text.h and ensemble_format.h: one table has one text, and everything else is refused. */
#include "ensemble_format.h"

#include "check.h"
#include "read_table.h"

#define HEX "0123456789abcdef"
#define DIGEST "sha256:" HEX HEX HEX HEX
#define NAME63 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789."

/* Two levels, two classes. Lines are numbered from 1, as rows below name them. */
static const char *const gr_lines[] = {
	"ccatune-ensemble 1",
	"cca gr",
	"registry local",
	"channel champion",
	"serial 3",
	"digest " DIGEST,
	"epoch_ms 30000",
	"estimate_ms 250",
	"epsilon_pct 25",
	"hold_back_permille 10",
	"classes 95:50000 99:100000",
	"axis throughput_bytes_per_s linear 125000 2",
	"columns bandwidth_window_us adaptation_interval_us delay_threshold_us",
	"0 0 60000 3000 12000",
	"0 1 60000 3000 25000",
	"1 0 4000000 500 1000",
	"1 1 2000 1000000 1000000",
	"end 4",
	NULL,
};

/* Two axes, one of them logarithmic; columns in another order than params.def's. */
static const char *const twin_lines[] = {
	"ccatune-ensemble 1",
	"cca twin",
	"registry " NAME63,
	"channel -",
	"serial 9223372036854775807",
	"digest " DIGEST,
	"epoch_ms 3600000",
	"estimate_ms 3600000",
	"epsilon_pct 1000",
	"hold_back_permille 1000",
	"classes 1:1 99:60000000 2:2 3:3 4:4 5:5 6:6 7:7",
	"axis second_axis log 4294967295 2 64",
	"axis first_axis linear 1 1",
	"columns top_half whole_range lone_value",
	"0 0 0 2147483648 0 5", "0 0 1 4294967295 4294967295 5", "0 0 2 2147483648 1 5",
	"0 0 3 2147483648 10 5", "0 0 4 2147483648 100 5", "0 0 5 2147483648 9 5",
	"0 0 6 2147483648 2 5", "0 0 7 2147483648 3 5",
	"1 0 0 2147483648 0 5", "1 0 1 4294967295 4294967295 5", "1 0 2 2147483648 1 5",
	"1 0 3 2147483648 10 5", "1 0 4 2147483648 100 5", "1 0 5 2147483648 9 5",
	"1 0 6 2147483648 2 5", "1 0 7 2147483648 3 5",
	"end 16",
	NULL,
};

struct reader {
	struct ens_table table;
	struct ens_parser parser;
	char text[8192];
	u32 len;
	char back[8192];
};

static struct reader r;

static void start(u32 id)
{
	memset(&r.table, 0xa5, sizeof(r.table));
	memset(&r.parser, 0xa5, sizeof(r.parser));
	ens_parser_init(&r.parser, &r.table, id);
}

static void finish(void)
{
	free(r.table.values);
	r.table.values = NULL;
}

static void append(const char *text)
{
	r.len += (u32)snprintf(r.text + r.len, sizeof(r.text) - r.len, "%s\n", text);
}

/* The lines as text, where line `changed` (from 1; 0: none) stands as `instead`, or not at all (NULL). */
static void set_text(const char *const *lines, u32 changed, const char *instead)
{
	u32 i;

	for (r.len = 0, i = 0; lines[i]; i++)
		if (i + 1 != changed)
			append(lines[i]);
		else if (instead)
			append(instead);
}

static void check_reads_back(u32 id)
{
	u32 n;

	start(id);
	CHECK_EQ(feed_table(&r.parser, r.text, r.len), r.len);
	CHECK(ens_is_complete(&r.parser));
	CHECK(!ens_is_clear(&r.parser));
	n = write_table(&r.table, r.back, sizeof(r.back));
	CHECK_EQ(n, r.len);
	CHECK(!memcmp(r.back, r.text, r.len));
}

static void a_table_is_read_and_written_back(void)
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
	CHECK_EQ(ens_row(&r.table, 1, 1)[2], 1000000);
	CHECK(!strcmp(r.table.registry, "local"));
	CHECK(!strcmp(r.table.digest, DIGEST));
	finish();
	set_text(twin_lines, 0, NULL);
	check_reads_back(CCA_ID_twin);
	CHECK_EQ(r.table.serial, ENS_MAX_SERIAL);
	CHECK_EQ(ens_rows(&r.table), 16);
	CHECK_EQ(r.table.column[0], 3);
	CHECK_EQ(ens_row(&r.table, 1, 1)[1], 0xffffffffu);
	finish();
}

struct line_case { u32 line; const char *instead; int error; };

static void check_refused(const char *const *lines, u32 id, const struct line_case *c)
{
	set_text(lines, c->line, c->instead);
	start(id);
	CHECK_EQ(feed_table(&r.parser, r.text, r.len), c->error);
	CHECK(!ens_is_complete(&r.parser));
	CHECK(!ens_needs_values(&r.parser));
	CHECK_EQ(r.parser.line_no, c->line);
	finish();
}

static void a_malformed_header_is_refused_at_its_line(void)
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

	FOR_ROWS(struct line_case, cases)
		check_refused(gr_lines, CCA_ID_gr, c);
}

static void a_malformed_axis_or_column_is_refused_at_its_line(void)
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
		{ 14, "columns by_hand", -CCA_EINVAL },
		{ 14, "columns p1", -CCA_EINVAL },
		/* Fourteen are all that may stand there; the fifteenth can only be one of them. */
		{ 14, "columns p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 top_half whole_range lone_value p4",
		  -CCA_EINVAL },
	};

	FOR_ROWS(struct line_case, cases)
		check_refused(gr_lines, CCA_ID_gr, c);
	FOR_ROWS(struct line_case, twin_cases)
		check_refused(twin_lines, CCA_ID_twin, c);
}

static void a_malformed_row_is_refused_at_its_line(void)
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

	FOR_ROWS(struct line_case, cases)
		check_refused(gr_lines, CCA_ID_gr, c);
	FOR_ROWS(struct line_case, twin_cases)
		check_refused(twin_lines, CCA_ID_twin, c);
}

static void names_and_numbers_are_taken_to_their_limits(void)
{
	static const struct line_case cases[] = {
		{ 3, "registry " NAME63, 0 },
		{ 3, "registry a", 0 },
		{ 4, "channel _-.AZaz09", 0 },
		{ 5, "serial 1", 0 },
		{ 5, "serial 9223372036854775807", 0 },
		{ 8, "estimate_ms 30000", 0 },
		{ 9, "epsilon_pct 0", 0 },
		{ 10, "hold_back_permille 0", 0 },
		{ 11, "classes 95:1 95:1", 0 },
		{ 12, "axis throughput_bytes_per_s log 1 2 1", 0 },
	};

	FOR_ROWS(struct line_case, cases) {
		set_text(gr_lines, c->line, c->instead);
		check_reads_back(CCA_ID_gr);
		finish();
	}
}

/* --- delivery ------------------------------------------------------------- */

static void pieces_of_any_size_give_the_same_table(void)
{
	u32 size, at;

	set_text(gr_lines, 0, NULL);
	for (size = 1; size <= r.len; size++) {
		row = (int)size;
		start(CCA_ID_gr);
		for (at = 0; at < r.len; at += size) {
			u32 n = cca_min_u32(size, r.len - at);

			CHECK(!ens_is_complete(&r.parser));
			CHECK_EQ(feed_table(&r.parser, r.text + at, n), n);
		}
		CHECK(ens_is_complete(&r.parser));
		CHECK_EQ(write_table(&r.table, r.back, sizeof(r.back)), r.len);
		CHECK(!memcmp(r.back, r.text, r.len));
		finish();
	}
}

static void a_text_cut_short_is_not_complete(void)
{
	u32 len;

	set_text(gr_lines, 0, NULL);
	for (len = 0; len < r.len; len++) {
		row = (int)len;
		start(CCA_ID_gr);
		CHECK_EQ(feed_table(&r.parser, r.text, len), len);
		CHECK(!ens_is_complete(&r.parser));
		CHECK(!ens_is_clear(&r.parser));
		finish();
	}
}

static void an_error_stays(void)
{
	set_text(gr_lines, 9, "epsilon_pct 1001");
	start(CCA_ID_gr);
	CHECK_EQ(feed_table(&r.parser, r.text, r.len), -CCA_ERANGE);
	CHECK_EQ(ens_parse(&r.parser, "", 0), -CCA_ERANGE);
	set_text(gr_lines, 0, NULL);
	CHECK_EQ(feed_table(&r.parser, r.text, r.len), -CCA_ERANGE);
	CHECK(!ens_is_complete(&r.parser));
	finish();
}

static void text_behind_the_end_is_an_error(void)
{
	static const char *const behind[] = { "\n", " ", "x", "clear\n", "end 4\n" };
	u32 i;

	for (i = 0; i < 5; i++) {
		row = (int)i + 1;
		set_text(gr_lines, 0, NULL);
		check_reads_back(CCA_ID_gr);
		CHECK_EQ(ens_parse(&r.parser, behind[i], 1), -CCA_EINVAL);
		CHECK(!ens_is_complete(&r.parser));
		finish();
		start(CCA_ID_gr);
		CHECK_EQ(ens_parse(&r.parser, "clear\n", 6), 6);
		CHECK(ens_is_clear(&r.parser));
		CHECK(!ens_is_complete(&r.parser));
		CHECK_EQ(ens_parse(&r.parser, behind[i], 1), -CCA_EINVAL);
		CHECK(!ens_is_clear(&r.parser));
	}
}

static void clear_counts_with_its_line_feed_alone(void)
{
	start(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, "clear", 5), 5);
	CHECK(!ens_is_clear(&r.parser));
	CHECK_EQ(ens_parse(&r.parser, "\n", 1), 1);
	CHECK(ens_is_clear(&r.parser));
	CHECK(!ens_needs_values(&r.parser));
}

static void the_parser_stops_where_it_needs_memory(void)
{
	u32 columns_end;

	set_text(gr_lines, 0, NULL);
	columns_end = (u32)(strstr(r.text, "0 0 60000") - r.text);
	start(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, r.text, r.len), columns_end);
	CHECK(ens_needs_values(&r.parser));
	CHECK_EQ(ens_values_bytes(&r.table), 4 * 3 * sizeof(u32));
	/* Without it nothing more is taken. */
	CHECK_EQ(ens_parse(&r.parser, r.text + columns_end, 9), 0);
	CHECK(ens_needs_values(&r.parser));
	CHECK_EQ(feed_table(&r.parser, r.text + columns_end, r.len - columns_end), r.len - columns_end);
	CHECK(ens_is_complete(&r.parser));
	finish();
}

static void a_line_longer_than_its_room_is_refused(void)
{
	char longest[ENS_MAX_LINE + 1];

	memset(longest, 'x', sizeof(longest));
	start(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, longest, ENS_MAX_LINE - 1), ENS_MAX_LINE - 1);
	CHECK_EQ(ens_parse(&r.parser, longest, 1), -CCA_EINVAL);
	start(CCA_ID_gr);
	CHECK_EQ(ens_parse(&r.parser, longest, ENS_MAX_LINE + 1), -CCA_EINVAL);
}

static void more_than_256_kib_is_refused_as_such(void)
{
	static char text[4096];
	u32 i, len = 0;
	int taken = 0;

	/* 64 levels of 64 and 8 classes: the header of a table that no text can hold. */
	for (i = 0; i < 14; i++)
		len += (u32)snprintf(text + len, sizeof(text) - len, "%s\n", i == 11 ?
				     "axis first_axis linear 1 64" : i == 12 ?
				     "axis second_axis linear 1 64" : twin_lines[i]);
	start(CCA_ID_twin);
	CHECK_EQ(feed_table(&r.parser, text, len), len);
	for (i = 0; i < 32768 && taken >= 0; i++) {
		len = (u32)snprintf(text, sizeof(text), "%u %u %u 4294967295 4294967295 5\n",
				    i / 512, i / 8 % 64, i % 8);
		taken = feed_table(&r.parser, text, len);
	}
	CHECK_EQ(taken, -CCA_EFBIG);
	CHECK_EQ(r.parser.text_bytes, ENS_MAX_TEXT_BYTES + 1);
	CHECK(!ens_is_complete(&r.parser));
	finish();
	/* One delivery of more than that is no other thing. */
	start(CCA_ID_twin);
	CHECK(ens_parse(&r.parser, text, 1) == 1);
}

/* --- the formatter's edges --------------------------------------------------- */

static void there_is_no_line_behind_the_last(void)
{
	char line[ENS_MAX_LINE];

	set_text(gr_lines, 0, NULL);
	check_reads_back(CCA_ID_gr);
	CHECK_EQ(ens_lines(&r.table), 18);
	CHECK_EQ(ens_format_line(&r.table, 17, line, sizeof(line)), strlen("end 4\n"));
	CHECK_EQ(ens_format_line(&r.table, 18, line, sizeof(line)), 0);
	CHECK_EQ(ens_format_line(&r.table, 0xffffffffu, line, sizeof(line)), 0);
	finish();
}

static void a_buffer_too_small_is_filled_and_not_overrun(void)
{
	char small[8];

	set_text(gr_lines, 0, NULL);
	check_reads_back(CCA_ID_gr);
	memset(small, '#', sizeof(small));
	CHECK_EQ(ens_format_line(&r.table, 0, small, 5), 5);
	CHECK(!memcmp(small, "ccatu###", 8));
	CHECK_EQ(ens_format_line(&r.table, 0, small, 0), 0);
	CHECK(!memcmp(small, "ccatu###", 8));
	finish();
}

static void the_largest_number_is_written_whole(void)
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

int main(void)
{
	RUN(a_table_is_read_and_written_back);
	RUN(a_malformed_header_is_refused_at_its_line);
	RUN(a_malformed_axis_or_column_is_refused_at_its_line);
	RUN(a_malformed_row_is_refused_at_its_line);
	RUN(names_and_numbers_are_taken_to_their_limits);
	RUN(pieces_of_any_size_give_the_same_table);
	RUN(a_text_cut_short_is_not_complete);
	RUN(an_error_stays);
	RUN(text_behind_the_end_is_an_error);
	RUN(clear_counts_with_its_line_feed_alone);
	RUN(the_parser_stops_where_it_needs_memory);
	RUN(a_line_longer_than_its_room_is_refused);
	RUN(more_than_256_kib_is_refused_as_such);
	RUN(there_is_no_line_behind_the_last);
	RUN(a_buffer_too_small_is_filled_and_not_overrun);
	RUN(the_largest_number_is_written_whole);
	return check_report();
}
