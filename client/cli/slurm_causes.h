/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Collects why nodes measured nothing, from the lines that they write to standard error: each cause
 * once, and a few of them. */

#include <stddef.h>

#include "proto/base/buf.h"

enum { SLURM_CAUSES_MAX = 4 };

struct slurm_causes {
	char lines[SLURM_CAUSES_MAX][256];
	size_t n,
		more; /* causes that are kept; the number of others, which may repeat each other */
};

void slurm_causes_note(struct slurm_causes *c, const char *line);
/* Appends a line for each. */
void slurm_causes_add(const struct slurm_causes *c, struct buf *b);
