/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks whether a path can be trusted. A file that root opens must not be writable by others, nor
 * be in a folder in which others can replace files. Trusted users are root and the user who started
 * the daemon. */

#include <stddef.h>
#include <sys/types.h>

/* Can only root and user replace what path leads to? Follows links, and checks the folder and every
 * folder above it. A folder that others may write is trusted if it is sticky, like /tmp: there
 * users can move only their own files. 0, with the folder's path without links in ret_real
 * (PATH_MAX bytes, or NULL); -errno, with the reason and the remedy in error. */
int trust_check_folder(const char *path, uid_t user, char *ret_real, char *error, size_t size);

/* Is the file that fd has open under the name path writable only by root and user, and is it in a
 * trusted folder? */
int trust_check_file(int fd, const char *path, uid_t user, char *error, size_t size);
