/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/journal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

void journal_begin(struct journal_entry *e)
{
	e->used = e->n = 0;
}

void journal_add(struct journal_entry *e, const char *format, ...)
{
	size_t room = sizeof(e->text) - e->used;
	va_list ap;
	int n;

	if (e->n == JOURNAL_FIELDS_MAX || room < 2) {
		return;
	}
	va_start(ap, format);
	n = vsnprintf(e->text + e->used, room, format, ap);
	va_end(ap);
	if (n < 0) {
		return;
	}
	e->begins[e->n++] = e->used;
	e->used += (size_t)n < room ? (size_t)n : room - 1;
}

int journal_send(const struct journal_entry *e)
{
	struct iovec v[JOURNAL_FIELDS_MAX];

	for (size_t i = 0; i < e->n; i++) {
		size_t end = i + 1 < e->n ? e->begins[i + 1] : e->used;

		v[i] = (struct iovec){ (char *)(uintptr_t)e->text + e->begins[i],
				       end - e->begins[i] };
	}
	return sd_journal_sendv(v, (int)e->n);
}
