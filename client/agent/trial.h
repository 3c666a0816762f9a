/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A program may be under a seccomp filter when the agent is loaded: a container's, or its own. */

#include <stdbool.h>

/* Can the agent work under the filters of the calling thread? True without filters. A child process
 * tries the system calls, because a forbidden one may kill. */
bool trial_is_passed(void);
