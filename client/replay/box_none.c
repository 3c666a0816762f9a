/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/box.h"

/* Replaces box.c in builds with sanitizers, whose run time makes system calls of its own. */

int box_enter(int fd)
{
	return 0;
}
