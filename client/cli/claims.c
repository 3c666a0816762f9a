/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/claims.h"

#include <stdio.h>
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

static const char *first_of(const struct claims *c, const char *const *names, size_t n)
{
	const char *value = NULL;

	for (size_t i = 0; !value && i < n; i++) {
		value = claims_find(c, names[i]);
	}
	return value;
}

const char *claims_job(const struct claims *c)
{
	static const char *const names[] = { "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID",
					     "GPUCTR_JOB" };

	return first_of(c, names, sizeof(names) / sizeof(names[0]));
}

/* In LSF all elements of a job array share the array's id; in PBS each has an id of its own. */
const char *claims_element(const struct claims *c)
{
	const char *index = claims_find(c, "LSB_JOBINDEX"), *job = claims_job(c);

	return index && strcmp(index, "0") != 0 && job && job == claims_find(c, "LSB_JOBID") ? index
											     : NULL;
}

bool claims_job_text(const struct claims *c, char *text, size_t size)
{
	const char *job = claims_job(c), *element = claims_element(c);

	snprintf(text, size, "%s%s%s%s", job ? job : "", element ? "[" : "", element ? element : "",
		 element ? "]" : "");
	return job != NULL;
}

/* Slurm gives steps that srun did not start the highest numbers (slurm.h: SLURM_INTERACTIVE_STEP,
 * ...), and a batch script no number. */
const char *claims_step(const struct claims *c)
{
	static const char *const special[][2] = { { "4294967290", "interactive" },
						  { "4294967291", "batch" },
						  { "4294967292", "extern" } };
	const char *step = claims_find(c, "SLURM_STEP_ID");

	if (!step) {
		return claims_find(c, "SLURM_JOB_ID") ? "batch" : NULL;
	}
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
		if (strcmp(step, special[i][0]) == 0) {
			return special[i][1];
		}
	}
	return step;
}

/* The launcher nearest to the program knows best, hence this order: torchrun; mpirun of Open MPI,
 * of PMIx, of MPICH and Intel MPI, of MVAPICH2; the task launchers of PBS and LSF; an indexed job
 * of Kubernetes. */
const char *claims_launcher_rank(const struct claims *c)
{
	static const char *const names[] = { "RANK",
					     "OMPI_COMM_WORLD_RANK",
					     "PMIX_RANK",
					     "PMI_RANK",
					     "MV2_COMM_WORLD_RANK",
					     "PALS_RANKID",
					     "JSM_NAMESPACE_RANK",
					     "JOB_COMPLETION_INDEX" };

	return first_of(c, names, sizeof(names) / sizeof(names[0]));
}

const char *claims_rank(const struct claims *c)
{
	const char *rank = claims_launcher_rank(c);

	return rank ? rank : claims_find(c, "SLURM_PROCID");
}

const char *claims_task(const struct claims *c)
{
	const char *task = claims_find(c, "SLURM_PROCID");

	return task ? task : claims_rank(c);
}

void claims_json(const struct claims *c, struct json *j)
{
	json_begin(j, "claims", '{');
	for (size_t i = 0; i < c->n; i++) {
		const char *equals = strchrnul(c->items[i], '=');
		CLEAN_BUF struct buf name = { 0 };

		buf_add(&name, c->items[i], (size_t)(equals - c->items[i]));
		json_key_text(j, buf_string(&name));
		json_string(j->b, *equals ? equals + 1 : "");
		j->b->failed |= name.failed;
	}
	json_end(j, '}');
}
