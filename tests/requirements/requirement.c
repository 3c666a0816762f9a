/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/requirement.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

size_t requirement_amount(size_t ci, size_t full)
{
	if (getenv("GPUCTR_TEST_FULL")) {
		return full;
	}
	if (!sanitized) {
		return ci;
	}
	return ci < 10 ? 1 : ci / 10;
}

bool requirement_times_count(void)
{
	return !sanitized;
}

bool requirement_times_hold(void)
{
	return !sanitized && getenv("GPUCTR_TEST_FULL");
}

bool requirement_cell(size_t cell, size_t one_in)
{
	return !sanitized || cell % one_in == 0;
}

void requirement_figure(const char *id, const char *format, ...)
{
	va_list ap;

	printf("%s: ", id);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("%s\n", sanitized ? " [sanitized]" : "");
	fflush(stdout);
}
