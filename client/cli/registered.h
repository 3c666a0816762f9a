/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "client/cli/grid.h"
#include "proto/base/json.h"

/* Programs in standby: a table with a row each, or a list of JSON objects. */
void registered_table(struct grid *g);
void registered_row(struct grid *g, const struct gpuctr_registered_process *p);
void registered_json(struct json *m, const struct gpuctr_registered_process *p);
