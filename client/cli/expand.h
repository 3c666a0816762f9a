/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "client/cli/claims.h"

/* Names of files, in which these letters are replaced:
 *
 *	%h host   %u user   %j job   %J job.step   %n node of the job   %t task   %r rank   %p pid
 *	%%
 *
 * Host (by the scheduler's name, if it has one) and user are the client's; the others are a
 * process's. An unknown value becomes "none". */

/* Returns the first letter behind a '%' in pattern that is none of these, '%' if a '%' ends
 * pattern, or 0 if pattern is right. */
char expand_wrong(const char *pattern);

/* Does pattern have one of these letters? */
bool expand_has(const char *pattern, const char *letters);

/* The length of pattern before the first of these letters; its whole length if it has none. */
size_t expand_before(const char *pattern, const char *letters);

/* The scheduler's name of this node, or else the host's name, in letters, digits, '.', '-' and '_'
 * only. The string is static. */
const char *expand_node(void);

/* Replaces the pattern's letters by the claims and the pid. In claims each character but letters,
 * digits, '.', '-' and '_' becomes '_', and so does a leading '.', so that no claim names another
 * folder. NULL: out of memory. Free with free(). */
char *expand_pattern(const char *pattern, const struct claims *claims, pid_t pid);

/* Makes the folders of path that do not exist yet. 0 or a negative errno. */
int expand_make_folders(const char *path);
