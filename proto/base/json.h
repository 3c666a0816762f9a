/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_JSON_H
#define GPUCTR_BASE_JSON_H

/* Writes one flat JSON object into a buffer, key by key. The first failure is remembered and
 * reported at the end, so callers need not check each call. Text is made valid UTF-8: what is not
 * becomes U+FFFD, and control characters, those of C1 too, are escaped. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/buffer.h"

struct json {
	struct buffer *out;
	int error; /* 0, or -ENOMEM */
	size_t n;  /* keys so far */
};

void json_begin(struct json *j, struct buffer *out);
void json_text(struct json *j, const char *key, const char *value);
void json_number(struct json *j, const char *key, uint64_t value);
void json_texts(struct json *j, const char *key, const char *const *values, size_t n);
int json_end(struct json *j);

#endif
