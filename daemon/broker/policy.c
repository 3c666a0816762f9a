/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/policy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_group(const struct credentials *c, gid_t gid)
{
	if (c->gid == gid) {
		return true;
	}
	for (size_t i = 0; i < c->n_groups; i++) {
		if (c->groups[i] == gid) {
			return true;
		}
	}
	return false;
}

static bool names_cover(const struct policy_names *n, const struct credentials *c)
{
	if (n->everybody) {
		return true;
	}
	for (size_t i = 0; i < n->n_uids; i++) {
		if (n->uids[i] == c->uid) {
			return true;
		}
	}
	for (size_t i = 0; i < n->n_gids; i++) {
		if (has_group(c, n->gids[i])) {
			return true;
		}
	}
	return false;
}

/* Is c admitted to every GPU? */
static bool is_admitted(const struct policy *p, const struct credentials *c)
{
	return c->uid == 0 || c->uid == getuid() || names_cover(&p->allow, c);
}

bool policy_allows(const struct policy *p, const struct credentials *c, struct refusal *r)
{
	char remedy[384];

	if (is_admitted(p, c)) {
		return true;
	}
	for (size_t i = 0; i < p->n_rules; i++) {
		if (has_group(c, p->rules[i].gid)) {
			return true;
		}
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

static bool rule_covers(const struct policy_rule *rule, size_t index, const char *uuid)
{
	char number[24];

	snprintf(number, sizeof(number), "%zu", index);
	for (size_t i = 0; i < rule->n_gpus; i++) {
		if (strcmp(rule->gpus[i], number) == 0 || strcmp(rule->gpus[i], uuid) == 0) {
			return true;
		}
	}
	return false;
}

bool policy_allows_gpu(const struct policy *p, const struct credentials *c, size_t index,
		       const char *uuid)
{
	if (is_admitted(p, c)) {
		return true;
	}
	for (size_t i = 0; i < p->n_rules; i++) {
		if (has_group(c, p->rules[i].gid) && rule_covers(&p->rules[i], index, uuid)) {
			return true;
		}
	}
	return false;
}

static bool names_users(const struct policy_names *n)
{
	return n->everybody || n->n_uids > 0;
}

bool policy_is_one_group(const struct policy *p, gid_t *ret)
{
	gid_t group = p->allow.n_gids > 0 ? p->allow.gids[0] : (gid_t)-1;

	if (names_users(&p->allow) || names_users(&p->monitor) || p->job_owners ||
	    p->operator_captures) {
		return false;
	}
	for (size_t i = 1; i < p->allow.n_gids; i++) {
		if (p->allow.gids[i] != group) {
			return false;
		}
	}
	for (size_t i = 0; i < p->n_rules; i++) {
		if (group == (gid_t)-1) {
			group = p->rules[i].gid;
		}
		if (p->rules[i].gid != group) {
			return false;
		}
	}
	*ret = group;
	return true;
}

bool policy_monitors(const struct policy *p, const struct credentials *c)
{
	return names_cover(&p->monitor, c);
}

bool policy_names_operator(const struct policy *p, const struct credentials *c)
{
	return p->operator_captures && (c->host_root || names_cover(&p->operators, c));
}

bool policy_operates(const struct policy *p, const struct credentials *c)
{
	return c->of_host && policy_names_operator(p, c);
}

bool policy_allows_device(const struct policy *p, const struct credentials *c)
{
	return c->host_root || names_cover(&p->device, c);
}
