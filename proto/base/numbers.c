/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/numbers.h"

#include <string.h>

size_t numbers_encode(uint8_t *to, size_t max, int64_t before, int64_t number)
{
	uint64_t difference = (uint64_t)number - (uint64_t)before;
	uint64_t left = difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
	uint8_t bytes[NUMBER_BYTES_MAX];
	size_t n = 0;

	do {
		bytes[n++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
		left >>= 7;
	} while (left > 0);
	if (n > max) {
		return 0;
	}
	memcpy(to, bytes, n);
	return n;
}

bool numbers_decode(const uint8_t *from, size_t bytes, int64_t *ret, size_t max, size_t *ret_n)
{
	uint64_t number = 0, value = 0;
	unsigned shift = 0;
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (shift > 63) {
			return false;
		}
		value |= (uint64_t)(from[i] & 0x7f) << shift;
		shift += 7;
		if (from[i] & 0x80) {
			continue;
		}
		number += value >> 1 ^ (value & 1 ? UINT64_MAX : 0);
		if (n < max) {
			ret[n] = (int64_t)number;
		}
		n++;
		value = shift = 0;
	}
	*ret_n = n;
	return shift == 0;
}
