/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/buffers.h"

#include <stdlib.h>

#include "proto/base/clock.h"

/* CUPTI has a place of 32 bytes for each kernel's times, which the GPU writes. It uses a block of
 * 100,000 places again when it has returned all records of the block. If CUPTI gets no buffer it
 * drops a record, whose place it never uses again: 250,000 dropped records took 10 MiB more, up to
 * 1 GiB in all, and then no kernel has a time (H200, CUPTI 2025.3). So a thread that is behind gets
 * surplus buffers, and their records are discarded.
 *
 * A forced flush also returns the buffers in which a kernel has not ended. When such buffers were
 * freed at once, programs crashed in one of some hundred captures; the one crash that was traced
 * was a SIGSEGV of CUPTI's own thread at the end of a record (H100, CUPTI 2025.3). Most likely that
 * thread was still writing such a buffer. So buffers from a forced flush rest for two seconds
 * before they are used again or freed.
 *
 * CUPTI has one user of its records in a process: when the program registers itself, CUPTI gives
 * our buffers to the program, which frees them, and might give us the program's. So a buffer is
 * what malloc() returned, without data of our own, and only listed ones are ours. */

enum {
	REST_MS = 2000,
	REST_LEAST_MS = 200, /* if no other buffer is left */
	SURPLUS_BYTES = 64 * 1024,
	SURPLUS_MAX = 1024,
	SURPLUS_MANY = 512, /* beyond this all records are discarded */
};

struct buffer_head {
	struct buffer_head *next;
	void *data; /* CUPTI wants 8 bytes of alignment */
	size_t bytes;
	uint64_t returned_ns;
	unsigned mark; /* value of buffers.mark when CUPTI got the buffer */
	bool surplus;
};

static struct buffer_head *pop(struct buffer_head **list)
{
	struct buffer_head *head = *list;

	*list = head ? head->next : NULL;
	return head;
}

static void push(struct buffer_head **list, struct buffer_head *head)
{
	head->next = *list;
	*list = head;
}

static void append(struct buffer_head **list, struct buffer_head *head)
{
	while (*list) {
		list = &(*list)->next;
	}
	push(list, head);
}

static size_t *count_of(struct buffers *b, bool surplus)
{
	return surplus ? &b->n_surplus : &b->n;
}

static void forget(struct buffers *b, struct buffer_head *head)
{
	--*count_of(b, head->surplus);
	free(head);
}

static void discard(struct buffers *b, struct buffer_head *head)
{
	free(head->data);
	forget(b, head);
}

/* The link in the list that points to the buffer; *link is NULL if the buffer is not ours. */
static struct buffer_head **find_given(struct buffers *b, const void *data)
{
	struct buffer_head **at = &b->given;

	while (*at && (*at)->data != data) {
		at = &(*at)->next;
	}
	return at;
}

static struct buffer_head *take_given(struct buffers *b, const void *data)
{
	struct buffer_head **at = find_given(b, data);

	if (!*at) {
		return NULL;
	}
	b->n_given--;
	b->n_marked -= (*at)->mark != b->mark;
	return pop(at);
}

static struct buffer_head *make(struct buffers *b, bool surplus)
{
	size_t bytes = surplus ? SURPLUS_BYTES : b->bytes;
	size_t *n = count_of(b, surplus);
	struct buffer_head *head =
		*n < (surplus ? SURPLUS_MAX : b->max) ? malloc(sizeof(*head)) : NULL;
	struct buffer_head *lost;

	if (!head) {
		return NULL;
	}
	*head = (struct buffer_head){ .data = malloc(bytes), .bytes = bytes, .surplus = surplus };
	++*n;
	if (!head->data) {
		forget(b, head);
		return NULL;
	}
	lost = take_given(b, head->data); /* the program has freed that buffer */
	if (lost) {
		forget(b, lost);
	}
	return head;
}

static struct buffer_head *take_rested(struct buffers *b, unsigned ms)
{
	const struct buffer_head *oldest = b->resting;
	bool rested = oldest && clock_now_ns() >= oldest->returned_ns + ms * CLOCK_NS_PER_MS;

	return rested ? pop(&b->resting) : NULL;
}

static void discard_rested(struct buffers *b)
{
	struct buffer_head *head;

	while ((head = take_rested(b, REST_MS))) {
		discard(b, head);
	}
}

void buffers_begin(struct buffers *b, size_t bytes, size_t max)
{
	b->bytes = bytes;
	b->max = max;
	b->over = false;
	discard_rested(b);
}

static bool is_of_now(const struct buffers *b, const struct buffer_head *head)
{
	return head->bytes == b->bytes && !head->surplus;
}

static struct buffer_head *reuse(struct buffers *b, unsigned rested_ms)
{
	return b->resting && is_of_now(b, b->resting) ? take_rested(b, rested_ms) : NULL;
}

static struct buffer_head *take(struct buffers *b)
{
	struct buffer_head *head = pop(&b->spare);

	if (b->resting && !is_of_now(b, b->resting)) {
		discard_rested(b);
	}
	head = head ? head : reuse(b, REST_MS);
	head = head ? head : make(b, false);
	head = head ? head : reuse(b, REST_LEAST_MS);
	return head ? head : make(b, true);
}

void *buffers_give(struct buffers *b, size_t *ret_bytes)
{
	struct buffer_head *head = take(b);

	*ret_bytes = 0;
	if (!head) {
		return NULL;
	}
	head->mark = b->mark;
	b->n_given++;
	*ret_bytes = head->bytes;
	push(&b->given, head);
	return head->data;
}

bool buffers_know(struct buffers *b, const void *data, bool *ret_is_given_up)
{
	const struct buffer_head *head = *find_given(b, data);

	*ret_is_given_up = (head && head->surplus) || b->n_surplus > SURPLUS_MANY;
	return head != NULL;
}

void buffers_take_back(struct buffers *b, void *data)
{
	struct buffer_head *head = take_given(b, data);

	if (!head) {
		return;
	}
	if (b->forcing > 0) {
		head->returned_ns = clock_now_ns();
		append(&b->resting, head);
	} else if (!b->over && is_of_now(b, head)) {
		push(&b->spare, head);
	} else {
		discard(b, head);
	}
}

void buffers_mark(struct buffers *b)
{
	b->mark++;
	b->n_marked = b->n_given;
}

void buffers_end(struct buffers *b)
{
	struct buffer_head *head;

	b->over = true;
	while ((head = pop(&b->spare))) {
		discard(b, head);
	}
	discard_rested(b);
}
