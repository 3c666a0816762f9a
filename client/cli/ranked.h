/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Are this client and that one, of the same user, ranks of one launcher? False: or nobody may know.
 */
bool ranked_is_beside(pid_t client);

/* Reports what to do then. */
void ranked_tell(void);
