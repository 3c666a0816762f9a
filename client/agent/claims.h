/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/wire.h"

/* The claims of this process about its job: "NAME=value" for the variables that schedulers set. */

/* To be called once, on the program's own thread, because the program may change its environment
 * later. with_pid: add the pid that the process has in its own namespace. */
void claims_collect(bool with_pid);
/* The claims in the form of messages; lives as long as the process. */
struct wire_strings claims_list(void);
