/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_CLAIMS_H
#define GPUCTR_AGENT_CLAIMS_H

#include "proto/wire/wire.h"

/* What this process says of its job: "NAME=value" of the variables that schedulers set. */

/* On the program's own thread, once: it may change its environment later. with_pid: and by which
 * number it knows itself, for who looks for it. */
void claims_collect(bool with_pid);
/* For messages; lives as long as the process. */
struct wire_strings claims_list(void);

#endif
