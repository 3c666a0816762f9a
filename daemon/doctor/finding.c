/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>

void finding_tell(struct finding_sink *sink, enum finding_grade grade, const char *what,
		  const char *remedy, const char *format, ...)
{
	struct finding f = { .grade = grade };
	va_list ap;

	snprintf(f.what, sizeof(f.what), "%s", what);
	snprintf(f.remedy, sizeof(f.remedy), "%s", remedy);
	va_start(ap, format);
	vsnprintf(f.text, sizeof(f.text), format, ap);
	va_end(ap);
	sink->take(sink, &f);
}
