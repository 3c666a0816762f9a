/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampling_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "client/cli/say.h"
#include "client/cli/text.h"

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

void sampling_tell(struct sampling *s, int code, const char *remedy, const char *format, ...)
{
	char text[SAMPLER_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (sampling_may_fall_back(s) || s->begun) {
		note(s, text);
	}
	if (sampling_may_fall_back(s)) {
		return;
	}
	if (code != GPUCTR_OK) {
		say_error(gpuctr_error_name(code), text, remedy);
	} else {
		say("%s%s%s", text, *remedy ? ". " : "", remedy);
	}
}

/* The reason for which most kernels have no value. */
static const char *most_frequent(const struct sampled_counts *c)
{
	int most = 0;

	for (int i = 1; i < SAMPLED_REASONS; i++) {
		most = c->without[i] > c->without[most] ? i : most;
	}
	return sampled_reason_name((enum sampled_reason)most);
}

void sampling_warn_of_none(const struct sampling *s, const struct sampled_counts *c)
{
	CLEAN_BUF struct buf b = { 0 };

	if (c->kernels == 0 || c->valued > 0) {
		return;
	}
	buf_text(&b, "of ");
	text_count(&b, c->kernels);
	buf_printf(&b, " kernel%s none has a value: ", c->kernels == 1 ? "" : "s");
	buf_text(&b, s->why.n > 0      ? buf_string((struct buf *)(uintptr_t)&s->why)
		     : c->samples == 0 ? "no sample has come"
				       : most_frequent(c));
	say_warning("no-values", buf_string(&b),
		    s->options->recorded
			    ? ""
			    : "Try again; --mode range measures every launch instead.");
}
