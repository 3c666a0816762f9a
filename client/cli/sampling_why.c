/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampling_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "client/cli/say.h"

bool sampling_may_fall_back(const struct sampling *s)
{
	return s->options->may_fall_back && !s->begun;
}

static void note(struct sampling *s, const char *text)
{
	if (s->why.n == 0) {
		buf_text(&s->why, text);
	}
}

void sampling_note_why(struct sampling *s, const char *format, ...)
{
	char text[SAMPLER_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	note(s, text);
}

void sampling_tell(struct sampling *s, const char *remedy, const char *format, ...)
{
	char text[SAMPLER_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (sampling_may_fall_back(s)) {
		note(s, text);
	} else {
		say("%s%s%s", text, *remedy ? ". " : "", remedy);
	}
}
