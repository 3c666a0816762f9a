/* SPDX-License-Identifier: Apache-2.0 */

/* "mpirun -n 2 gpuctr-client -- ./a.out" starts two clients that want one GPU. The first leases it,
 * its program waits for the other rank in MPI_Init(), and the second client waits for the lease.
 *
 * The second could start its program as part of the first one's capture, but then its records would
 * be in files that are named for another rank, under options that may differ, and end with the
 * first one's program. So it says how to have one capture of all ranks, and waits: ranks that do
 * not wait for each other are measured in turns. */

#include "client/cli/ranked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/procstat.h"
#include "client/cli/say.h"
#include "proto/base/clean.h"

enum { ENVIRONMENT_BYTES = 1 << 20, VARIABLES = 8192 };

struct environment {
	char text[ENVIRONMENT_BYTES];
	const char *items[VARIABLES];
};

/* Of a process of the same user's; nobody else's can be read. */
static struct claims read_claims(pid_t pid, struct environment *e)
{
	struct claims c = { .items = e->items };
	char path[32];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	file = fopen(path, "re");
	n = file ? fread(e->text, 1, sizeof(e->text) - 1, file) : 0;
	e->text[n] = '\0';
	for (size_t at = 0; at < n && c.n < VARIABLES; at += strlen(e->text + at) + 1) {
		e->items[c.n++] = e->text + at;
	}
	if (file) {
		fclose(file);
	}
	return c;
}

static bool is_same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static bool have_one_parent(pid_t client)
{
	struct procstat s;

	return procstat_read(client, &s) && s.parent == getppid();
}

bool ranked_is_beside(pid_t client)
{
	struct claims own = claims_of_self(), its;
	CLEAN_FREE struct environment *e = client > 1 ? malloc(sizeof(*e)) : NULL;

	if (!e || !claims_rank(&own)) {
		return false;
	}
	its = read_claims(client, e);
	return claims_rank(&its) && !is_same(claims_rank(&own), claims_rank(&its)) &&
	       (is_same(claims_job(&own), claims_job(&its)) || have_one_parent(client));
}

void ranked_tell(void)
{
	struct claims own = claims_of_self();

	say("the holder is another rank of the same job: if ranks wait for each other, as in "
	    "MPI_Init(), neither goes on. End them, and measure all ranks by one client: %s",
	    claims_launcher_rank(&own) || !claims_rank(&own)
		    ? "gpuctr-client ... -- mpirun -n N PROGRAM"
		    : "srun --gpuctr ... PROGRAM, or on one node gpuctr-client ... -- srun "
		      "PROGRAM");
}
