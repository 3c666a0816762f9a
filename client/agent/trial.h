/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A program may be under a seccomp filter when the agent is loaded: a container's, or its own. */

#include <stdbool.h>

/* May the agent do its work under the filters that the calling thread has? True without any. Makes
 * no call that may be forbidden: a child makes them. */
bool trial_is_passed(void);
