/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/sandbox.h"

/* For builds with sanitizers, whose run time makes system calls of its own at any moment. */

int sandbox_enter(enum sandbox which)
{
	(void)which;
	return 0;
}
