/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the fuzz targets share. A target is one function that takes bytes of anybody; libFuzzer
 * calls it with what it makes up, replay.c with what the corpus holds. A finding is a sanitizer's
 * report or fuzz_fail(). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process as a finding. */
#define fuzz_fail(...)                                     \
	do {                                               \
		fprintf(stderr, "fuzz_fail: "__VA_ARGS__); \
		fputc('\n', stderr);                       \
		abort();                                   \
	} while (0)

#define fuzz_check(condition)                                                   \
	do {                                                                    \
		if (!(condition)) {                                             \
			fuzz_fail("%s:%d: %s", __FILE__, __LINE__, #condition); \
		}                                                               \
	} while (0)

/* The input is consumed from its start. Beyond its end there are only zeroes. */
struct fuzz_input {
	const uint8_t *data;
	size_t size;
};

static inline const uint8_t *fuzz_take(struct fuzz_input *in, size_t n)
{
	const uint8_t *data = in->data;

	in->data += n;
	in->size -= n;
	return data;
}

static inline uint64_t fuzz_take_uint(struct fuzz_input *in, size_t bytes)
{
	uint64_t value = 0;

	if (bytes > in->size) {
		bytes = in->size;
	}
	memcpy(&value, fuzz_take(in, bytes), bytes);
	return value;
}

static inline uint8_t fuzz_take_u8(struct fuzz_input *in)
{
	return (uint8_t)fuzz_take_uint(in, 1);
}

/* Small numbers cost a byte, so that they are met often; any other costs nine. */
static inline uint64_t fuzz_take_number(struct fuzz_input *in)
{
	uint8_t first = fuzz_take_u8(in);

	return first < 0xf0 ? first : fuzz_take_uint(in, 8);
}

/* A string of at most limit bytes, free()d by the caller: up to the next zero of the input. */
static inline char *fuzz_take_text(struct fuzz_input *in, size_t limit)
{
	const uint8_t *end = memchr(in->data, 0, in->size);
	size_t n = end ? (size_t)(end - in->data) : in->size;
	char *text;

	n = n < limit ? n : limit;
	text = calloc(1, n + 1);
	if (text && n > 0) {
		memcpy(text, in->data, n);
	}
	fuzz_take(in, n < in->size && n < limit ? n + 1 : n);
	return text;
}
