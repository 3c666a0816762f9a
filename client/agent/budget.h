/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The budget of a capture: which share of a program's time measuring may cost. The agent notes each
 * cost when it occurs; the budget says how many launches may be chosen now, how large a batch is to
 * be, and whether a batch may end now.
 *
 * The promise: in any ten seconds after the program's first second, costs are at most the share of
 * the time that the user granted, provided that each call costs what such calls cost before. The
 * costs of the first second, above all of the first Start, are a loan, which later income pays
 * back.
 *
 * Not thread-safe: callers that share a budget lock it. The budget reads no clock: the caller
 * passes the time, always of the same clock. A time before the latest one counts as the latest. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BUDGET_WINDOW_SLOTS = 101, /* slots of a tenth of a second, the current one included */
	BUDGET_PASSES_MAX = 16,
	BUDGET_SIZE_FIRST = 64, /* size of first batches in most cases; see first_size() */
};

enum budget_item {
	BUDGET_RANGE_CPU, /* push and pop */
	BUDGET_RANGE_GPU, /* what a range adds to its kernel on the GPU */
	BUDGET_START, /* a Start that is not the first of its configuration, with the passes skipped
			 before it */
	BUDGET_STOP,  /* Stop, and decoding the counter data */
	BUDGET_FIRST_START, /* the first Start of a batch size, with its configuration */
	BUDGET_CALLBACKS,   /* callbacks around launches, whether they are chosen or not */
	BUDGET_SLOWDOWN,    /* the slowdown of launches, copies and fills by CUPTI's profiler */
	BUDGET_WAIT, /* waiting until other streams are idle, so that a range counts one kernel */
	BUDGET_ITEMS,
};

/* How a cost is known, the most reliable way first. */
enum budget_source {
	BUDGET_TIMED,	   /* a clock was read before and after the call */
	BUDGET_CALIBRATED, /* the same work was timed with and without CUPTI */
	BUDGET_ASSUMED,	   /* the cost on another machine */
};

struct budget_cost {
	uint64_t n;
	double total_ns;
	double each_ns;		   /* expected cost of the next one */
	enum budget_source source; /* the least reliable source of any part of the total */
};

struct budget_options {
	double share;	  /* share of the time that may be spent, above 0 and at most 1 */
	uint64_t now_ns;  /* when the program makes the first launch that may be measured */
	uint32_t passes;  /* passes, which change from batch to batch; 1 to BUDGET_PASSES_MAX */
	double range_ns;  /* assumed cost of a range on the GPU; 0: that of memory metrics */
	size_t size;	  /* size of the first batches; 0: the usual one */
	size_t size_most; /* ranges that a counter data image has room for; 0: no limit but the
			     budget's */
	/* With several passes: the assumed cost of a range of each pass, CPU and GPU; 0: as above.
	 */
	double pass_range_ns[BUDGET_PASSES_MAX];
};

/* The expected cost of a range in one of several passes. */
struct budget_range {
	uint64_t n;
	double each_ns;
};

struct budget {
	struct budget_options options;
	uint64_t now_ns;
	double balance_ns, loan_ns; /* balance to spend; loan to pay back */
	double first_ns;	    /* part of the first balance that expires after a second */
	double window_ns[BUDGET_WINDOW_SLOTS];
	uint64_t slot; /* number of the current slot, from the beginning */
	struct budget_cost costs[BUDGET_ITEMS];
	size_t first, size; /* size of the largest batches: for a new context, and now */
	size_t room, taken; /* ranges that the current batch may have, and has */
	uint32_t pass;	    /* pass of the current batch, or of the last one */
	uint32_t next;	    /* pass for which launches are chosen now */
	struct budget_range ranges[BUDGET_PASSES_MAX];
	bool open; /* between Start and Stop */
	uint64_t batch_ns;
	double wait_ns;	    /* expected wait of the next range, in addition to its own cost */
	double waited_ns;   /* wait for a range that is not noted yet */
	double overhead_ns; /* overhead of callbacks and slower launches; older costs count less */
	double turned_ns;   /* spent on Stops and Starts of batches of this size */
};

struct budget_pace {
	int64_t credit; /* launches that may be chosen until the next pace */
	int64_t full;	/* the credit in steady operation */
	double per_s;	/* launches a second that the income pays for */
};

/* -EINVAL if the share or the number of passes is out of range. */
int budget_init(struct budget *b, const struct budget_options *options);

/* --- what was spent --- */

/* Notes a Start for batches of the present size, or the first Start for batches of another size. ns
 * is the duration of the whole operation. The batch measures this pass, which is below
 * options.passes. */
void budget_note_start(struct budget *b, uint64_t now_ns, uint32_t pass, double ns);
void budget_note_first_start(struct budget *b, uint64_t now_ns, size_t size, uint32_t pass,
			     double ns);

/* Limits the ranges of the batch that was started, whatever its pass would allow. */
void budget_note_room(struct budget *b, size_t room);

/* Notes the costs of one launch that was measured in this pass. gpu_source says how gpu_ns is
 * known; cpu_ns is always timed. */
void budget_note_range(struct budget *b, uint64_t now_ns, uint32_t pass, double cpu_ns,
		       double gpu_ns, enum budget_source gpu_source);
void budget_note_stop(struct budget *b, uint64_t now_ns, double ns);

/* Launches are chosen for this pass from now on (below options.passes). Launches of passes differ
 * in cost, so the caller takes a new pace afterwards. */
void budget_note_turn(struct budget *b, uint32_t pass);

/* Notes the time of n callbacks, two for each launch, and by how much launches were slower (0: no
 * slowdown), and how the slowdown is known. This overhead cannot be avoided; the rest of the income
 * is for measuring. */
void budget_note_callbacks(struct budget *b, uint64_t now_ns, uint64_t n, double callbacks_ns,
			   double slowdown_ns, enum budget_source slowdown_source);

/* Notes the cost of waiting before the next range, including earlier waits that timed out. */
void budget_note_wait(struct budget *b, uint64_t now_ns, double ns);

/* --- what may be spent --- */

/* To be called about ten times a second; the result goes to chooser_grant(). */
struct budget_pace budget_take_pace(struct budget *b, uint64_t now_ns);

/* May the caller stop a full batch and start the next one? Until it does nothing can be measured.
 */
bool budget_may_turn(struct budget *b, uint64_t now_ns);

/* May the agent skip a pass at the next change of batches? False with one pass. */
bool budget_may_leave_out(const struct budget *b);

/* Should the caller end a batch that is not full, because its first record has waited for five
 * seconds and the budget can pay for the next Start? */
bool budget_batch_is_old(struct budget *b, uint64_t now_ns);

/* May the caller make the first Start for batches of this size? Always true within the first
 * second. */
bool budget_may_first_start(struct budget *b, uint64_t now_ns, size_t size);

/* The same if another context has to release the counters first and take them back later. True only
 * once the loan of the last first Start is paid back: contexts that alternate would do nothing
 * else. */
bool budget_may_take_over(struct budget *b, uint64_t now_ns, size_t size);

/* The number of ranges for a batch of this pass, if the largest batches have this size: size, or
 * less for a pass whose ranges are expensive, so that the other passes do not wait long for their
 * turns. */
size_t budget_batch_size(const struct budget *b, uint32_t pass, size_t size);

/* The new size of batches if growing pays now, else 0. */
size_t budget_next_size(struct budget *b, uint64_t now_ns);

/* The smallest share with which a second batch can be started. With a smaller share the first batch
 * is the only one, because Stop and Start cost more than the share of ten seconds; the agent
 * reports that to the user. */
double budget_least_share(const struct budget *b);

/* --- telling --- */

const char *budget_item_to_string(enum budget_item item);
const char *budget_source_to_string(enum budget_source source);
double budget_spent_ns(const struct budget *b);

/* Spent / elapsed until now. */
double budget_spent_share(const struct budget *b, uint64_t now_ns);

/* The share of the time that callbacks and slower launches take, whatever is measured. If it
 * exceeds the granted share, the budget cannot be kept. */
double budget_overhead_share(const struct budget *b, uint64_t now_ns);

/* Writes "spent 1.94 % of 61.2 s (2 % granted): ..." with each item, and how its cost is known.
 * Returns a length as snprintf() does. */
int budget_describe(const struct budget *b, uint64_t now_ns, char *text, size_t bytes);
