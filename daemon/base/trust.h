/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* May a path be relied on? What root opens for others must be neither a file that somebody else
 * wrote nor in a folder in which somebody else can exchange files. Trusted are root and one more
 * user, the one who started us. */

#include <stddef.h>
#include <sys/types.h>

/* Can only root and user replace what path leads to? Links are followed; the question is asked of
 * the folder and of every folder above it. A folder that others may write is fine when it is
 * sticky, as /tmp is: there everybody moves only files of their own. 0, with the folder's path
 * without links in ret_real (PATH_MAX bytes, or NULL); -errno, with the reason and the remedy in
 * error. */
int trust_check_folder(const char *path, uid_t user, char *ret_real, char *error, size_t size);

/* The same for a file: was what fd has open, under the name path, written by nobody but root and
 * user, and does it lie in such a folder? */
int trust_check_file(int fd, const char *path, uid_t user, char *error, size_t size);
