/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_WIRE_FEATURE_H
#define GPUCTR_WIRE_FEATURE_H

/* What one release of the protocol's version 1 knows and another does not. A side that is asked for
 * what it does not know would skip the field and do something else, so it is not asked. */

#include "proto/wire/wire.h"

/* The bits of PROTO_FEATURES_MEASURING that a selection needs; captured: processes in standby. */
uint32_t feature_needs(const struct wire_selection *s, bool captured);

/* The same, of a plan. */
uint32_t feature_needs_plan(const struct wire_plan *p);

/* "budgets": the first of these features in words. Static. */
const char *feature_describe(uint32_t features);

#endif
