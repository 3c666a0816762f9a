/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/sandbox.h"

/* For builds with sanitizers, whose runtime may make further system calls at any time. */

int sandbox_enter(enum sandbox which)
{
	return 0;
}
