/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_PS_TABLE_H
#define CLIENT_CLI_PS_TABLE_H

#include <gpuctr/gpuctr.h>

#include "client/cli/grid.h"

/* Registered processes, a row each. */
void ps_init(struct grid *g);
void ps_add(struct grid *g, const struct gpuctr_registered_process *p);

#endif
