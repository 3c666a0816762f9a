/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/box.h"

/* Replaces box.c in builds with sanitizers, whose run time traces the process at its end. */

void box_enter(void)
{
}
