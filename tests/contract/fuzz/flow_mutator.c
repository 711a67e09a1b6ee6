// SPDX-License-Identifier: MIT
/* Changes a program of flow_target.c: bytes anyhow, or operations of one put behind others. */
#include "fuzz.h"

UNGUIDED_BEGIN

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct dice d = { seed };
	uint32_t n, i;

	if (max_size > 1024)
		max_size = 1024;
	if (size > max_size)
		size = max_size;
	if (size && !dice_one_in(&d, 8))
		return LLVMFuzzerMutate(data, size, max_size);
	if (dice_one_in(&d, 2))
		size = 0;
	n = dice_below(&d, 120);
	for (i = 0; i < n && size < max_size; i++)
		data[size++] = (uint8_t)dice_roll(&d);
	return size;
}

UNGUIDED_END
