/* SPDX-License-Identifier: MIT */
/* Two valid texts, line by line, and a parser to read them with, or what a test makes of them. */
#ifndef TESTS_TEXTS_H
#define TESTS_TEXTS_H

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

static inline void start_reading(u32 id)
{
	memset(&r.table, 0xa5, sizeof(r.table));
	memset(&r.parser, 0xa5, sizeof(r.parser));
	ens_parser_init(&r.parser, &r.table, id);
}

static inline void finish_reading(void)
{
	free(r.table.values);
	r.table.values = NULL;
}

static inline void append(const char *text)
{
	r.len += (u32)snprintf(r.text + r.len, sizeof(r.text) - r.len, "%s\n", text);
}

/* The lines as text, where line `changed` (from 1; 0: none) stands as `instead`, or not at all (NULL). */
static inline void set_text(const char *const *lines, u32 changed, const char *instead)
{
	u32 i;

	for (r.len = 0, i = 0; lines[i]; i++)
		if (i + 1 != changed)
			append(lines[i]);
		else if (instead)
			append(instead);
}

static inline void check_reads_back(u32 id)
{
	u32 n;

	start_reading(id);
	CHECK_EQ(feed_table(&r.parser, r.text, r.len), r.len);
	CHECK(ens_is_complete(&r.parser));
	CHECK(!ens_is_clear(&r.parser));
	n = write_table(&r.table, r.back, sizeof(r.back));
	CHECK_EQ(n, r.len);
	CHECK(!memcmp(r.back, r.text, r.len));
}

#endif /* TESTS_TEXTS_H */
