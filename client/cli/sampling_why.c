/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampling_internal.h"

#include <stdarg.h>
#include <stdio.h>

void sampling_note_why(struct sampling *s, const char *format, ...)
{
	char text[SAMPLER_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (s->why.n == 0) {
		buf_text(&s->why, text);
	}
}

bool sampling_may_fall_back(const struct sampling *s)
{
	return s->options->may_fall_back && !s->begun;
}
