/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "tests/requirements/requirement.h"
#include "tests/system/recorder.h"

/* R18: records arrive whole and in order. Eight programs at a time, each on a GPU of its own,
 * launch kernels whose every field follows from the launch's number, under one capture. They are
 * killed at odd moments and others are started in their place. The records of each process are
 * those of its launches, one after the other, each as it must be; where some are missing, the
 * totals say so. */

enum {
	WRITERS = 8,
	REPLACED = 16, /* in a round */
	KERNELS = 10000,
	PERIOD = 97 * 8, /* after so many launches they look the same again */
	PROCESSES_MAX = 4096,
};

struct sequence {
	uint64_t records;
	uint64_t next; /* launch that the next record is of, if none is missing */
	uint64_t missing;
};

struct reading {
	struct sequence of[PROCESSES_MAX];
	uint64_t records, corrupt, reordered, missing, undeclared;
	uint64_t clean, killed, lost;
};

/* See tests/fake/README.md. */
static bool is_launch(const struct gpuctr_record *r, uint64_t launch)
{
	const uint32_t grid = (uint32_t)(launch % 97) + 1;
	char name[16];

	snprintf(name, sizeof(name), "_Z2k%uPf", (unsigned)(launch % 8));
	return r->grid[0] == grid && r->grid[1] == 1 && r->grid[2] == 1 && r->block[0] == 128 &&
	       r->block[1] == 1 && r->block[2] == 1 && strcmp(r->kernel->mangled, name) == 0 &&
	       r->values[0] == 16.0 * 128 * grid;
}

static void on_record(struct recorder *r, const struct gpuctr_record *record)
{
	struct reading *w = r->userdata;
	struct sequence *s = &w->of[record->process % PROCESSES_MAX];
	uint64_t launch = s->next;

	w->records++;
	w->reordered += record->index != s->records++;
	while (launch < s->next + PERIOD && !is_launch(record, launch)) {
		launch++;
	}
	if (launch == s->next + PERIOD) {
		w->corrupt++; /* is no launch at all */
		return;
	}
	s->missing += launch - s->next;
	s->next = launch + 1;
}

static void on_process_end(struct recorder *r, const struct gpuctr_process_end *end)
{
	const struct gpuctr_totals *t = &end->totals;
	struct reading *w = r->userdata;
	struct sequence *s = &w->of[end->process % PROCESSES_MAX];

	expect_balance(t);
	w->clean += end->clean;
	w->killed += !end->clean;
	w->lost += t->lost;
	w->missing += s->missing;
	w->undeclared += s->records != t->measured;
	w->undeclared += s->missing > t->dropped + t->failed + t->unready;
	w->undeclared += end->clean && t->seen != KERNELS;
	w->undeclared += end->clean && t->lost != 0;
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static struct program *start_writer(struct recorder *r, struct fixture *f, unsigned gpu)
{
	char visible[8];

	snprintf(visible, sizeof(visible), "%u", gpu);
	setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	return recorder_start(r, f, FAKEAPP, "--kernels", "10000", "--sleep-us", "20", NULL);
}

static bool has_ended(struct program *p)
{
	if (p->pid > 0 && waitpid(p->pid, &p->status, WNOHANG) == p->pid) {
		p->pid = 0;
	}
	return p->pid == 0;
}

/* It may have ended by itself just now. */
static void kill_writer(struct program *p)
{
	if (!has_ended(p)) {
		program_kill(p, SIGKILL);
		program_wait(p);
	}
}

/* Kills a writer after a moment and starts another, again and again; the last ones end by
 * themselves. */
static void play_round(struct recorder *r, struct fixture *f, uint64_t *random)
{
	struct program *writers[WRITERS];
	size_t first = f->n_programs;

	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = start_writer(r, f, i);
	}
	for (int i = 0; i < REPLACED; i++) {
		unsigned which = (unsigned)(next_random(random) % WRITERS);

		recorder_for(r, (unsigned)(next_random(random) % 150));
		kill_writer(writers[which]);
		writers[which] = start_writer(r, f, which);
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		while (!has_ended(writers[i])) {
			recorder_for(r, 10);
		}
	}
	fixture_forget_programs(f, first);
}

SYSTEM_TEST(records_are_whole_and_in_order)
{
	const size_t rounds = requirement_amount(8, 100);
	static struct reading w;
	struct fixture *f = *state;
	uint64_t random = 18;
	struct recorder r;

	fixture_limit(600);
	setenv("GPUCTR_FAKE_GPUS", "8", 1);
	fixture_start_daemon(f, NULL);
	recorder_connect(&r, f, USER_ANN);
	r.on_record = on_record;
	r.on_process_end = on_process_end;
	r.userdata = &w;
	for (size_t i = 0; i < rounds; i++) {
		play_round(&r, f, &random);
	}
	recorder_close(&r);
	requirement_figure("R18",
			   "%llu records of %llu processes that ended and %llu that were "
			   "killed: %llu corrupt, %llu reordered",
			   (unsigned long long)w.records, (unsigned long long)w.clean,
			   (unsigned long long)w.killed, (unsigned long long)w.corrupt,
			   (unsigned long long)w.reordered);
	requirement_figure("R18",
			   "%llu launches missing in between, %llu lost at a kill, gaps that "
			   "are not declared: %llu",
			   (unsigned long long)w.missing, (unsigned long long)w.lost,
			   (unsigned long long)w.undeclared);
	assert_true(w.records > 0 && w.killed > 0 && w.clean > 0);
	assert_int_equal(w.corrupt, 0);
	assert_int_equal(w.reordered, 0);
	assert_int_equal(w.undeclared, 0);
	assert_int_equal(w.records, r.totals.measured);
	expect_balance(&r.totals);
	recorder_disconnect(&r);
	unsetenv("CUDA_VISIBLE_DEVICES");
	expect_service(f, 1000);
}
