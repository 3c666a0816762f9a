/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/claims.h"

#include <string.h>
#include <unistd.h>

struct claims claims_of_self(void)
{
	struct claims c = { .items = (const char *const *)environ };

	while (environ[c.n]) {
		c.n++;
	}
	return c;
}

const char *claims_find(const struct claims *c, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < c->n; i++) {
		if (strncmp(c->items[i], name, n) == 0 && c->items[i][n] == '=') {
			return c->items[i][n + 1] ? c->items[i] + n + 1 : NULL;
		}
	}
	return NULL;
}

const char *claims_job(const struct claims *c)
{
	static const char *const jobs[] = { "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID",
					    "GPUCTR_JOB" };
	const char *job = NULL;

	for (size_t i = 0; !job && i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		job = claims_find(c, jobs[i]);
	}
	return job;
}

const char *claims_rank(const struct claims *c)
{
	const char *rank = claims_find(c, "RANK");

	return rank ? rank : claims_find(c, "SLURM_PROCID");
}

const char *claims_task(const struct claims *c)
{
	const char *task = claims_find(c, "SLURM_PROCID");

	return task ? task : claims_find(c, "RANK");
}
