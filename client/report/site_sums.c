/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report/site_sums.h"

#include <stdio.h>
#include <stdlib.h>

struct groups *site_sums_new(void)
{
	static const struct keys by_site = { .keys = { KEY_CALL_SITE }, .n = 1, .nested = -1 };

	return groups_new(&by_site);
}

int site_sums_record(struct groups *sites, const struct stack_frame *frame,
		     const struct gpuctr_record *record)
{
	char site[24];
	int r;

	snprintf(site, sizeof(site), "%zu", frame->number);
	r = groups_at(sites, site);
	return r ? r : groups_record(sites, record, NULL);
}

struct stack_frame *site_sums_frame(const struct stack_frames *frames, const struct group *row)
{
	return frames->ends[strtoull(row->labels[0], NULL, 10)];
}
