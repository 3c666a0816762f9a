/* SPDX-License-Identifier: Apache-2.0 */

/* A process has an item once it is chosen, or when it attaches as a child of the program. The
 * capture file holds the figures of processes; ranks add why kernels were not measured. */

#include "client/cli/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/claims.h"
#include "client/cli/procstat.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "proto/base/clock.h"

#define STOPPED "stopped, by a signal or a debugger"

/* Most processes that are reported, because a program may have any number of children; chosen
 * processes are all reported. */
enum { TOLD_MAX = 20 };

struct rank {
	char rank[32], program[64], note[64];
	unsigned process; /* number in the capture; 0: the process has not attached */
	unsigned pid;	  /* pid in the daemon's pid namespace */
	unsigned own_pid; /* pid in the client's pid namespace */
	bool answered, ended, stopped, left_out;
	bool speechless, runs_on;    /* ended without a goodbye; the process is still there */
	uint64_t uncounted_ns;	     /* speechless: how old its last counts were */
	struct gpuctr_totals totals; /* of a process that has ended */
};

void ranks_deinit(struct ranks *r)
{
	free(r->items);
	*r = (struct ranks){ 0 };
}

/* process 0: finds the expected process with this pid. */
static struct rank *find(const struct ranks *r, unsigned process, unsigned pid)
{
	for (size_t i = r->n; i > 0; i--) {
		struct rank *row = &r->items[i - 1];

		if (row->process == process && (process != 0 || row->pid == pid)) {
			return row;
		}
	}
	return NULL;
}

static struct rank *add(struct ranks *r)
{
	struct rank *items = realloc(r->items, (r->n + 1) * sizeof(*items));

	if (!items) {
		return NULL;
	}
	r->items = items;
	items[r->n] = (struct rank){ 0 };
	return &items[r->n++];
}

static void name(struct rank *row, unsigned pid, const char *rank, const char *program)
{
	row->pid = pid;
	row->own_pid = row->own_pid ? row->own_pid : pid;
	snprintf(row->rank, sizeof(row->rank), "%s", rank && *rank ? rank : "-");
	snprintf(row->program, sizeof(row->program), "%s", program);
}

void ranks_expect(struct ranks *r, const struct chosen *chosen)
{
	struct rank *row = add(r);

	if (row) {
		row->own_pid = chosen->own_pid;
		name(row, chosen->pid, chosen->rank, chosen->program);
	}
}

void ranks_process(struct ranks *r, const struct gpuctr_process *process)
{
	struct claims claims = { process->claims, process->n_claims };
	struct rank *row = find(r, process->process, 0);

	row = row ? row : find(r, 0, process->pid);
	row = row ? row : add(r);
	if (row) {
		row->process = process->process;
		row->answered = row->answered || (process->cupti && *process->cupti);
		name(row, process->pid, claims_rank(&claims), process->program);
	}
}

void ranks_leave_out(struct ranks *r, unsigned pid, const char *why)
{
	struct rank *row = find(r, 0, pid);

	if (row) {
		row->left_out = true;
		snprintf(row->note, sizeof(row->note), "%s", why);
	}
}

void ranks_notice(struct ranks *r, const struct gpuctr_notice *notice)
{
	struct rank *row = notice->process ? find(r, notice->process, 0) : NULL;

	/* Kernels that a filter left out are counted, so they need no note. */
	if (row && !*row->note && notice->error.code != GPUCTR_OK &&
	    notice->error.code != GPUCTR_E_KERNEL_NO_MATCH) {
		snprintf(row->note, sizeof(row->note), "%s", gpuctr_error_name(notice->error.code));
	}
}

void ranks_process_end(struct ranks *r, const struct gpuctr_process_end *end)
{
	struct rank *row = find(r, end->process, 0);
	struct procstat stat;

	if (!row) {
		return;
	}
	row->ended = true;
	row->totals = end->totals;
	if (!end->clean) {
		row->runs_on = procstat_read((pid_t)row->own_pid, &stat) && !stat.exiting;
		row->stopped = row->runs_on && procstat_is_stopped(&stat);
		row->speechless = !row->stopped;
		row->uncounted_ns = end->uncounted_ns;
	}
}

bool ranks_are_speechless(const struct ranks *r)
{
	bool any = false;

	for (size_t i = 0; i < r->n; i++) {
		any = any || r->items[i].speechless;
	}
	return any;
}

bool ranks_none_answered(const struct ranks *r)
{
	bool none = r->n > 0;

	for (size_t i = 0; i < r->n; i++) {
		none = none && !r->items[i].answered;
	}
	return none;
}

void ranks_look(struct ranks *r, ranks_on_stopped on_stopped, void *userdata)
{
	for (size_t i = 0; i < r->n; i++) {
		struct rank *row = &r->items[i];
		struct procstat stat;
		bool stopped = !row->ended && !row->left_out &&
			       procstat_read((pid_t)row->own_pid, &stat) &&
			       procstat_is_stopped(&stat);

		if (stopped && !row->stopped) {
			on_stopped(row->own_pid, row->program, userdata);
		}
		row->stopped = stopped;
	}
}

void ranks_look_for_silent(const struct ranks *r, ranks_on_stopped on_silent, void *userdata)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct rank *row = &r->items[i];

		if (row->process != 0 && !row->answered && !row->ended && !row->stopped) {
			on_silent(row->own_pid, row->program, userdata);
		}
	}
}

/* --- the end --------------------------------------------------------------------------------- */

static void add_part(struct buf *b, uint64_t n, const char *what)
{
	if (n > 0) {
		buf_printf(b, ", %s %s", TEXT_COUNT(n), what);
	}
}

/* Describes a process that has not said goodbye, by what it does now. */
static const char *look_after(const struct rank *row)
{
	struct procstat stat;
	bool there = procstat_read((pid_t)row->own_pid, &stat);

	if (there && procstat_is_stopped(&stat)) {
		return STOPPED;
	}
	return row->answered ? "its last word did not come"
	       : there	     ? "did not answer"
			     : "had ended";
}

/* Rounds up to tenths of a second. */
static double seconds_up(uint64_t ns)
{
	const uint64_t tenth_ns = CLOCK_NS_PER_S / 10;

	return (double)(ns / tenth_ns + 1) / 10;
}

/* Appends how a process has ended, if not as it should. A process that was killed, called _exit()
 * or closed the agent's descriptors may have launched kernels that nobody has counted. */
static void add_end(struct buf *b, const struct rank *row, const char *separator)
{
	if (row->speechless && row->runs_on) {
		buf_printf(
			b,
			"%slost its connection and runs on: it may have closed descriptors that "
			"are not its own, or have become another program; launches of the %.1f s "
			"before that, and all later ones, may be in no figure",
			separator, seconds_up(row->uncounted_ns));
	} else if (row->speechless) {
		buf_printf(b,
			   "%sended without a last word: launches of its last %.1f s may be in no "
			   "figure",
			   separator, seconds_up(row->uncounted_ns));
	} else if (row->stopped) {
		buf_printf(b, "%s" STOPPED, separator);
	} else if (!row->ended && !row->left_out) {
		buf_printf(b, "%s%s", separator, look_after(row));
	}
}

void ranks_describe(const struct ranks *r, size_t i, struct buf *b)
{
	const struct rank *row = &r->items[i];
	const struct gpuctr_totals *t = &row->totals;
	const char *separator = ": ";

	buf_printf(b, "rank %s, process %u (%s)", row->rank, row->pid, row->program);
	if (row->ended) {
		buf_printf(b, ": %s kernel%s", TEXT_COUNT(t->seen), t->seen == 1 ? "" : "s");
		add_part(b, t->measured, "measured");
		add_part(b, t->filtered, "filtered");
		add_part(b, t->capturing, "into graphs");
		add_part(b, t->unready, "not ready");
		add_part(b, t->failed, "failed");
		add_part(b, t->dropped, "dropped");
		add_part(b, t->lost, "not delivered");
		separator = "; ";
	}
	if (*row->note) {
		buf_printf(b, "%s%s", separator, row->note);
		separator = "; ";
	}
	add_end(b, row, separator);
}

/* Is there nothing to report of a process? alone: it is the only one, so totals show its losses. */
static bool is_well(const struct rank *row, bool alone)
{
	const struct gpuctr_totals *t = &row->totals;

	return row->ended && !row->speechless && !row->stopped &&
	       (alone || (!*row->note && t->unready + t->failed + t->dropped + t->lost == 0));
}

void ranks_tell(const struct ranks *r, bool each)
{
	size_t told = 0, more = 0;

	for (size_t i = 0; i < r->n; i++) {
		CLEAN_BUF struct buf b = { 0 };

		if (is_well(&r->items[i], r->n == 1) && !(each && r->n > 1)) {
			continue;
		}
		if (told == TOLD_MAX && !each) {
			more++;
			continue;
		}
		ranks_describe(r, i, &b);
		say("%s", buf_string(&b));
		told++;
	}
	if (more > 0) {
		say("and %zu process%s more", more, more == 1 ? "" : "es");
	}
}
