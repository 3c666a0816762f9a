/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides which users may measure which GPUs. Root and the daemon's own user may measure every GPU.
 * Everybody else must be named or be in a named group. A group with its own rule admits its members
 * only to the GPUs of that rule. Several admissions add up. The identity is from the kernel at the
 * time of connect. Pure: no clock, no loop, no lookup of names. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/wire/status.h"

enum {
	POLICY_NAMES_MAX = 64,
	POLICY_RULES_MAX = 16,
	POLICY_RULE_GPUS_MAX = 16,
	POLICY_GPU_BYTES = 48, /* an index, or "GPU-" and 36 characters */
	POLICY_TEXT_BYTES = 256,
};

struct policy_names {
	bool everybody;
	uid_t uids[POLICY_NAMES_MAX];
	size_t n_uids;
	gid_t gids[POLICY_NAMES_MAX];
	size_t n_gids;
};

/* The members of a group may measure these GPUs. */
struct policy_rule {
	gid_t gid;
	size_t n_gpus;
	char gpus[POLICY_RULE_GPUS_MAX][POLICY_GPU_BYTES]; /* index or UUID */
};

struct policy {
	struct policy_names allow;   /* may measure every GPU */
	struct policy_names monitor; /* may see the counts of all users together; may not measure */
	struct policy_names device;  /* may also have objects that count the whole GPU */
	struct policy_names operators;
	bool operator_captures; /* operators and root may capture programs of other users */
	struct policy_rule rules[POLICY_RULES_MAX];
	size_t n_rules;
	bool job_owners; /* owners of jobs may measure the job's GPUs without being named */
	char groups_text[POLICY_TEXT_BYTES]; /* names of the admitting groups, for refusals */
};

struct credentials {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	bool host_root; /* root of this machine, not of a container */
	bool of_host;	/* process outside of containers; looked up only for root and operators */
	const gid_t *groups; /* supplementary; borrowed */
	size_t n_groups;
};

/* The uid by which a user's quotas and turns are counted. Root of a container is not the machine's
 * root, so it is counted by a uid that no user has. */
#define POLICY_CONTAINER_ROOT ((uid_t)-1)

static inline uid_t policy_user(uid_t uid, bool host_root)
{
	return uid == 0 && !host_root ? POLICY_CONTAINER_ROOT : uid;
}

/* True: c may measure some GPU. False: r is filled. */
bool policy_allows(const struct policy *p, const struct credentials *c, struct refusal *r);

/* May c measure this GPU? index is the machine's, uuid its "GPU-..." */
bool policy_allows_gpu(const struct policy *p, const struct credentials *c, size_t index,
		       const char *uuid);

/* Gets the group if p lets in only its members, root and the daemon's user. False: p also lets in
 * others: named users, members of a second group, owners of jobs, or programs that operators
 * capture. If p lets in nobody else, *ret is -1, which is no group. */
bool policy_is_one_group(const struct policy *p, gid_t *ret);

/* May c see the counts of all users together? */
bool policy_monitors(const struct policy *p, const struct credentials *c);

/* Is c root or in a group of operators, and may operators capture programs of others? In a
 * container a process can take any group, so the caller must also check of_host. */
bool policy_names_operator(const struct policy *p, const struct credentials *c);

/* May c capture programs of other users? Whether c may measure at all is another question. */
bool policy_operates(const struct policy *p, const struct credentials *c);

/* Does c have the `device` entitlement? Root of the machine has it; root of a container and the
 * daemon's own user only when they are named. */
bool policy_allows_device(const struct policy *p, const struct credentials *c);
