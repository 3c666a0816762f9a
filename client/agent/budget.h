/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_BUDGET_H
#define GPUCTR_AGENT_BUDGET_H

/* How much measuring a program can be asked to pay for. What measuring costs is noted as it is
 * spent; the answers are how many launches may be chosen now, how large a batch is to be, and
 * whether a batch may end now.
 *
 * The promise: over any ten seconds after the first one, costs are at most the share of the time
 * that the user has granted, as far as a single call costs what such calls cost before. What the
 * first second costs, above all the first Start, is a loan that is paid back from what comes in.
 *
 * Not thread-safe: whoever shares one has a lock. There is no clock in here; times of all calls are
 * of one clock and do not go back (one that does counts as the latest). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BUDGET_WINDOW_SLOTS = 101, /* of a tenth of a second; the last one is under way */
	BUDGET_PASSES_MAX = 16,
	BUDGET_SIZE_FIRST =
		64, /* of first batches, unless some passes are expensive and others not */
};

enum budget_item {
	BUDGET_RANGE_CPU, /* push and pop */
	BUDGET_RANGE_GPU, /* what a range adds to its kernel on the GPU */
	BUDGET_START,	  /* but the first after a configuration; with passes left out before it */
	BUDGET_STOP,	  /* with the decoding */
	BUDGET_FIRST_START, /* and all else that a new batch size takes */
	BUDGET_CALLBACKS,   /* callbacks around launches, whether they are chosen or not */
	BUDGET_SLOWER,	    /* what launches, copies and fills take longer under CUPTI's profiler */
	BUDGET_WAIT,	    /* until other streams are idle, so that a range counts one kernel */
	BUDGET_ITEMS,
};

/* How a cost is known, the surest first. */
enum budget_source {
	BUDGET_TIMED,	   /* by a clock around the call */
	BUDGET_CALIBRATED, /* by the same work with and without */
	BUDGET_ASSUMED,	   /* by what it cost elsewhere */
};

struct budget_cost {
	uint64_t n;
	double total_ns;
	double each_ns;		   /* expected of the next one */
	enum budget_source source; /* the least sure one of the total */
};

struct budget_options {
	double share;	  /* of the time, above 0 and at most 1 */
	uint64_t now_ns;  /* of the first launch that may be measured */
	uint32_t passes;  /* that take turns, batch by batch, from 1 to BUDGET_PASSES_MAX */
	double range_ns;  /* what a range is assumed to cost on the GPU; 0: as memory metrics */
	size_t size;	  /* of the first batches; 0: the usual one */
	size_t size_most; /* that an image has room for; 0: no bound but ours */
	/* Of several passes, what a range of each is assumed to cost in all; 0: as above. */
	double pass_range_ns[BUDGET_PASSES_MAX];
};

/* What a range is expected to cost in one of several passes. */
struct budget_range {
	uint64_t n;
	double each_ns;
};

struct budget {
	struct budget_options options;
	uint64_t now_ns;
	double balance_ns, loan_ns; /* to spend; to pay back */
	double first_ns;	    /* of the first balance, that is not kept beyond a second */
	double window_ns[BUDGET_WINDOW_SLOTS];
	uint64_t slot; /* that is under way, since the beginning */
	struct budget_cost costs[BUDGET_ITEMS];
	size_t first, size; /* of the largest batches: of a new context, and now */
	size_t room, taken; /* ranges that the batch under way is to have, and has */
	uint32_t pass;	    /* of the batch under way, or the last one */
	uint32_t next;	    /* that launches are chosen for now */
	struct budget_range ranges[BUDGET_PASSES_MAX];
	bool open; /* between Start and Stop */
	uint64_t batch_ns;
	double wait_ns;	    /* expected of the next range, beside its own cost */
	double waited_ns;   /* for a range that is not noted yet */
	double overhead_ns; /* of callbacks and slower calls of late: the longer ago, the less it
			       counts */
	double turned_ns;   /* spent on turns of batches of this size */
};

struct budget_pace {
	int64_t credit; /* launches that may be chosen until the next pace */
	int64_t full;	/* what credit is when all goes steadily */
	double per_s;	/* launches a second that the income pays for */
};

/* -EINVAL for a share that is none. */
int budget_init(struct budget *b, const struct budget_options *options);

/* --- what was spent --- */

/* A Start for batches of this size, or the first one of that size; ns is of all that it took. The
 * batch is of that pass, below the number of them. */
void budget_note_start(struct budget *b, uint64_t now_ns, uint32_t pass, double ns);
void budget_note_first_start(struct budget *b, uint64_t now_ns, size_t size, uint32_t pass,
			     double ns);

/* The batch that was started takes no more ranges than these, whatever is said of its pass. */
void budget_note_room(struct budget *b, size_t room);

/* Of one launch, measured in this pass. gpu_source says how gpu_ns is known; cpu_ns is always
 * timed.
 */
void budget_note_range(struct budget *b, uint64_t now_ns, uint32_t pass, double cpu_ns,
		       double gpu_ns, enum budget_source gpu_source);
void budget_note_stop(struct budget *b, uint64_t now_ns, double ns);

/* Launches are chosen for this pass from now on, below the number of them: what they may cost is
 * another thing then, so that a new pace is due. */
void budget_note_turn(struct budget *b, uint32_t pass);

/* Notes what n callbacks took, two a call, and by how much the calls were slower (0: by nothing),
 * and how that is known. This overhead cannot be avoided; the rest of the income is for measuring.
 */
void budget_note_callbacks(struct budget *b, uint64_t now_ns, uint64_t n, double callbacks_ns,
			   double slowdown_ns, enum budget_source slowdown_source);

/* Notes the cost of waiting for the next range, with that of waits in vain before it. */
void budget_note_wait(struct budget *b, uint64_t now_ns, double ns);

/* --- what may be spent --- */

/* Every tenth of a second or so, for chooser_grant(). */
struct budget_pace budget_take_pace(struct budget *b, uint64_t now_ns);

/* May a full batch be stopped, and the next one started? Until then nothing can be measured. */
bool budget_may_turn(struct budget *b, uint64_t now_ns);

/* Of several passes, may the next turn leave one out? */
bool budget_may_leave_out(const struct budget *b);

/* Is the batch to be handed over now though it is not full, because its first record has waited for
 * long and it can be paid for? */
bool budget_batch_is_old(struct budget *b, uint64_t now_ns);

/* May the first Start for batches of this size be made? Within the first second, yes. */
bool budget_may_first_start(struct budget *b, uint64_t now_ns, size_t size);

/* And where another context has to give the counters up for it, and to take them back? Only once
 * the last first Start is paid back, or contexts that alternate would do nothing else. */
bool budget_may_take_over(struct budget *b, uint64_t now_ns, size_t size);

/* How many ranges a batch of this pass is to have, where the largest have this size: as many, or
 * fewer where those of other passes cost much less, so that these do not wait long for their turns.
 */
size_t budget_batch_size(const struct budget *b, uint32_t pass, size_t size);

/* The size that the next batches are to have, when it pays to change it now, else 0. */
size_t budget_next_size(struct budget *b, uint64_t now_ns);

/* The least share with which batches can be turned at all. Below it the first batch is the last,
 * which has to be told: a lump of this size in ten seconds is more than the share. */
double budget_least_share(const struct budget *b);

/* --- telling --- */

const char *budget_item_to_string(enum budget_item item);
const char *budget_source_to_string(enum budget_source source);
double budget_spent_ns(const struct budget *b);

/* Spent / elapsed until now. */
double budget_spent_share(const struct budget *b, uint64_t now_ns);

/* The share that callbacks and slower calls have taken, whatever is measured. Above the share, the
 * budget cannot be kept whatever is measured. */
double budget_overhead_share(const struct budget *b, uint64_t now_ns);

/* "spent 1.94 % of 61.2 s (2 % granted): ..." with each item, and how it is known. Bytes as
 * snprintf(). */
int budget_describe(const struct budget *b, uint64_t now_ns, char *text, size_t bytes);

#endif
