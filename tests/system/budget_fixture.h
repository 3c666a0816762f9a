/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/system/fixture.h"

#include <math.h>
#include <signal.h>

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"
#include "tests/system/query.h"

/* What test_budget.c and test_budget_turns.c share: programs measured under a budget, and what a
 * report of them says. */

enum {
	KINDS = 8, /* of kernels */
	BYTES_A_BLOCK = 16 * 128,
	PUSH_US = 100, /* push and pop each */
	GRIDS = 3,
	LAYERS = 4, /* ranges of fakeapp's, in turn */
	UNEVEN = 7, /* launches of a stratum do 1 to 7 times the work */
	LAUNCHES = 30000,
	ENOUGH = 250, /* of them, for an error of each kernel */
};

#define BUDGET 0.05

static inline void measure(struct fixture *f, const char *budget, const char *kernels,
			   const char *grids, struct lines *l)
{
	struct program *client =
		fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--budget", budget,
			       "--seed", "7", "-o", fixture_path(f, "run.gpuctr"), "-f", "--format",
			       "jsonl", "--output", fixture_path(f, "records"), "--", FAKEAPP,
			       "--kernels", kernels, "--grids", grids, "--sleep-us", "100", NULL);

	expect_exit(client, 0);
	lines_load(l, fixture_path(f, "records"));
}

/* Of kernel k in n launches; *ret_bytes is what they read. */
static inline long launches_of(long k, long n, double *ret_bytes)
{
	long count = 0;

	*ret_bytes = 0;
	for (long i = k; i < n; i += KINDS) {
		*ret_bytes += (double)((i % GRIDS + 1) * (i % UNEVEN + 1)) * BYTES_A_BLOCK;
		count++;
	}
	return count;
}

static inline long kernel_of(const char *line)
{
	char name[64];

	line_text(line, "kernel", name, sizeof(name));
	assert_int_equal(name[0], 'k');
	return strtol(name + 1, NULL, 10);
}

/* Each launch is one of these. */
static inline void check_totals_of(const struct lines *l, long n)
{
	const char *totals = lines_at(l, "totals", 0);

	assert_int_equal((long)line_number(totals, "seen"), n);
	assert_int_equal((long)(line_number(totals, "measured") + line_number(totals, "unchosen") +
				line_number(totals, "unready")),
			 n);
}

static const char seeing_is_dear[] =
	"with the thread sanitizer seeing launches costs more than the budget";

static inline struct program *report(struct fixture *f, const char *option, const char *value)
{
	struct program *client = fixture_client(f, USER_ANN, "report",
						fixture_path(f, "run.gpuctr"), option, value, NULL);

	program_wait(client);
	return client;
}

/* To be freed. */
static inline char *output_of(struct program *p)
{
	char *found = NULL;
	size_t n = 0;
	FILE *file = fopen(p->out, "re");

	assert_non_null(file);
	assert_true(getdelim(&found, &n, '\0', file) > 0);
	fclose(file);
	return found;
}

static inline void expect_nowhere(struct program *p, const char *text)
{
	char *found = output_of(p);

	if (strstr(found, text)) {
		fail_msg("\"%s\" in %s", text, found);
	}
	free(found);
}
