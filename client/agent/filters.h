/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The number of seccomp filters of a thread, from /proc. What a filter forbids cannot be read. */

#include <stdbool.h>
#include <sys/types.h>

enum { FILTERS_STATUS_BYTES = 16384 }; /* lists of groups and processors make the file long */

/* The filters of one thread; unknown if there is no /proc. */
struct filters {
	int mode, n; /* "Seccomp" and "Seccomp_filters" (Linux 5.9) */
};

/* The filters of the calling thread, read from a file that is opened and closed for this. */
struct filters filters_of_thread(void);
bool filters_are_known(struct filters f);

/* Filters and effective uid of another process's thread. -errno; -ENOENT: the thread has ended. */
int filters_of_task(pid_t process, pid_t thread, struct filters *ret, uid_t *ret_uid);
bool filters_differ(struct filters first, struct filters now);

/* Reads the filters from the text of a status file. */
struct filters filters_parse(const char *text);
