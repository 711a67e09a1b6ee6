/* SPDX-License-Identifier: GPL-2.0 */
/* The operations of the adapter's mode, which must be the algorithm's in params.def. */
#ifndef CCATUNE_MODE_OPS_H
#define CCATUNE_MODE_OPS_H

#if ALG_WINDOW
#include "window_ops.h"
#else
#include "control_ops.h"
#endif

enum {
	ALG_MODE_CONTROL = 0,
	ALG_MODE_WINDOW = 1,
};

#define CCA_ONLY CCATUNE_ID
#define CCA_ALGORITHM(name, mode, host, meaning) \
	_Static_assert(ALG_WINDOW == ALG_MODE_##mode, "the adapter of " #name " has another mode");
#include "params.def"

#endif /* CCATUNE_MODE_OPS_H */
