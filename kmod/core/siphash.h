/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * SipHash-2-4 of two 64-bit words (Aumasson and Bernstein 2012, "SipHash: a fast short-input
 * PRF"). It is a hash with a secret key. Without the key nobody can predict or choose its values.
 *
 *   v0..v3 = key ^ constants                                 (section 2.1, initialization)
 *   for each word m, and then for the message's length << 56:
 *     v3 ^= m;  two rounds;  v0 ^= m                         (compression)
 *   v2 ^= 0xff;  four rounds;  v0 ^ v1 ^ v2 ^ v3             (finalization)
 */
#ifndef CCA_SIPHASH_H
#define CCA_SIPHASH_H

#include "cca.h"

struct cca_siphash_key {
	u64 word[2];
};

CCA_FN u64 cca_rotate(u64 x, u32 bits)
{
	return x << bits | x >> (64 - bits);
}

CCA_FN void cca_sip_round(u64 v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = cca_rotate(v[1], 13) ^ v[0];
	v[3] = cca_rotate(v[3], 16) ^ v[2];
	v[0] = cca_rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = cca_rotate(v[1], 17) ^ v[2];
	v[3] = cca_rotate(v[3], 21) ^ v[0];
	v[2] = cca_rotate(v[2], 32);
}

CCA_FN void cca_sip_compress(u64 v[4], u64 word)
{
	v[3] ^= word;
	cca_sip_round(v);
	cca_sip_round(v);
	v[0] ^= word;
}

/* The message has 16 bytes: the two words, each with its lowest byte first. */
CCA_FN u64 cca_siphash(const struct cca_siphash_key *key, u64 first, u64 second)
{
	u64 v[4] = {
		key->word[0] ^ 0x736f6d6570736575ull, key->word[1] ^ 0x646f72616e646f6dull,
		key->word[0] ^ 0x6c7967656e657261ull, key->word[1] ^ 0x7465646279746573ull,
	};
	u32 i;

	cca_sip_compress(v, first);
	cca_sip_compress(v, second);
	cca_sip_compress(v, 16ull << 56);
	v[2] ^= 0xff;
	for (i = 0; i < 4; i++)
		cca_sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif /* CCA_SIPHASH_H */
