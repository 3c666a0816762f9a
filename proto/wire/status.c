/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "proto/base/utf8.h"

static const struct {
	int code;
	const char *name;
} names[] = {
#include "proto/wire/status_names.h"
};

const char *status_to_string(int code)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].code == code) {
			return names[i].name;
		}
	}
	return "unknown";
}

void refusal_set(struct refusal *r, int code, const char *remedy, const char *format, ...)
{
	va_list ap;

	r->code = code;
	snprintf(r->remedy, sizeof(r->remedy), "%s", remedy);
	va_start(ap, format);
	vsnprintf(r->message, sizeof(r->message), format, ap);
	va_end(ap);
	/* Repairs text that was cut inside a character, here or by the caller. */
	utf8_repair(r->remedy);
	utf8_repair(r->message);
}

int refusal_code(uint32_t sent)
{
	return sent > 0 && sent <= INT32_MAX ? (int)sent : GPUCTR_E_PROTOCOL;
}
