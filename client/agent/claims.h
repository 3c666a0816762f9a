/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/wire.h"

/* The claims of this process about its job: "NAME=value" for the variables that schedulers set. */

/* To be called once, on a thread of the program's, before the program can change its environment.
 * with_pid: adds the pid that the process has in its own namespace. */
void claims_collect(bool with_pid);
/* The claims as a wire list, which lives as long as the process. */
struct wire_strings claims_list(void);
