/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BROKER_POLICY_H
#define GPUCTR_BROKER_POLICY_H

/* Who may ask. Default deny: root and the daemon's own user may always, everybody else by being
 * named or by being in a named group. Identity is what the kernel said when the peer connected. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/status.h"

enum { POLICY_NAMES_MAX = 64, POLICY_GROUPS_MAX = 256 };

struct policy {
	bool everybody;
	uid_t uids[POLICY_NAMES_MAX];
	size_t n_uids;
	gid_t gids[POLICY_NAMES_MAX];
	size_t n_gids;
	char groups_text[256]; /* names for the refusal */
};

struct credentials {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	gid_t groups[POLICY_GROUPS_MAX];
	size_t n_groups;
};

/* True, or false with r filled. */
bool policy_allows(const struct policy *p, const struct credentials *c, struct refusal *r);

#endif
