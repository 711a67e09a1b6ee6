// SPDX-License-Identifier: MIT
/* kmod/core/ensemble.h: levels, states and rows, who may replace whom, who is held back. */
#include "ensemble.h"

#include "gr.h"

#include "check.h"

#define U64_TOP 0xffffffffffffffffull
#define MBIT 125000u			/* bytes/s in a Mbit/s */

TEST(a_linear_level_is_equation_2)
{
	static const struct { u32 step, count; u64 value; u32 level; } cases[] = {
		{ MBIT, 40, 0, 0 },
		{ MBIT, 40, MBIT - 1, 0 },
		{ MBIT, 40, MBIT, 1 },
		{ MBIT, 40, 2 * MBIT - 1, 1 },
		{ MBIT, 40, 39 * MBIT - 1, 38 },
		{ MBIT, 40, 39 * MBIT, 39 },
		{ MBIT, 40, 40 * MBIT, 39 },		/* N - 1 */
		{ MBIT, 40, U64_TOP, 39 },
		{ MBIT, 1, U64_TOP, 0 },
		{ 1, 64, 62, 62 },
		{ 1, 64, 64, 63 },
		{ 0xffffffffu, 64, 0xfffffffeu, 0 },
		{ 0xffffffffu, 64, 0xffffffffu, 1 },
	};

	FOR_ROWS(cases) {
		struct ens_axis a = { 0, c->step, c->count, 0, ENS_LINEAR };

		CHECK_EQ(ens_level(&a, c->value), c->level);
	}
}

TEST(a_log_level_is_its_part_of_an_octave)
{
	static const struct { u32 step, count, per_octave; u64 value; u32 level; } cases[] = {
		{ 1000, 64, 1, 0, 0 },
		{ 1000, 64, 1, 999, 0 },
		{ 1000, 64, 1, 1000, 0 },
		{ 1000, 64, 1, 1999, 0 },
		{ 1000, 64, 1, 2000, 1 },
		{ 1000, 64, 1, 3999, 1 },
		{ 1000, 64, 1, 4000, 2 },
		{ 1000, 64, 4, 1249, 0 },	/* quarters of 1000 to 2000 */
		{ 1000, 64, 4, 1250, 1 },
		{ 1000, 64, 4, 1999, 3 },
		{ 1000, 64, 4, 2000, 4 },
		{ 1000, 64, 4, 2499, 4 },
		{ 1000, 64, 4, 2500, 5 },
		{ 1000, 64, 4, 7999, 11 },
		{ 1000, 12, 4, 8000, 11 },	/* the highest level */
		{ 1000, 12, 4, U64_TOP, 11 },
		{ 1000, 1, 64, U64_TOP, 0 },
		{ 3, 64, 2, 4, 0 },		/* a step that does not halve */
		{ 3, 64, 2, 5, 1 },
		{ 1, 64, 1, 1ull << 63, 63 },
		{ 1, 64, 1, (1ull << 63) - 1, 62 },
		{ 1, 64, 64, U64_TOP, 63 },
		{ 0xffffffffu, 64, 1, 0xffffffffu, 0 },
		{ 0xffffffffu, 64, 1, U64_TOP, 32 },
		{ 0xffffffffu, 64, 64, 0x1fffffffdull, 63 },
	};

	FOR_ROWS(cases) {
		struct ens_axis a = { 0, c->step, c->count, c->per_octave, ENS_LOG };

		CHECK_EQ(ens_level(&a, c->value), c->level);
	}
}

TEST(levels_never_fall_as_the_value_rises)
{
	static const u32 steps[] = { 1, 3, 1000, MBIT, 0xffffffffu };
	u32 i, per_octave, value;

	for (i = 0; i < 5; i++)
		for (per_octave = 1; per_octave <= 64; per_octave += 7) {
			struct ens_axis a = { 0, steps[i], 64, per_octave, ENS_LOG };
			u64 at = 0;
			u32 before = 0;

			for (value = 0; value < 3000; value++, at += 1 + at / 128) {
				u32 level = ens_level(&a, at);

				CHECK(level >= before && level < 64);
				before = level;
			}
		}
}

/* Four levels by three, two classes, two columns: values say their own row. */
static u32 memory[4 * 3 * 2 * 2];

static struct ens_table small_table(u32 n_axes)
{
	struct ens_table t = {
		.id = CCA_ID_gr, .n_axes = n_axes, .n_classes = 2, .n_columns = 2, .values = memory,
		.axis = { { 0, 10, 4, 0, ENS_LINEAR }, { 0, 100, 3, 1, ENS_LOG } },
		.column = { 2, 0 },	/* delay_threshold_us, bandwidth_window_us */
	};
	u32 i;

	for (i = 0; i < 4 * 3 * 2 * 2; i++)
		memory[i] = 1000 + i;
	return t;
}

TEST(states_and_rows_are_counted)
{
	struct ens_table t = small_table(2);

	CHECK_EQ(ens_states(&t), 12);
	CHECK_EQ(ens_rows(&t), 24);
	CHECK_EQ(ens_values_bytes(&t), sizeof(memory));
	t.n_axes = 1;
	CHECK_EQ(ens_states(&t), 4);
	CHECK_EQ(ens_rows(&t), 8);
	t.n_axes = 2;
	t.axis[0].count = t.axis[1].count = 64;
	t.n_classes = 8;
	t.n_columns = 16;
	CHECK_EQ(ens_values_bytes(&t), 1u << 21);
}

TEST(a_row_is_found_by_levels_and_class)
{
	static const struct {
		u32 n_axes, level; u64 second; u32 delay_class, state, row;
	} cases[] = {
		{ 1, 0, 0, 0, 0, 0 },
		{ 1, 0, 0, 1, 0, 1 },
		{ 1, 3, 999, 0, 3, 6 },		/* no second axis: its value is nothing */
		{ 1, 3, 0, 1, 3, 7 },
		{ 1, 4, 0, 1, 3, 7 },		/* a level too high is the highest */
		{ 1, 0xffffffffu, 0, 255, 3, 7 },	/* a class too high is the last */
		{ 2, 0, 0, 0, 0, 0 },
		{ 2, 0, 200, 0, 1, 2 },
		{ 2, 0, 400, 1, 2, 5 },
		{ 2, 1, 0, 0, 3, 6 },
		{ 2, 3, U64_TOP, 1, 11, 23 },
		{ 2, 9, 200, 2, 10, 21 },
	};

	FOR_ROWS(cases) {
		struct ens_table t = small_table(c->n_axes);
		struct gr_params p;
		u32 state = ens_state(&t, c->level, c->second);

		cca_params_init(&p, CCA_ID_gr);
		CHECK_EQ(state, c->state);
		CHECK_EQ(t.values[ens_row_index(&t, state, c->delay_class) * t.n_columns], 1000 + 2 * c->row);
		ens_take_row(&t, state, c->delay_class, &p);
		CHECK_EQ(p.delay_threshold_us, 1000 + 2 * c->row);
		CHECK_EQ(p.bandwidth_window_us, 1001 + 2 * c->row);
		CHECK_EQ(p.adaptation_interval_us, 10000);	/* not covered: left alone */
		CHECK_EQ(p.cwnd_gain_pct, 150);
	}
}

TEST(a_state_of_another_table_is_cut_to_the_last)
{
	struct ens_table t = small_table(2);

	CHECK_EQ(ens_states(&t), 12);
	CHECK_EQ(ens_row_index(&t, 11, 1), 23);
	CHECK_EQ(ens_row_index(&t, 12, 1), 23);
	CHECK_EQ(ens_row_index(&t, 0xfffffffeu, 0), 22);
	CHECK_EQ(ens_row_index(&t, 0xfffffffeu, 0), ens_row_index(&t, 11, 0));
}

/* In force: registry "lab", channel "champion", serial 7, digest "sha256:aa". */
TEST(the_serial_of_a_channel_only_rises)
{
	static const struct {
		const char *registry, *channel, *digest;
		u64 serial;
		int result;
	} cases[] = {
		{ "lab", "champion", "sha256:aa", 7, 0 },
		{ "lab", "champion", "sha256:ab", 7, -CCA_EEXIST },
		{ "lab", "champion", "sha256:aa", 8, 1 },
		{ "lab", "champion", "sha256:ab", 8, 1 },
		{ "lab", "champion", "sha256:aa", 6, -CCA_ESTALE },
		{ "lab", "champion", "sha256:ab", 1, -CCA_ESTALE },
		{ "lab", "canary", "sha256:ab", 1, 1 },
		{ "lab", "champio", "sha256:aa", 1, 1 },
		{ "lab", "champion2", "sha256:aa", 1, 1 },
		{ "lap", "champion", "sha256:aa", 1, 1 },
		{ "gab", "champion", "sha256:aa", 1, 1 },
		{ "lab2", "champion", "sha256:aa", 7, 1 },
		{ "lab", "champion", "sha256:aa", ENS_MAX_SERIAL, 1 },
	};
	struct ens_table in_force = small_table(1);

	strcpy(in_force.registry, "lab");
	strcpy(in_force.channel, "champion");
	strcpy(in_force.digest, "sha256:aa");
	in_force.serial = 7;
	FOR_ROWS(cases) {
		struct ens_table offered = small_table(1);

		/* What stands behind a name's end is not compared. */
		memset(offered.registry, 'x', sizeof(offered.registry));
		memset(offered.channel, 'y', sizeof(offered.channel));
		memset(offered.digest, 'z', sizeof(offered.digest));
		strcpy(offered.registry, c->registry);
		strcpy(offered.channel, c->channel);
		strcpy(offered.digest, c->digest);
		offered.serial = c->serial;
		CHECK_EQ(ens_admit(&in_force, &offered), c->result);
		CHECK_EQ(ens_admit(NULL, &offered), 1);
	}
}

TEST(names_of_full_length_differ_in_their_last_character)
{
	struct ens_table in_force = small_table(1), offered;

	memset(in_force.registry, 'r', ENS_MAX_NAME);
	memset(in_force.channel, 'c', ENS_MAX_NAME);
	memset(in_force.digest, 'd', ENS_DIGEST_LEN);
	in_force.serial = 7;
	offered = in_force;
	CHECK_EQ(ens_admit(&in_force, &offered), 0);
	offered.digest[ENS_DIGEST_LEN - 1] = 'x';
	CHECK_EQ(ens_admit(&in_force, &offered), -CCA_EEXIST);
	offered.channel[ENS_MAX_NAME - 1] = 'x';
	CHECK_EQ(ens_admit(&in_force, &offered), 1);
	offered.channel[ENS_MAX_NAME - 1] = 'c';
	offered.registry[ENS_MAX_NAME - 1] = 'x';
	CHECK_EQ(ens_admit(&in_force, &offered), 1);
}

TEST(texts_of_full_length_are_compared_to_their_end)
{
	char a[ENS_MAX_NAME + 1], b[ENS_MAX_NAME + 1];

	memset(a, 'a', sizeof(a));
	memset(b, 'a', sizeof(b));
	CHECK(ens_same_text(a, b, sizeof(a)));
	b[ENS_MAX_NAME] = 'b';
	CHECK(!ens_same_text(a, b, sizeof(a)));
	CHECK(ens_same_text(a, b, 0));
}

/* Consecutive hashes, and multiples of 2^8 and 2^16 as addresses give them: the share is kept. */
TEST(the_share_held_back_is_as_asked)
{
	static const struct { u32 permille, low, high; } cases[] = {
		{ 0, 0, 0 }, { 1, 70, 130 }, { 100, 9800, 10200 }, { 500, 49800, 50200 },
		{ 999, 99800, 99999 }, { 1000, 100000, 100000 },
	};
	u32 stride, i;

	FOR_ROWS(cases) {
		struct ens_table t = small_table(1);

		t.hold_back_permille = c->permille;
		for (stride = 1; stride <= 1u << 16; stride <<= 8) {
			u32 held = 0;

			for (i = 0; i < 100000; i++)
				held += ens_held_back(&t, i * stride);
			CHECK(held >= c->low && held <= c->high);
		}
	}
}
