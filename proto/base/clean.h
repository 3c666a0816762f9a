/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Frees local variables at the end of their scope. TAKE_PTR and TAKE_FD mark the line where
 * ownership moves on. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEAN(f) __attribute__((cleanup(f)))

static inline void clean_free(void *p)
{
	free(*(void **)p);
}

static inline void clean_fd(int *fd)
{
	if (*fd >= 0) {
		close(*fd);
	}
}

static inline void clean_file(FILE **f)
{
	if (*f) {
		fclose(*f);
	}
}

static inline void *take_ptr(void *p)
{
	void *taken = *(void **)p;

	*(void **)p = NULL;
	return taken;
}

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define CLEAN_FREE CLEAN(clean_free)
#define CLEAN_FD CLEAN(clean_fd)
#define CLEAN_FILE CLEAN(clean_file)
#define TAKE_PTR(p) ((__typeof__(p))take_ptr(&(p)))
#define TAKE_FD(fd) take_fd(&(fd))

#ifndef ARRAY_SIZE /* libiberty has the same macro */
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#endif
