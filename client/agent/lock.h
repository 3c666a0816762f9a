/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_LOCK_H
#define GPUCTR_AGENT_LOCK_H

/* A mutex that is waited for until a time of CLOCK_MONOTONIC, so that a clock which is set, or a
 * holder that never lets go, keeps no program from its end. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* True: locked, to be unlocked by pthread_mutex_unlock(). by_ns in the past: only if it is free. */
bool lock_until(pthread_mutex_t *m, uint64_t by_ns);

#endif
