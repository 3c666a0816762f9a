/* SPDX-License-Identifier: Apache-2.0 */

/* "waiting, 2nd in the queue: GPU-... is held by alice (python3, pid 4711), up to 43 s" and "12,345
 * kernels, 4,321/s, 3 processes, 12 s left". The time left is known if the capture has a duration
 * or a number of launches, but not for a number of steps: the client cannot count steps. */

#include "client/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/procstat.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

#define TERMINAL_NS UINT64_C(500000000)
#define PLAIN_NS UINT64_C(5000000000)

/* Time left by the duration or by the number of launches, the shorter of both; 0: not known. */
static uint64_t left_ns(const struct progress *p, uint64_t now, uint64_t records,
			unsigned processes, double per_second)
{
	uint64_t spent_ns = now - p->began_ns, wanted = p->wanted * processes, by_count = 0;
	uint64_t by_time = p->began_ns && p->duration_ns > spent_ns ? p->duration_ns - spent_ns : 0;

	if (wanted > records && per_second > 0) {
		by_count = (uint64_t)((double)(wanted - records) / per_second * 1e9);
	}
	return by_time && (!by_count || by_time < by_count) ? by_time : by_count;
}

/* "12,345 kernels of 20,000, 4,321/s, 3 processes, 2 s left". */
static void add_kernels(struct buf *b, const struct progress *p, uint64_t now, uint64_t records,
			unsigned processes)
{
	double per_second = (double)(records - p->records) * 1e9 / (double)(now - p->told_ns);
	uint64_t left = left_ns(p, now, records, processes, per_second);

	buf_printf(b, "%s %s%s", TEXT_COUNT(records), p->samples ? "sample" : "kernel",
		   records == 1 ? "" : "s");
	if (p->wanted > 0 && processes > 0) {
		buf_printf(b, " of %s", TEXT_COUNT(p->wanted * processes));
	}
	buf_printf(b, ", %s/s", TEXT_COUNT((uint64_t)(per_second + 0.5)));
	if (!p->samples) {
		buf_printf(b, ", %u process%s", processes, processes == 1 ? "" : "es");
	}
	if (left > 0) {
		buf_text(b, ", ");
		text_duration(b, left + 999999999);
		buf_text(b, " left");
	}
}

static bool is_due(const struct progress *p, uint64_t now)
{
	return now - p->told_ns >= (terminal_is(STDERR_FILENO) ? TERMINAL_NS : PLAIN_NS);
}

/* "waiting, number 2 in the queue: ...". */
static void add_queued(struct buf *b, const struct gpuctr_queued *queued)
{
	buf_printf(b, "waiting, number %u in the queue: %s is held by %s", queued->position,
		   queued->gpu && *queued->gpu ? queued->gpu : "the GPU",
		   queued->holder && *queued->holder ? queued->holder : "another capture");
	if (queued->holder_left_ns > 0) {
		buf_printf(b, ", for up to %llu s",
			   (unsigned long long)(queued->holder_left_ns / 1000000000u) + 1);
	}
}

static pid_t holder_pid(const struct gpuctr_queued *queued)
{
	const char *at = queued->holder ? strstr(queued->holder, ", pid ") : NULL;

	for (const char *next = at; next; next = strstr(at + 1, ", pid ")) {
		at = next; /* the last one: a program's name may hold anything */
	}
	return at ? (pid_t)strtol(at + strlen(", pid "), NULL, 10) : 0;
}

/* Is pid a gpuctr-client above us? Other holders (schedulers, notebooks) need not wait for us. */
static bool is_client_above(pid_t pid)
{
	struct procstat s = { .parent = getppid() }, own = { 0 }, holder = { 0 };

	while (s.parent > 1 && s.parent != pid && procstat_read(s.parent, &s)) {
	}
	return pid > 1 && s.parent == pid && procstat_read(getpid(), &own) &&
	       procstat_read(pid, &holder) && strcmp(own.name, holder.name) == 0;
}

/* --- ranks ----------------------------------------------------------------------------------- */

/* "mpirun -n 2 gpuctr-client -- ./a.out" starts two clients that want one GPU. The first leases it,
 * its program waits for the other rank in MPI_Init(), and the second client waits for the lease.
 *
 * The second client could let its program join the first client's capture. But then its records
 * would be in files named for another rank, would follow the first client's options, and would end
 * with the first program. So the second client prints how to measure all ranks by one capture, and
 * waits: ranks that do not wait for each other are measured in turns. */

enum { ENVIRONMENT_BYTES = 1 << 20, VARIABLES = 8192 };

struct environment {
	char text[ENVIRONMENT_BYTES];
	const char *items[VARIABLES];
};

/* Reads the environment of a process of the same user; that of other users cannot be read. */
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

static bool is_rank_beside(pid_t client)
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

static void tell_ranked(void)
{
	struct claims own = claims_of_self();

	say("the holder is another rank of the same job: if ranks wait for each other, as in "
	    "MPI_Init(), neither goes on. End them, and measure all ranks by one client: %s",
	    claims_launcher_rank(&own) || !claims_rank(&own)
		    ? "gpuctr-client ... -- mpirun -n N PROGRAM"
		    : "srun --gpuctr ... PROGRAM, or on one node gpuctr-client ... -- srun "
		      "PROGRAM");
}

/* --- lines ----------------------------------------------------------------------------------- */

bool progress_refuse_own_holder(const struct gpuctr_queued *queued)
{
	if (!is_client_above(holder_pid(queued))) {
		return false;
	}
	say_clear();
	say_error("held-by-parent",
		  "the counters are held by the gpuctr-client that started this one, and it waits "
		  "for it",
		  "Measure with one of the two, or give them different --devices.");
	return true;
}

void progress_queued(struct progress *p, const struct gpuctr_queued *queued)
{
	uint64_t now = clock_now_ns();
	CLEAN_BUF struct buf b = { 0 };

	/* A new position in the queue is always worth a line. */
	if (p->quiet || (queued->position == p->position && !is_due(p, now))) {
		return;
	}
	add_queued(&b, queued);
	say_status(buf_string(&b));
	p->position = queued->position;
	p->told_ns = now;
	if (!p->told_ranked && is_rank_beside(holder_pid(queued))) {
		p->told_ranked = true;
		tell_ranked();
	}
}

void progress_kernels(struct progress *p, uint64_t records, unsigned processes)
{
	uint64_t now = clock_now_ns();
	CLEAN_BUF struct buf b = { 0 };

	if (!p->measuring) {
		p->measuring = true;
		p->told_ns = now;
	}
	if (p->quiet || !terminal_is(STDERR_FILENO) || !is_due(p, now)) {
		return;
	}
	add_kernels(&b, p, now, records, processes);
	say_status(buf_string(&b));
	p->told_ns = now;
	p->records = records;
}
