/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/slurm_causes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool begins_with(const char *line, const char *begin)
{
	return strncmp(line, begin, strlen(begin)) == 0;
}

/* Lines of this executable on a node, and of srun. That a task ended with a status is no cause. */
static bool is_cause(const char *line)
{
	return strstr(line, "error[") || strstr(line, "warning[") ||
	       begins_with(line, "Nothing was measured") ||
	       (begins_with(line, "srun: error:") && !strstr(line, "Exited with exit code"));
}

void slurm_causes_note(struct slurm_causes *c, const char *line)
{
	char text[sizeof(c->lines[0])];

	if (!is_cause(line)) {
		return;
	}
	snprintf(text, sizeof(text), "%s", line);
	for (size_t i = 0; i < c->n; i++) {
		if (strcmp(c->lines[i], text) == 0) {
			return;
		}
	}
	if (c->n == SLURM_CAUSES_MAX) {
		c->more++;
		return;
	}
	memcpy(c->lines[c->n++], text, sizeof(text));
}

void slurm_causes_add(const struct slurm_causes *c, struct buf *b)
{
	for (size_t i = 0; i < c->n; i++) {
		buf_printf(b, "  %s\n", c->lines[i]);
	}
	if (c->more > 0) {
		buf_printf(b, "  and %zu more lines of this kind, above\n", c->more);
	}
}
