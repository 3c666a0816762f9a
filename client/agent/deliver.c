/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/deliver.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/evaluate.h"
#include "client/agent/lock.h"
#include "client/agent/pack.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "proto/wire/status.h"

/* The queue is bounded in bytes. If a program measures faster than the client reads, its thread
 * waits a little at the end of a batch; then the agent drops whole batches and counts their
 * launches. Buffers are recycled, because page faults in a fresh image of some MiB cost more than
 * copying the data; one image is kept.
 *
 * The thread blocks all signals, so that the program's own threads handle them. When the connection
 * breaks, the thread goes on taking batches and drops them, so that the program never waits for a
 * daemon that has ended. */

enum { TICK_MS = 250, SEND_TIMEOUT_S = 60, SPARES_MAX = 2 };

struct note {
	struct list link;
	size_t bytes;
	uint8_t frame[];
};

void deliver_init(struct deliver *d)
{
	*d = (struct deliver){ 0 };
	list_init(&d->queue);
	list_init(&d->spare);
	list_init(&d->notes);
	lock_init(&d->lock, LOCK_LEAF);
	lock_init(&d->connection_lock, LOCK_CONNECTION);
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
		.unchosen = atomic_load(&c->unchosen),
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
	free(b->launches);
	free(b->image);
	free(b);
}

static struct batch *take_spare(struct deliver *d, size_t n)
{
	struct batch *found = NULL;

	LOCK_SCOPE(&d->lock);
	list_for_each(l, &d->spare) {
		struct batch *b = list_entry(l, struct batch, link);

		if (b->room == n) {
			found = b;
			list_remove(&b->link);
			break;
		}
	}
	return found;
}

struct batch *deliver_new_batch(struct deliver *d, size_t n)
{
	struct batch *b = take_spare(d, n);

	if (b) {
		b->n = 0;
		return b;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		return NULL;
	}
	list_init(&b->link);
	b->launches = malloc(n * sizeof(*b->launches));
	if (!b->launches) {
		batch_free(b);
		return NULL;
	}
	b->room = n;
	return b;
}

int deliver_copy_image(struct deliver *d, struct batch *b, const uint8_t *image, size_t bytes)
{
	lock_acquire(&d->lock);
	if (d->spare_image_room >= bytes) {
		b->image = d->spare_image;
		b->image_room = d->spare_image_room;
		d->spare_image = NULL;
		d->spare_image_room = 0;
	}
	lock_release(&d->lock);
	if (!b->image) {
		b->image = malloc(bytes);
		b->image_room = bytes;
	}
	if (!b->image) {
		return -ENOMEM;
	}
	memcpy(b->image, image, bytes);
	b->image_size = bytes;
	return 0;
}

/* With the lock held. Keeps the larger one of this image and the spare one. */
static void recycle_image(struct deliver *d, struct batch *b)
{
	if (b->image && b->image_room >= d->spare_image_room) {
		free(d->spare_image);
		d->spare_image = b->image;
		d->spare_image_room = b->image_room;
	} else {
		free(b->image);
	}
	b->image = NULL;
	b->image_size = 0;
}

/* Keeps the newest few batches: when batches grow, the smaller ones are freed. */
void deliver_free_batch(struct deliver *d, struct batch *b)
{
	unsigned n = 0;

	if (!b) {
		return;
	}
	lock_acquire(&d->lock);
	recycle_image(d, b);
	list_append(&d->spare, &b->link);
	list_for_each(l, &d->spare) {
		n++;
	}
	if (n > SPARES_MAX) {
		b = list_entry(d->spare.next, struct batch, link);
		list_remove(&b->link);
	} else {
		b = NULL;
	}
	lock_release(&d->lock);
	if (b) {
		batch_free(b);
	}
}

static bool takes_batches(const struct deliver *d)
{
	return atomic_load(&d->state) < CAPTURE_LEAVING;
}

static bool is_finishing(const struct deliver *d)
{
	return atomic_load(&d->state) >= CAPTURE_DELIVERING;
}

/* An empty queue takes a batch of any size. The delivering thread may always add batches, because
 * it cannot wait for itself. */
static bool has_room(const struct deliver *d, const struct batch *b)
{
	return d->queued_bytes == 0 || d->queued_bytes + batch_bytes(b) <= DELIVER_QUEUE_BYTES ||
	       (d->started && pthread_equal(pthread_self(), d->thread));
}

static void drop(struct deliver *d, struct batch *b)
{
	if (d->on_drop) {
		d->on_drop(d->userdata, b);
	}
	atomic_fetch_add(&d->counters->dropped, b->n);
}

void deliver_put(struct deliver *d, struct batch *b, uint64_t patience_ns)
{
	uint64_t by_ns = clock_now_ns() + patience_ns;
	bool taken = false;

	lock_acquire(&d->lock);
	while (takes_batches(d) && !has_room(d, b) &&
	       lock_wait_until(&d->lock, &d->drained, by_ns)) {
	}
	if (takes_batches(d) && has_room(d, b)) {
		list_append(&d->queue, &b->link);
		d->queued_bytes += batch_bytes(b);
		taken = true;
		pthread_cond_signal(&d->wake);
	}
	lock_release(&d->lock);
	if (!taken) {
		drop(d, b);
		deliver_free_batch(d, b);
	}
}

/* --- notes --- */

void deliver_note(struct deliver *d, const struct wire_message *m)
{
	struct arena scratch;
	struct buffer b = { 0 };
	struct note *n = NULL;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	if (wire_encode(&scratch, &b, m) == 0) {
		n = malloc(sizeof(*n) + buffer_length(&b));
	}
	if (n) {
		n->bytes = buffer_length(&b);
		memcpy(n->frame, b.data + b.start, n->bytes);
		lock_acquire(&d->lock);
		list_append(&d->notes, &n->link);
		pthread_cond_signal(&d->wake);
		lock_release(&d->lock);
	}
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

void deliver_notice_now(struct deliver *d, int code, const char *message, const char *remedy)
{
	const struct wire_message m = make_notice(d, code, message, remedy);

	LOCK_SCOPE(&d->connection_lock);
	if (d->lent) {
		connection_send(d->connection, &m, -1, SEND_TIMEOUT_S * CLOCK_NS_PER_S);
	} else {
		deliver_note(d, &m);
	}
}

static void set_lent(struct deliver *d, bool lent)
{
	LOCK_SCOPE(&d->connection_lock);
	d->lent = lent;
}

void deliver_lend_connection(struct deliver *d)
{
	set_lent(d, true);
}

void deliver_take_connection(struct deliver *d)
{
	set_lent(d, false);
}

static void send_note(struct deliver *d, struct note *n)
{
	struct frame f;
	struct wire_message m;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	if (frame_parse(n->frame, n->bytes, &f) == 0 &&
	    wire_decode(&a, f.type, f.payload, f.size, &m) == 0) {
		connection_send(d->connection, &m, -1, SEND_TIMEOUT_S * CLOCK_NS_PER_S);
	}
	arena_deinit(&a);
	free(n);
}

/* --- the thread --- */

static void send_progress(struct deliver *d, uint64_t *last_seen)
{
	struct wire_message m = {
		.type = WIRE_PROGRESS,
		.progress = { d->welcome->capture, d->welcome->process,
			      counters_read(d->counters) },
	};

	if (m.progress.totals.seen != *last_seen) {
		*last_seen = m.progress.totals.seen;
		connection_send(d->connection, &m, -1, SEND_TIMEOUT_S * CLOCK_NS_PER_S);
	}
}

/* The counter of a launch that has no values; NULL: the launch was measured. */
static atomic_uint_fast64_t *count_of(struct counters *c, const struct launch *l, bool measured)
{
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

/* Launches that failed or are filtered leave no record; each is counted by its fate. */
static size_t keep_measured(struct deliver *d, struct batch *b, double *values,
			    const bool *measured)
{
	size_t n_columns = d->welcome->plan.columns.n, kept = 0;

	for (size_t i = 0; i < b->n; i++) {
		atomic_uint_fast64_t *count = count_of(d->counters, &b->launches[i], measured[i]);

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

/* Launches that stay without having been measured get no values. */
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

		r = connection_send(d->connection, &m, -1, SEND_TIMEOUT_S * CLOCK_NS_PER_S);
		offset += n;
	}
	return r;
}

static void send_batch(struct deliver *d, struct batch *b, double *values, bool *measured)
{
	size_t n = b->n, kept;
	char text[256];
	int result;

	result = d->evaluate ? d->evaluate(d->userdata, b, values, measured)
			     : evaluate_batch(b->plan ? b->plan : &d->welcome->plan, b, values,
					      measured);
	if (result != CUPTI_SUCCESS) {
		snprintf(text, sizeof(text), "CUPTI could not evaluate some kernels (%s, %d)",
			 host_result_name(b->host->v, result), result);
		deliver_notice(d, GPUCTR_E_PROFILER, text, "");
	}
	/* Images are kept whole, so their launches must stay numbered as in the image. */
	if (d->welcome->selection.raw_images) {
		kept = n;
		blank_others(d, b, values, measured);
		result = send_image(d, b, d->next_index);
	} else {
		kept = keep_measured(d, b, values, measured);
	}
	if (d->on_values) {
		d->on_values(d->userdata, b->launches, kept, values);
	}
	if (pack_send(d->connection, d->welcome, d->intern, b->launches, kept, values,
		      d->next_index) == 0) {
		atomic_fetch_add(&d->counters->measured, kept);
		d->next_index += kept;
	} else {
		atomic_fetch_add(&d->counters->dropped, kept);
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
	if (d->on_batch) {
		d->on_batch(d->userdata, b);
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

	if (d->connection->fd < 0) {
		d->on_stop(d->userdata, GPUCTR_E_NO_DAEMON, "");
		return;
	}
	if (connection_receive(d->connection, &m, 0) == 0 && m.type == WIRE_AGENT_STOP) {
		d->on_stop(d->userdata, m.agent_stop.code, m.agent_stop.message);
	}
}

static struct note *take_note(struct deliver *d)
{
	struct note *n = NULL;

	if (!list_is_empty(&d->notes)) {
		n = list_entry(d->notes.next, struct note, link);
		list_remove(&n->link);
	}
	return n;
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

/* Is the next tick due? Then the time of the one after it is set here; deliver_kick() may make that
 * one due at once. */
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

/* Waits, up to the next tick, for a note or a batch, and processes one; does the periodic work if
 * due. Returns false when the capture is finishing and nothing is queued. */
static bool work_once(struct deliver *d, uint64_t *last_seen)
{
	struct batch *b = NULL;
	struct note *n;
	bool finishing;

	lock_acquire(&d->lock);
	while (list_is_empty(&d->queue) && list_is_empty(&d->notes) && !is_finishing(d) &&
	       lock_wait_until(&d->lock, &d->wake, d->next_tick_ns)) {
	}
	n = take_note(d);
	b = n ? NULL : take_batch(d);
	finishing = is_finishing(d);
	lock_release(&d->lock);
	if (n) {
		send_note(d, n);
	}
	if (b) {
		size_t bytes = batch_bytes(b);

		process_batch(d, b);
		deliver_free_batch(d, b);
		lock_acquire(&d->lock);
		d->queued_bytes -= bytes;
		pthread_cond_broadcast(&d->drained);
		lock_release(&d->lock);
	}
	if (take_tick(d)) {
		send_progress(d, last_seen);
		/* Marks and ranges do not wait for a kernel: they would only gather. */
		pack_send(d->connection, d->welcome, d->intern, NULL, 0, NULL, d->next_index);
		if (!finishing) {
			check_connection(d);
		}
		if (!finishing && d->on_idle) {
			d->on_idle(d->userdata);
		}
	}
	return n || b || !finishing;
}

/* Closes the queue, and counts batches that came in the last moment as dropped. */
static void drop_late(struct deliver *d)
{
	struct batch *b;

	lock_acquire(&d->lock);
	state_move(&d->state, CAPTURE_LEAVING);
	pthread_cond_broadcast(&d->drained);
	while ((b = take_batch(d)) != NULL) {
		lock_release(&d->lock);
		drop(d, b);
		batch_free(b);
		lock_acquire(&d->lock);
	}
	lock_release(&d->lock);
}

/* Reports dropped marks in a notice. Marks are not numbered, so the client could not notice a gap.
 */
static void tell_marks_dropped(struct deliver *d)
{
	uint64_t n = intern_marks_dropped(d->intern);
	char text[160];
	struct wire_message m = {
		.type = WIRE_NOTICE,
		.notice = { d->welcome->capture, d->welcome->process, GPUCTR_E_QUOTA, text,
			    "Set fewer marks, or use ranges, which cost nothing without a kernel "
			    "in them." },
	};

	if (n > 0) {
		snprintf(text, sizeof(text),
			 "%llu NVTX marks were left out: a process may set %d in a quarter of a "
			 "second",
			 (unsigned long long)n, INTERN_MARKS_MAX);
		connection_send(d->connection, &m, -1, SEND_TIMEOUT_S * CLOCK_NS_PER_S);
	}
}

static void become_thread(struct deliver *d)
{
	LOCK_SCOPE(&d->lock);
	if (!d->started) {
		d->thread = pthread_self();
		d->started = true;
	}
}

void deliver_run(struct deliver *d)
{
	uint64_t last_seen = 0;
	struct wire_message bye = { .type = WIRE_GOODBYE };

	become_thread(d);
	while (work_once(d, &last_seen)) {
	}
	drop_late(d);
	if (d->on_end) {
		d->on_end(d->userdata);
	}
	pack_send(d->connection, d->welcome, d->intern, NULL, 0, NULL, d->next_index);
	tell_marks_dropped(d);
	bye.goodbye.totals = counters_read(d->counters);
	connection_send(d->connection, &bye, -1, SEND_TIMEOUT_S * CLOCK_NS_PER_S);
	LOCK_SCOPE(&d->lock);
	state_move(&d->state, CAPTURE_OVER);
	pthread_cond_broadcast(&d->drained);
}

static void *run(void *argument)
{
	deliver_run(argument);
	return NULL;
}

int deliver_start(struct deliver *d)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	lock_acquire(&d->lock);
	r = pthread_create(&d->thread, NULL, run, d);
	d->started = r == 0;
	lock_release(&d->lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		return -r;
	}
	pthread_setname_np(d->thread, "gpuctr");
	pthread_detach(d->thread);
	return 0;
}

void deliver_request_finish(struct deliver *d)
{
	LOCK_SCOPE(&d->lock);
	state_move(&d->state, CAPTURE_DELIVERING);
	pthread_cond_signal(&d->wake);
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

	if (!d->started) {
		return;
	}
	deliver_request_finish(d);
	LOCK_SCOPE(&d->lock);
	d->next_tick_ns = 0;
	pthread_cond_signal(&d->wake);
	while (atomic_load(&d->state) != CAPTURE_OVER &&
	       lock_wait_until(&d->lock, &d->drained, by_ns)) {
	}
}

static void free_batches(struct list *batches)
{
	list_for_each_safe(l, batches) {
		batch_free(list_entry(l, struct batch, link));
	}
}

bool deliver_deinit(struct deliver *d)
{
	struct note *n;
	bool in_use;

	lock_acquire(&d->lock);
	in_use = d->started && atomic_load(&d->state) != CAPTURE_OVER;
	lock_release(&d->lock);
	if (in_use) {
		return false;
	}
	while ((n = take_note(d)) != NULL) {
		free(n);
	}
	free_batches(&d->queue);
	free_batches(&d->spare);
	free(d->spare_image);
	lock_deinit(&d->lock);
	lock_deinit(&d->connection_lock);
	pthread_cond_destroy(&d->wake);
	pthread_cond_destroy(&d->drained);
	return true;
}
