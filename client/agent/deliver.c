/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/deliver.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/evaluate.h"
#include "client/agent/lock.h"
#include "client/agent/pack.h"
#include "client/agent/thread.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "proto/wire/status.h"

/* The queue is bounded in bytes. No launch waits for a reader: if a client reads more slowly than
 * its program measures, or not at all, the agent drops whole batches and counts their launches. If
 * the delivering thread itself is behind, the program's thread waits a little at the end of a
 * batch. How long the delivering thread waits for its socket shows which of the two is slow. The
 * memory of one freed batch is kept for the next, because page faults in a fresh image of some MiB
 * cost more than copying the data.
 *
 * Any thread may leave other messages: it encodes them at once and goes on. The bytes of these
 * messages are bounded as well; messages that do not fit are dropped and counted.
 *
 * The delivering thread waits for a reader without a limit, so that the counts are exact once the
 * reader goes on. A reader that has ended breaks the connection.
 *
 * The delivering thread blocks all signals, so that the program's own threads handle them. When the
 * connection breaks, the thread goes on taking batches and drops them, so that the program never
 * waits for a daemon that has ended. */

enum {
	TICK_MS = 250,
	READER_LAG_MS = 2,     /* a reader that takes nothing for longer is behind */
	SLOW_PART = 2,	       /* or for longer than a batch's time / SLOW_PART */
	NOTICE_TIMEOUT_S = 60, /* for a notice that must not wait for the delivering thread */
};

void deliver_init(struct deliver *d)
{
	*d = (struct deliver){ 0 };
	list_init(&d->queue);
	opened_init(&d->opened);
	lock_init(&d->lock, LOCK_LEAF);
	lock_init(&d->connection_lock, LOCK_PART);
	lock_cond_init(&d->wake);
	lock_cond_init(&d->drained);
}

struct gpuctr_totals counters_read(const struct counters *c)
{
	struct gpuctr_totals t = {
		.measured = atomic_load(&c->measured),
		.filtered = atomic_load(&c->filtered),
		.capturing = atomic_load(&c->capturing),
		.unready = atomic_load(&c->unready),
		.failed = atomic_load(&c->failed),
		.dropped = atomic_load(&c->dropped),
	};

	/* Read last, so that the sum of the others never exceeds it. */
	t.seen = atomic_load(&c->seen);
	return t;
}

/* --- batches --- */

static size_t batch_bytes(const struct batch *b)
{
	return b->image_size + b->room * sizeof(*b->launches);
}

static void batch_free(struct batch *b)
{
	if (b) {
		free(b->launches);
		free(b->image);
		free(b);
	}
}

static struct batch *exchange_spare(struct deliver *d, struct batch *by)
{
	struct batch *before;

	LOCK_SCOPE(&d->lock);
	before = d->spare;
	d->spare = by;
	return before;
}

struct batch *deliver_new_batch(struct deliver *d, size_t n)
{
	struct batch *b = exchange_spare(d, NULL);

	if (b && b->room == n) {
		b->n = b->image_size = 0;
		return b;
	}
	batch_free(b);
	b = calloc(1, sizeof(*b));
	if (b && (b->launches = malloc(n * sizeof(*b->launches))) == NULL) {
		batch_free(b);
		return NULL;
	}
	if (b) {
		b->room = n;
	}
	return b;
}

void deliver_free_batch(struct deliver *d, struct batch *b)
{
	batch_free(exchange_spare(d, b));
}

int deliver_copy_image(struct batch *b, const uint8_t *image, size_t bytes)
{
	if (b->image_room < bytes) {
		free(b->image);
		b->image = malloc(bytes);
		b->image_room = b->image ? bytes : 0;
	}
	if (!b->image) {
		return -ENOMEM;
	}
	memcpy(b->image, image, bytes);
	b->image_size = bytes;
	return 0;
}

static bool takes_batches(const struct deliver *d)
{
	return atomic_load(&d->state) < CAPTURE_OVER;
}

/* An empty queue takes a batch of any size. The delivering thread may always add batches, because
 * it cannot wait for itself. */
static bool has_room(const struct deliver *d, const struct batch *b)
{
	return d->queued_bytes == 0 || d->queued_bytes + batch_bytes(b) <= DELIVER_QUEUE_BYTES ||
	       (d->runs && pthread_equal(pthread_self(), d->thread));
}

static void drop(struct deliver *d, struct batch *b)
{
	if (d->on_drop) {
		d->on_drop(d->userdata, b);
	}
	atomic_fetch_add(&d->counters->dropped, b->n);
}

/* With the lock. */
static bool reader_is_behind(const struct deliver *d)
{
	uint64_t since_ns = atomic_load(&d->connection->waits_since_ns);

	return d->reader_is_slow ||
	       (since_ns != 0 && clock_now_ns() >= since_ns + READER_LAG_MS * CLOCK_NS_PER_MS);
}

/* With the lock. False: there is no room for b. */
static bool wait_for_room(struct deliver *d, const struct batch *b, uint64_t patience_ns)
{
	uint64_t by_ns = clock_now_ns() + patience_ns, now_ns;

	while (takes_batches(d) && !has_room(d, b) &&
	       (d->waits_for_reader || !reader_is_behind(d)) && (now_ns = clock_now_ns()) < by_ns) {
		uint64_t look_ns = now_ns + READER_LAG_MS * CLOCK_NS_PER_MS;

		lock_wait_until(&d->lock, &d->drained, by_ns < look_ns ? by_ns : look_ns);
	}
	return takes_batches(d) && has_room(d, b);
}

void deliver_put(struct deliver *d, struct batch *b, uint64_t patience_ns)
{
	bool taken;

	lock_acquire(&d->lock);
	taken = wait_for_room(d, b, patience_ns);
	if (taken) {
		d->queued_bytes += batch_bytes(b);
		list_append(&d->queue, &b->link);
		pthread_cond_signal(&d->wake);
	}
	lock_release(&d->lock);
	if (!taken) {
		drop(d, b);
		deliver_free_batch(d, b);
	}
}

/* --- other messages --- */

void deliver_note(struct deliver *d, const struct wire_message *m)
{
	struct buffer b = { 0 };
	struct arena scratch;
	bool encoded;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	encoded = wire_encode(&scratch, &b, m) == 0;
	lock_acquire(&d->lock);
	if (!encoded || buffer_length(&d->notes) + buffer_length(&b) > DELIVER_NOTES_BYTES ||
	    buffer_append(&d->notes, b.data + b.start, buffer_length(&b)) < 0) {
		d->notes_dropped++;
	}
	pthread_cond_signal(&d->wake);
	lock_release(&d->lock);
	buffer_deinit(&b);
	arena_deinit(&scratch);
}

static struct wire_message make_notice(const struct deliver *d, int code, const char *message,
				       const char *remedy)
{
	return (struct wire_message){
		.type = WIRE_NOTICE,
		.notice = { d->welcome->capture, d->welcome->process, (uint32_t)code, message,
			    remedy },
	};
}

void deliver_notice(struct deliver *d, int code, const char *message, const char *remedy)
{
	const struct wire_message m = make_notice(d, code, message, remedy);

	deliver_note(d, &m);
}

void deliver_refusal(struct deliver *d, const struct refusal *r)
{
	if (r->code != 0) {
		deliver_notice(d, r->code, r->message, r->remedy);
	}
}

void deliver_notice_now(struct deliver *d, int code, const char *message, const char *remedy)
{
	const struct wire_message m = make_notice(d, code, message, remedy);

	LOCK_SCOPE(&d->connection_lock);
	if (d->lent) {
		connection_send(d->connection, &m, -1, NOTICE_TIMEOUT_S * CLOCK_NS_PER_S);
	} else {
		deliver_note(d, &m);
	}
}

void deliver_tell(struct deliver *d, int code, const char *remedy, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	deliver_notice(d, code, text, remedy);
}

/* Reports lost marks, ranges and notices, which leave no gap in the records' numbers. */
static void tell_left_out(struct deliver *d)
{
	struct intern_left_out n = intern_left_out(d->intern);
	size_t notes;

	lock_acquire(&d->lock);
	notes = d->notes_dropped;
	lock_release(&d->lock);
	if (n.marks > 0) {
		deliver_tell(d, GPUCTR_E_QUOTA,
			     "Set fewer marks, or use ranges, which cost nothing without a kernel "
			     "in them.",
			     "%llu NVTX marks were left out: more than %d would have waited to be "
			     "sent",
			     (unsigned long long)n.marks, INTERN_MARKS_MAX);
	}
	if (n.digits > 0) {
		deliver_tell(d, GPUCTR_E_QUOTA,
			     "Use fewer names: numbers belong into the payload, and steps are best "
			     "called \"step 1\", \"step 2\".",
			     "the digits of %llu NVTX ranges were left out, which are told as one: "
			     "the process has more than %d different ones",
			     (unsigned long long)n.digits, INTERN_DIGITS_MAX);
	}
	if (n.ranges > 0) {
		deliver_tell(d, GPUCTR_E_QUOTA,
			     n.waits > 0 ? "Keep the client reading, or use fewer names."
					 : "Use fewer names: text that changes each time belongs "
					   "into the payload.",
			     "at %llu launches an NVTX range was left out, and their kernels are "
			     "told in one around it: %s",
			     (unsigned long long)n.ranges,
			     n.waits > 0 ? "too many names would have waited to be sent"
					 : "the process has too many different ones");
	}
	if (notes > 0) {
		deliver_tell(
			d, GPUCTR_E_QUOTA, "Keep the client reading.",
			"%zu notices were left out: more than %d KiB of them would have waited "
			"to be sent",
			notes, DELIVER_NOTES_BYTES >> 10);
	}
}

/* --- the connection, lent --- */

/* The thread lends its connection while it makes calls that may hang. Until it takes the connection
 * back, only other threads use it. */
static void lend_connection(struct deliver *d, bool lent)
{
	LOCK_SCOPE(&d->connection_lock);
	d->lent = lent;
}

void deliver_send_copies(struct deliver *d, const struct pack_copy *v, size_t n)
{
	if (n > 0) {
		lend_connection(d, false);
		pack_send_copies(d->connection, d->welcome, v, n, d->next_index);
		lend_connection(d, true);
	}
}

/* --- the thread --- */

/* Sends the counts even if they are unchanged: counted_ns tells the daemon up to when they are
 * complete if the process ends without goodbye. */
static void send_progress(struct deliver *d)
{
	uint64_t counted_ns = clock_wall_ns(); /* all launches before this time are counted */
	struct wire_message m = {
		.type = WIRE_PROGRESS,
		.progress = { d->welcome->capture, d->welcome->process, counters_read(d->counters),
			      counted_ns },
	};

	d->progress_ns = clock_now_ns();
	connection_send(d->connection, &m, -1, CONNECTION_NO_LIMIT);
}

void deliver_tell_progress(struct deliver *d)
{
	if (clock_now_ns() - d->progress_ns >= TICK_MS * CLOCK_NS_PER_MS) {
		lend_connection(d, false);
		send_progress(d);
		lend_connection(d, true);
	}
}

/* The counter for a launch that has no values; NULL: the launch was measured. A launch whose kernel
 * has no id cannot be sent, because intern had no room for the kernel's name. */
static atomic_uint_fast64_t *count_of(struct counters *c, const struct launch *l, bool measured)
{
	if (l->function == 0 && l->fate == LAUNCH_DONE) {
		return &c->dropped;
	}
	switch (l->fate) {
	case LAUNCH_FILTERED:
		return &c->filtered;
	case LAUNCH_DISTURBED:
		return &c->unready;
	case LAUNCH_FAILED:
		return &c->failed;
	default:
		return measured ? NULL : &c->failed;
	}
}

/* Removes launches that have no values from the batch, and counts each by its fate. */
static size_t keep_measured(struct deliver *d, struct batch *b, double *values,
			    const bool *measured)
{
	size_t n_columns = d->welcome->plan.columns.n, kept = 0;

	for (size_t i = 0; i < b->n; i++) {
		atomic_uint_fast64_t *count = count_of(d->counters, &b->launches[i], measured[i]);

		opened_take(&d->opened, &b->launches[i], !count);
		if (count) {
			atomic_fetch_add(count, 1);
			continue;
		}
		if (kept != i) {
			b->launches[kept] = b->launches[i];
			memmove(values + kept * n_columns, values + i * n_columns,
				n_columns * sizeof(*values));
		}
		kept++;
	}
	return kept;
}

/* Sets the values of launches that were not measured to NAN. */
static void blank_others(struct deliver *d, const struct batch *b, double *values,
			 const bool *measured)
{
	size_t n_columns = d->welcome->plan.columns.n;

	for (size_t i = 0; i < b->n; i++) {
		bool blank = count_of(d->counters, &b->launches[i], measured[i]) != NULL;

		for (size_t k = 0; blank && k < n_columns; k++) {
			values[i * n_columns + k] = NAN;
		}
	}
}

static bool lacks_names(const struct batch *b)
{
	size_t i = 0;

	while (i < b->n && b->launches[i].function != 0) {
		i++;
	}
	return i < b->n;
}

static int send_image(struct deliver *d, const struct batch *b, uint64_t first)
{
	size_t offset = 0;
	int r = 0;

	while (r == 0 && offset < b->image_size) {
		size_t n = b->image_size - offset < LIMIT_IMAGE_PIECE_BYTES
				   ? b->image_size - offset
				   : LIMIT_IMAGE_PIECE_BYTES;
		struct wire_message m = {
			.type = WIRE_RAW_IMAGE,
			.raw_image = {
				d->welcome->capture, d->welcome->process, first, (uint32_t)b->n, offset, b->image_size,
				{ n, b->image + offset },
			},
		};

		r = connection_send(d->connection, &m, -1, CONNECTION_NO_LIMIT);
		offset += n;
	}
	return r;
}

static void send_batch(struct deliver *d, struct batch *b, double *values, bool *measured)
{
	size_t n = b->n, kept;
	int result;

	result = d->evaluate ? d->evaluate(d->userdata, b, values, measured)
		 : d->welcome->trace
			 ? evaluate_nothing(b, d->welcome->plan.columns.n, values, measured)
			 : evaluate_batch(b->plan ? b->plan : &d->welcome->plan, b, values,
					  measured);
	if (result != CUPTI_SUCCESS) {
		deliver_tell(d, GPUCTR_E_PROFILER, "",
			     "CUPTI could not evaluate some kernels (%s, %d)",
			     host_result_name(b->host->v, result), result);
	}
	/* An image is sent whole, so all its launches keep their places in the batch. */
	if (d->welcome->selection.raw_images) {
		kept = n;
		blank_others(d, b, values, measured);
		for (size_t i = 0; i < n; i++) {
			opened_take(&d->opened, &b->launches[i], true);
		}
		result = send_image(d, b, d->next_index);
	} else {
		kept = keep_measured(d, b, values, measured);
	}
	if (pack_send(d->connection, d->welcome, d->intern, b->launches, kept, values,
		      d->next_index) == 0) {
		atomic_fetch_add(&d->counters->measured, kept);
		d->next_index += kept;
	} else {
		atomic_fetch_add(&d->counters->dropped, kept);
		opened_init(&d->opened);
	}
}

static void process_batch(struct deliver *d, struct batch *b)
{
	double *values = NULL;
	bool *measured = NULL;

	if (d->connection->fd < 0) {
		drop(d, b);
		return;
	}
	if (d->welcome->selection.raw_images && lacks_names(b)) {
		drop(d, b); /* an image is sent whole or not at all */
		return;
	}
	if (d->on_batch) {
		lend_connection(d, true);
		d->on_batch(d->userdata, b);
		lend_connection(d, false);
	}
	values = malloc((b->n * d->welcome->plan.columns.n + 1) * sizeof(*values));
	measured = malloc(b->n + 1);
	if (values && measured) {
		send_batch(d, b, values, measured);
	} else {
		atomic_fetch_add(&d->counters->dropped, b->n);
	}
	free(values);
	free(measured);
}

/* A broken connection ends the capture as well. */
static void check_connection(struct deliver *d)
{
	struct wire_message m;

	if (d->connection->fd < 0 ||
	    (connection_receive(d->connection, &m, 0) == 0 && m.type == WIRE_AGENT_STOP)) {
		d->on_stop(d->userdata);
	}
}

static struct batch *take_batch(struct deliver *d)
{
	struct batch *b = NULL;

	if (!list_is_empty(&d->queue)) {
		b = list_entry(d->queue.next, struct batch, link);
		list_remove(&b->link);
	}
	return b;
}

/* Is a tick due? If so, sets the time of the next tick, which deliver_kick() may bring forward. */
static bool take_tick(struct deliver *d)
{
	uint64_t now_ns = clock_now_ns();
	bool due;

	LOCK_SCOPE(&d->lock);
	due = now_ns >= d->next_tick_ns;
	if (due) {
		d->next_tick_ns = now_ns + TICK_MS * CLOCK_NS_PER_MS;
	}
	return due;
}

/* Processes a batch, and notes whether the reader was the slow part. */
static void work_on(struct deliver *d, struct batch *b)
{
	uint64_t begin_ns = clock_now_ns(), waited_ns = atomic_load(&d->connection->waited_ns);
	size_t bytes = batch_bytes(b);

	process_batch(d, b);
	waited_ns = atomic_load(&d->connection->waited_ns) - waited_ns;
	deliver_free_batch(d, b);
	LOCK_SCOPE(&d->lock);
	d->queued_bytes -= bytes;
	d->reader_is_slow = waited_ns > (clock_now_ns() - begin_ns) / SLOW_PART;
	pthread_cond_broadcast(&d->drained);
}

/* The periodic work. True: no further batch is expected. */
static bool tick(struct deliver *d, bool ending)
{
	bool ends = true;

	send_progress(d);
	/* Sends marks and ranges even without a kernel: otherwise they would pile up. */
	pack_send(d->connection, d->welcome, d->intern, NULL, 0, NULL, d->next_index);
	if (ending) {
		return true;
	}
	check_connection(d);
	if (d->on_idle) {
		lend_connection(d, true);
		ends = d->on_idle(d->userdata);
		lend_connection(d, false);
	}
	return ends && atomic_load(&d->state) >= CAPTURE_STOPPING;
}

static void send_notes(struct deliver *d)
{
	struct buffer notes;

	lock_acquire(&d->lock);
	notes = d->notes;
	d->notes = (struct buffer){ 0 };
	lock_release(&d->lock);
	if (buffer_length(&notes) > 0) {
		connection_send_encoded(d->connection, &notes);
	}
	buffer_deinit(&notes);
}

/* Waits for notes or a batch until the next tick at most, and processes them; does the periodic
 * work if it is due. False: no further batch is expected, and none is queued. */
static bool work_once(struct deliver *d, bool *ending)
{
	bool was_ending = *ending;
	struct batch *b;

	lock_acquire(&d->lock);
	while (list_is_empty(&d->queue) && buffer_length(&d->notes) == 0 && !was_ending &&
	       lock_wait_until(&d->lock, &d->wake, d->next_tick_ns)) {
	}
	b = take_batch(d);
	lock_release(&d->lock);
	send_notes(d);
	if (b) {
		work_on(d, b);
	}
	if (take_tick(d)) {
		*ending = tick(d, was_ending);
	}
	return b || !was_ending;
}

/* Closes the queue, and drops batches that were queued at the last moment. */
static void drop_late(struct deliver *d)
{
	struct batch *b;

	lock_acquire(&d->lock);
	state_move(&d->state, CAPTURE_OVER);
	pthread_cond_broadcast(&d->drained);
	while ((b = take_batch(d)) != NULL) {
		lock_release(&d->lock);
		drop(d, b);
		batch_free(b);
		lock_acquire(&d->lock);
	}
	lock_release(&d->lock);
}

static void set_runs(struct deliver *d, bool runs)
{
	LOCK_SCOPE(&d->lock);
	d->thread = pthread_self();
	d->runs = runs;
	pthread_cond_broadcast(&d->drained);
}

void deliver_run(struct deliver *d)
{
	struct wire_message bye = { .type = WIRE_GOODBYE };
	bool ending = false;

	set_runs(d, true);
	while (work_once(d, &ending)) {
	}
	drop_late(d);
	if (d->on_end) {
		lend_connection(d, true);
		d->on_end(d->userdata);
		lend_connection(d, false);
	}
	pack_send(d->connection, d->welcome, d->intern, NULL, 0, NULL, d->next_index);
	send_notes(d);
	tell_left_out(d);
	send_notes(d);
	bye.goodbye.totals = counters_read(d->counters);
	connection_send(d->connection, &bye, -1, CONNECTION_NO_LIMIT);
	set_runs(d, false);
}

static void *run(void *argument)
{
	deliver_run(argument);
	return NULL;
}

int deliver_start(struct deliver *d)
{
	int r;

	d->runs = true;
	r = thread_start(run, d, 0, NULL);
	if (r < 0) {
		d->runs = false;
	}
	return r;
}

bool deliver_is_full(struct deliver *d)
{
	LOCK_SCOPE(&d->lock);
	return d->queued_bytes > DELIVER_QUEUE_BYTES;
}

void deliver_kick(struct deliver *d, uint64_t by_ns)
{
	if (lock_until(&d->lock, by_ns)) {
		d->next_tick_ns = 0;
		pthread_cond_signal(&d->wake);
		lock_release(&d->lock);
	}
}

void deliver_finish(struct deliver *d, uint64_t timeout_ns)
{
	uint64_t by_ns = clock_now_ns() + timeout_ns;

	state_move(&d->state, CAPTURE_STOPPING);
	LOCK_SCOPE(&d->lock);
	d->next_tick_ns = 0;
	pthread_cond_signal(&d->wake);
	while (d->runs && lock_wait_until(&d->lock, &d->drained, by_ns)) {
	}
}

bool deliver_deinit(struct deliver *d)
{
	struct batch *b;
	bool in_use;

	lock_acquire(&d->lock);
	in_use = d->runs;
	lock_release(&d->lock);
	if (in_use) {
		return false;
	}
	buffer_deinit(&d->notes);
	while ((b = take_batch(d)) != NULL) {
		batch_free(b);
	}
	batch_free(d->spare);
	lock_deinit(&d->lock);
	lock_deinit(&d->connection_lock);
	pthread_cond_destroy(&d->wake);
	pthread_cond_destroy(&d->drained);
	return true;
}
