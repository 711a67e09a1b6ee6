/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The maximum over a sliding window, computed from three samples (Nichols'
 * windowed filter, named by draft-ietf-ccwg-bbr-06, section 5.5.5).
 *
 *   best[0] >= best[1] >= best[2]    in the order of their times
 *
 * best[0] is the maximum. The others are the largest values since then, in later
 * parts of the window. They replace best[0] when it becomes too old. The result is
 * never above the true maximum of the window, and never below the newest value. It
 * may be below the true maximum for part of a window, since only three values are kept.
 */
#ifndef CCA_WINDOW_MAX_H
#define CCA_WINDOW_MAX_H

#include "cca.h"

struct cca_window_max {
	struct {
		u64 value;
		u32 at;		/* a time or count, for example of round trips; may wrap */
	} best[3];
};

CCA_FN void cca_max_put(struct cca_window_max *m, u32 first, u32 at, u64 value)
{
	u32 i;

	for (i = first; i < 3; i++) {
		m->best[i].value = value;
		m->best[i].at = at;
	}
}

CCA_FN void cca_max_reset(struct cca_window_max *m, u32 at, u64 value)
{
	cca_max_put(m, 0, at, value);
}

CCA_FN u64 cca_max_of(const struct cca_window_max *m)
{
	return m->best[0].value;
}

/* Drops best[0], which is too old. The others move up, and the newest value becomes the last. */
CCA_FN void cca_max_drop(struct cca_window_max *m, u32 at, u64 value)
{
	m->best[0] = m->best[1];
	m->best[1] = m->best[2];
	cca_max_put(m, 2, at, value);
}

/* Adds a value and returns the maximum. at: never decreases. window: in the unit of at. */
CCA_FN u64 cca_max_add(struct cca_window_max *m, u32 window, u32 at, u64 value)
{
	if (value >= m->best[0].value || at - m->best[2].at > window)
		cca_max_put(m, 0, at, value);
	else if (value >= m->best[1].value)
		cca_max_put(m, 1, at, value);
	else if (value >= m->best[2].value)
		cca_max_put(m, 2, at, value);

	if (at - m->best[0].at > window) {
		cca_max_drop(m, at, value);
		if (at - m->best[0].at > window)
			cca_max_drop(m, at, value);
	} else if (m->best[1].at == m->best[0].at && at - m->best[0].at > window / 4) {
		/* A quarter of the window has passed without a second best: take this value. */
		cca_max_put(m, 1, at, value);
	} else if (m->best[2].at == m->best[1].at && at - m->best[1].at > window / 2) {
		cca_max_put(m, 2, at, value);
	}
	return cca_max_of(m);
}

#endif /* CCA_WINDOW_MAX_H */
