/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The text of the file `flows` that modules and ccatune-bpf have in common. The includer has
 * struct ccatune_flow, and struct rtcp_member for R-TCP. It has seq_printf() and seq_puts() with
 * the kernel's meaning, and READ_ONCE() and data_race().
 *
 * Flows continue while they are shown. The numbers of a line are therefore of about the same
 * moment.
 */
#ifndef CCATUNE_SHOW_H
#define CCATUNE_SHOW_H

#include "kflow.h"

#define CCATUNE_NAMES(names) names, sizeof(names) / sizeof((names)[0])

static inline const char *ccatune_name(const char *const *names, u32 count, u32 number)
{
	return number < count ? names[number] : "-";
}

/* --- any algorithm ------------------------------------------------------------- */

/* The row of the current epoch, and what was measured in the last one. */
static inline void ccatune_show_row(struct seq_file *m, const struct ccatune_flow *flow,
				    const struct ens_clock *clock)
{
	static const char *const epoch_ends[] = {
		[ENS_WAITED] = "none",
		[ENS_LOOKED_UP] = "looked_up",
		[ENS_RAISED] = "raised",
		[ENS_KEPT] = "kept",
	};
	bool held_back = READ_ONCE(flow->group) % CCATUNE_GROUPS == CCATUNE_HELD_BACK;
	u32 state = READ_ONCE(clock->state);

	if (state == ENS_NO_STATE)
		seq_puts(m, " state=-");
	else
		seq_printf(m, " state=%u", state);
	seq_printf(m, " class=%u group=%s epoch=%u turn=%s measured_bytes_per_s=%llu",
		   READ_ONCE(clock->delay_class),
		   state == ENS_NO_STATE ? "none" : held_back ? "held_back" : "ensemble",
		   READ_ONCE(clock->epoch),
		   ccatune_name(CCATUNE_NAMES(epoch_ends), READ_ONCE(flow->epoch_end)),
		   (unsigned long long)READ_ONCE(clock->measured_bytes_per_s));
}

/* The tuned parameters in force. id: of the algorithm. */
static inline void ccatune_show_params(struct seq_file *m, u32 id, const void *params)
{
	const struct cca_param_spec *spec;
	u32 i;

	for (i = 0; i < CCA_MAX_PARAMS; i++) {
		spec = cca_param_at(id, i);
		if (!spec)
			break;
		if (spec->kind == CCA_TUNED)
			seq_printf(m, " %s=%u", spec->name, data_race(cca_param_get(params, i)));
	}
}

/* --- GR and ROCCET --------------------------------------------------------------- */

static inline const char *gr_mode(const struct gr_state *s)
{
	static const char *const modes[] = {
		[GR_SLOW_START] = "slow_start",
		[GR_CRUISE] = "cruise",
		[GR_DRAIN] = "drain",
	};

	return ccatune_name(CCATUNE_NAMES(modes), READ_ONCE(s->mode));
}

static inline const char *roccet_mode(const struct roccet_state *s)
{
	static const char *const phases[] = {
		[ROCCET_NO_PHASE] = "waiting",
		[ROCCET_LAUNCH] = "launch",
		[ROCCET_ORBITER] = "orbiter",
	};

	if (READ_ONCE(s->in_recovery))
		return "recovery";
	if (READ_ONCE(s->drains))
		return "drain";
	return ccatune_name(CCATUNE_NAMES(phases), READ_ONCE(s->phase));
}

/*
 * srrtt_q16 is at most 2^28, so the product fits into 64 bits. The sums are those of the current
 * interval, up to the end of its last round trip.
 */
static inline void roccet_show_state(struct seq_file *m, const struct roccet_state *s)
{
	seq_printf(m, " srrtt_permille=%llu jitter_us=%u",
		   (unsigned long long)READ_ONCE(s->srrtt_q16) * 1000 >> 16,
		   READ_ONCE(s->jitter_us_q4) >> 4);
	seq_printf(m, " interval_acked_pkts=%llu interval_windows_pkts=%llu launches=%u events=%u",
		   (unsigned long long)READ_ONCE(s->acked_q8) >> 8,
		   (unsigned long long)READ_ONCE(s->windows_q8) >> 8, READ_ONCE(s->launches),
		   READ_ONCE(s->events));
}

#endif /* CCATUNE_SHOW_H */
