/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/members.h"

#include <math.h>

#include "client/cli/text.h"

void members_add(struct members *m, const struct buf *text)
{
	if (text->n > 0) {
		members_key(m, NULL);
		buf_add(m->b, text->data, text->n);
	}
	m->b->failed |= text->failed;
}

void members_key_text(struct members *m, const char *key)
{
	members_key(m, NULL);
	text_json(m->b, key);
	buf_char(m->b, ':');
}

void members_text(struct members *m, const char *key, const char *value)
{
	members_key(m, key);
	text_json(m->b, value);
}

void members_text_or_null(struct members *m, const char *key, const char *value)
{
	if (value && *value) {
		members_text(m, key, value);
	} else {
		members_null(m, key);
	}
}

void members_texts(struct members *m, const char *key, const char *const *values, size_t n)
{
	members_begin(m, key, '[');
	for (size_t i = 0; i < n; i++) {
		members_text(m, NULL, values[i]);
	}
	members_end(m, ']');
}

void members_double(struct members *m, const char *key, double value)
{
	if (isfinite(value)) {
		members_key(m, key);
		buf_double(m->b, value);
	} else {
		members_null(m, key);
	}
}
