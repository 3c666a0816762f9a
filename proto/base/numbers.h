/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Encodes a list of similar numbers in few bytes. Each number is the difference from the one
 * before, with the sign in the lowest bit, in groups of seven bits, the lowest group first. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_BYTES_MAX = 10 };

/* Writes number behind a list that ends with `before` (0: the list is empty); returns the number of
 * bytes written, at most max. 0: no room. */
size_t numbers_encode(uint8_t *to, size_t max, int64_t before, int64_t number);

/* Reads up to max numbers into ret, and sets *ret_n to their number. False: malformed. */
bool numbers_decode(const uint8_t *from, size_t bytes, int64_t *ret, size_t max, size_t *ret_n);
