/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/policy.h"

#include <stdio.h>
#include <unistd.h>

static bool has_gid(const struct policy *p, gid_t gid)
{
	for (size_t i = 0; i < p->n_gids; i++) {
		if (p->gids[i] == gid) {
			return true;
		}
	}
	return false;
}

static bool is_named(const struct policy *p, const struct credentials *c)
{
	if (p->everybody || c->uid == 0 || c->uid == getuid()) {
		return true;
	}
	for (size_t i = 0; i < p->n_uids; i++) {
		if (p->uids[i] == c->uid) {
			return true;
		}
	}
	if (has_gid(p, c->gid)) {
		return true;
	}
	for (size_t i = 0; i < c->n_groups; i++) {
		if (has_gid(p, c->groups[i])) {
			return true;
		}
	}
	return false;
}

bool policy_allows(const struct policy *p, const struct credentials *c, struct refusal *r)
{
	char remedy[384];

	if (is_named(p, c)) {
		return true;
	}
	if (p->groups_text[0] != '\0') {
		snprintf(remedy, sizeof(remedy),
			 "Ask the administrator to add you to the group %s, then log in again.",
			 p->groups_text);
	} else {
		snprintf(
			remedy, sizeof(remedy),
			"Ask the administrator to name you or a group of yours in gpucountd.conf.");
	}
	refusal_set(r, GPUCTR_E_NOT_ALLOWED, remedy, "uid %u may not measure on this machine",
		    (unsigned)c->uid);
	return false;
}
