/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/summary.h"

#include <ctype.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

/* The text comes from a process that talks to users: a newline in it would end the line for
 * systemd. */
static void make_plain(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (char *p = text; *p; p++) {
		*p = isprint((unsigned char)*p) ? *p : '?';
	}
}

void supervisor_tell_systemd(struct supervisor *s)
{
	const struct control_restarts *r = &s->replaced;
	struct control_summary *c = &s->summary;
	uint64_t replaced = r->front + r->granter + r->gpu + r->planner;
	char who[256] = "No GPU is held", restarts[64] = "";

	make_plain(c->holder, sizeof(c->holder));
	make_plain(c->trouble, sizeof(c->trouble));
	if (c->trouble[0]) {
		snprintf(who, sizeof(who), "Nothing can be measured: %s", c->trouble);
	} else if (c->holders > 1) {
		snprintf(who, sizeof(who), "GPUs are held by %s and %u more", c->holder,
			 c->holders - 1);
	} else if (c->holders == 1) {
		snprintf(who, sizeof(who), "GPUs are held by %s", c->holder);
	}
	if (replaced > 0) {
		snprintf(restarts, sizeof(restarts), ", %llu workers replaced",
			 (unsigned long long)replaced);
	}
	sd_notifyf(0, "STATUS=%s%s, %u waiting; %llu permissions granted, %llu records dropped%s.",
		   c->audit_fails ? "THE AUDIT LOG CANNOT BE WRITTEN, nothing is granted. " : "",
		   who, c->waiting, (unsigned long long)c->granted, (unsigned long long)c->dropped,
		   restarts);
}
