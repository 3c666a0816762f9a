/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "client/cli/claims.h"

/* Names of files with letters that are replaced:
 *
 *	%h host   %u user   %j job   %J job.step   %n node of the job   %t task   %r rank   %p pid
 *	%%
 *
 * A host (as the scheduler calls it, if there is one) and a user are ours; the others are a
 * process's. What is not known is "none". */

/* The first letter of pattern that is not one of these, or '%' for one that stands last; 0: none
 * is. */
char expand_wrong(const char *pattern);

/* Does pattern have one of these letters? */
bool expand_has(const char *pattern, const char *letters);

/* The length of pattern before the first of these letters; all of it if there is none. */
size_t expand_before(const char *pattern, const char *letters);

/* This node, as the scheduler calls it, or else the host's name; none of it but letters, digits,
 * '.', '-' and '_'. Static. */
const char *expand_node(void);

/* Replaces the pattern's letters by the claims and the pid. So that no claim names another folder,
 * each character but letters, digits, '.', '-' and '_' becomes '_', and so does a leading '.'.
 * NULL: out of memory. Free with free(). */
char *expand_pattern(const char *pattern, const struct claims *claims, pid_t pid);

/* Makes the folders of path that do not exist yet. 0 or a negative errno. */
int expand_make_folders(const char *path);
