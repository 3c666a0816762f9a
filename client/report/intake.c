/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report/intake.h"

#include <assert.h>

#include "proto/base/clean.h"

struct groups *intake_add(struct intake *in, struct groups *g)
{
	assert(in->n < ARRAY_SIZE(in->items));
	if (g) {
		in->items[in->n++] = g;
	}
	return g;
}

int intake_begin(const struct intake *in, const struct gpuctr_plan *plan, const char *name,
		 const char *host, struct buf *why)
{
	int r = 0;

	for (size_t i = 0; i < in->n && r == 0; i++) {
		r = groups_begin(in->items[i], plan, name, why);
		r = r ? r : groups_host(in->items[i], host);
	}
	return r;
}

int intake_process(const struct intake *in, const struct gpuctr_process *process)
{
	int r = 0;

	for (size_t i = 0; i < in->n && r == 0; i++) {
		r = groups_process(in->items[i], process);
	}
	return r;
}

int intake_record(const struct intake *in, const struct gpuctr_record *record,
		  const struct attribution *what)
{
	int r = 0;

	for (size_t i = 0; i < in->n && r == 0; i++) {
		r = groups_record(in->items[i], record, what);
	}
	return r;
}
