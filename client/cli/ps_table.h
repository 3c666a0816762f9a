/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "client/cli/grid.h"

/* Registered processes, a row each. */
void ps_init(struct grid *g);
void ps_add(struct grid *g, const struct gpuctr_registered_process *p);
