/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parses lists of users, groups and GPUs in settings. Names are looked up here, once, by the
 * supervisor: the front never asks a name service. Every function returns 0, -ENOMEM, or -EINVAL
 * with the fault and its correction in error; or NAMES_E_NOBODY with unknown names in error after
 * adding all others: people leave, and leaving out a name gives nobody a right. */

#include <stddef.h>

#include "daemon/broker/policy.h"

enum { NAMES_E_NOBODY = 1 };

/* "alice, bob 1005", or "*" alone. */
int names_add_users(struct policy_names *n, const char *value, char *error, size_t size);

/* "gpu render 44"; appends the names to text of POLICY_TEXT_BYTES, which may be NULL. */
int names_add_groups(struct policy_names *n, const char *value, char *text, char *error,
		     size_t size);

/* "GROUP GPU...". */
int names_add_rule(struct policy *p, const char *value, char *error, size_t size);
