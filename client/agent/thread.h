/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stddef.h>

/* A thread of ours, with all signals blocked, to be joined or detached. stack_bytes 0: as large as
 * the program's. -errno. */
int thread_start(void *(*run)(void *), void *argument, size_t stack_bytes, pthread_t *ret);
