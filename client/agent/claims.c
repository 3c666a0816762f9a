/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/claims.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/utf8.h"
#include "proto/wire/limits.h"

enum {
	CLAIM_BYTES_MAX = 256,
	CLAIMS_BYTES_MAX =
		1024, /* of all claims together; the daemon refuses a process with more */
};

static struct {
	char text[LIMIT_CLAIMS][CLAIM_BYTES_MAX];
	const char *list[LIMIT_CLAIMS];
	size_t n, bytes;
} claims;

/* The most important variables first. */
static const char *const names[] = {
	"SLURM_JOB_ID=",	"SLURM_STEP_ID=",
	"SLURM_PROCID=",	"SLURM_NODEID=",
	"SLURMD_NODENAME=",	"SLURM_ARRAY_JOB_ID=",
	"SLURM_ARRAY_TASK_ID=", "SLURM_HET_JOB_ID=",
	"SLURM_RESTART_COUNT=", "PBS_JOBID=",
	"LSB_JOBID=",		"LSB_JOBINDEX=",
	"GPUCTR_JOB=",		"RANK=",
	"LOCAL_RANK=",		"OMPI_COMM_WORLD_RANK=",
	"PMIX_RANK=",		"PMI_RANK=",
	"MV2_COMM_WORLD_RANK=", "PALS_RANKID=",
	"JSM_NAMESPACE_RANK=",	"JOB_COMPLETION_INDEX=",
	"GPUCTR_POD_NAME=",	"GPUCTR_POD_NAMESPACE=",
	"GPUCTR_CLAIM_",
};

/* Leaves out a claim that does not fit; a process with fewer claims can still be captured. */
static void add(const char *text)
{
	char *claim = claims.text[claims.n];
	size_t bytes;

	if (claims.n == LIMIT_CLAIMS) {
		return;
	}
	snprintf(claim, CLAIM_BYTES_MAX, "%s", text);
	utf8_repair(claim);
	bytes = strlen(claim) + 1;
	if (claims.bytes + bytes <= CLAIMS_BYTES_MAX) {
		claims.list[claims.n++] = claim;
		claims.bytes += bytes;
	}
}

/* The pid of a process inside a container has no meaning outside. A user in the same pid namespace
 * names the process by it. */
static void add_pid(void)
{
	char text[64];
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) == 0) {
		snprintf(text, sizeof(text), "PID=%d", (int)getpid());
		add(text);
		snprintf(text, sizeof(text), "PID_NAMESPACE=%llu", (unsigned long long)st.st_ino);
		add(text);
	}
}

void claims_collect(bool with_pid)
{
	claims.n = claims.bytes = 0;
	if (with_pid) {
		add_pid();
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (char **e = environ; e && *e; e++) {
			if (strncmp(*e, names[i], strlen(names[i])) == 0 && strchr(*e, '=')) {
				add(*e);
			}
		}
	}
}

struct wire_strings claims_list(void)
{
	return (struct wire_strings){ claims.n, claims.list };
}
