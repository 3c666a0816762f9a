/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan of one metric, for tests of its samples. */

#include <gpuctr/gpuctr.h>

static const struct gpuctr_column columns[] = { { "dram__bytes_read.sum", "byte", 0 } };
static const char *const metrics[] = { "dram__bytes_read.sum" };
static const struct gpuctr_term terms[] = { { 0, 0, 1 } };
static const struct gpuctr_plan plan = { .chip = "GH100",
					 .passes = 1,
					 .groups = 1,
					 .columns = columns,
					 .n_columns = 1,
					 .metrics = metrics,
					 .n_metrics = 1,
					 .terms = terms,
					 .n_terms = 1 };
