/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_TRUST_H
#define GPUCTR_BASE_TRUST_H

/* May a path be relied on? What root opens for others must not be a file that somebody else wrote
 * or a place where somebody else decides what stands under a name. Trusted are root and one more
 * user, the one who started us. */

#include <stddef.h>
#include <sys/types.h>

/* Can nobody but root and user put something else in the place of what path leads to? Links are
 * followed; this is asked of the folder and of each that it lies in. A folder that others may write
 * is fine when it is sticky, as /tmp is: there everybody moves only what is theirs. 0, with the
 * folder's path without links in ret_real (PATH_MAX bytes, or NULL); -errno, with the reason and
 * the remedy in error. */
int trust_check_folder(const char *path, uid_t user, char *ret_real, char *error, size_t size);

/* Is what fd has open, under the name path, written by nobody but root and user, and does it lie in
 * such a folder? */
int trust_check_file(int fd, const char *path, uid_t user, char *error, size_t size);

#endif
