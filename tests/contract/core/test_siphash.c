// SPDX-License-Identifier: MIT
/* kmod/core/siphash.h: the published vectors, and what a table of clients asks of the hash. */
#include "siphash.h"

#include "check.h"

/* The reference implementation's vector of 16 bytes 00, 01, ... under the key 00, 01, ..., 0f. */
TEST(two_words_hash_to_the_published_value)
{
	struct cca_siphash_key key = { { 0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull } };

	CHECK_EQ(cca_siphash(&key, 0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull), 0x3f2acc7f57c29bdbull);
}

/* Addresses that share a set under one key are spread under another. */
TEST(what_collides_under_one_key_does_not_under_another)
{
	struct cca_siphash_key one = { { 1, 2 } }, other = { { 1, 3 } };
	u32 i, same_set = 0, still = 0;

	for (i = 0; i < 64000; i++) {
		if (cca_siphash(&one, 0, 0xffff00000000ull | i) & 63)
			continue;
		same_set++;
		still += !(cca_siphash(&other, 0, 0xffff00000000ull | i) & 63);
	}
	CHECK(same_set > 900 && same_set < 1100);
	CHECK(still < 40);
}
