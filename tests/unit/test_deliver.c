/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/agent/descriptor.h"
#include "client/agent/deliver.h"
#include "client/agent/connection.h"
#include "client/agent/pack.h"
#include "proto/base/arena.h"
#include "proto/base/clock.h"
#include "proto/wire/frame.h"
#include "proto/wire/limits.h"

/* What comes of batches: records, counts of all others, and whole images. A thread of the test's
 * reads what the daemon would. Nobody waits for a time; what is not to happen would take one. */

#define LONG_NS (600 * CLOCK_NS_PER_S)

enum { COLUMNS = 2, MIB = 1 << 20 };

static struct {
	pthread_t thread;
	int fd;
	uint64_t n;				    /* records */
	uint64_t correlations;			    /* sum of theirs */
	uint64_t n_absent;			    /* that have no value */
	uint8_t image[3 * LIMIT_IMAGE_PIECE_BYTES]; /* the last one */
	size_t image_bytes;
	uint64_t image_first, image_count;
	unsigned n_images;
	uint32_t n_strings, n_functions, n_sites, n_sets; /* that are known */
	bool goodbye;
	struct gpuctr_totals totals;
	atomic_bool held;	/* it reads nothing */
	_Atomic size_t at_once; /* and else no more than this each millisecond; 0: all there is */
	atomic_uint n_progress;
	uint64_t counted_ns;	    /* of the last of these */
	size_t n_notices, left_out; /* and how many the last one tells of */
} reader;

static struct deliver d;
static struct connection to_daemon;
static struct intern intern;
static struct counters counters;
static struct wire_agent_welcome welcome;
static atomic_uint n_stopped;
static atomic_bool held, is_held; /* the delivering thread, within a batch */

/* --- the daemon --- */

/* Numbers go on from frame to frame, and what is behind them tells them again. */
static void take_names(const struct wire_record_columns *v)
{
	assert_true(v->strings.n == 0 || v->first_string == reader.n_strings + 1);
	for (size_t i = 0; i < v->strings.n; i++) {
		assert_int_equal(strtoul(v->strings.v[i] + 1, NULL, 10), ++reader.n_strings);
	}
	assert_true(v->function_name.n == 0 || v->first_function == reader.n_functions + 1);
	for (size_t i = 0; i < v->function_name.n; i++) {
		assert_int_equal(v->function_name.v[i], ++reader.n_functions);
		assert_int_equal(v->function_static_shared.v[i], 2 * reader.n_functions);
		assert_int_equal(v->function_registers.v[i], 3 * reader.n_functions);
	}
}

static void take_ranges(const struct wire_record_columns *v)
{
	size_t node = 0;

	assert_true(v->site_parent.n == 0 || v->first_site == reader.n_sites + 1);
	for (size_t i = 0; i < v->site_parent.n; i++) {
		assert_int_equal(v->site_parent.v[i], reader.n_sites++);
		assert_true(v->site_name.v[i] <= reader.n_strings);
		assert_int_equal(v->site_color.v[i], 5 * reader.n_sites);
		assert_int_equal(v->site_kind.v[i], reader.n_sites % 5);
		assert_int_equal(v->site_numbered.v[i], reader.n_sites % 3);
	}
	assert_true(v->set_size.n == 0 || v->first_set == reader.n_sets + 1);
	for (size_t i = 0; i < v->set_size.n; i++) {
		reader.n_sets++;
		assert_int_equal(v->set_size.v[i], 1 + reader.n_sets % 2);
		for (uint32_t k = 0; k < v->set_size.v[i]; k++) {
			assert_int_equal(v->set_site.v[node++], reader.n_sets + k);
		}
	}
}

/* Values tell of which launch they are, and so does the time. */
static void take_columns(const struct wire_records *m)
{
	struct wire_message inner;
	const struct wire_record_columns *v = &inner.record_columns;
	struct arena a;
	int64_t start_ns = 0;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_decode(&a, WIRE_RECORD_COLUMNS, m->columns.v, m->columns.n, &inner),
			 0);
	assert_int_equal(m->count, v->correlation.n);
	assert_true(m->count == 0 || m->first == reader.n);
	for (size_t i = 0; i < v->correlation.n; i++) {
		double value = v->values.v[i * COLUMNS];

		start_ns += v->start_ns.v[i];
		assert_int_equal(start_ns, 1000 * v->correlation.v[i]);
		if (isnan(value)) {
			assert_true(isnan(v->values.v[i * COLUMNS + 1]));
			reader.n_absent++;
		} else {
			assert_int_equal((uint64_t)value, v->correlation.v[i]);
			assert_int_equal((uint64_t)v->values.v[i * COLUMNS + 1],
					 2 * v->correlation.v[i]);
		}
		reader.correlations += v->correlation.v[i];
	}
	reader.n += m->count;
	take_names(v);
	take_ranges(v);
	arena_deinit(&a);
}

static void take_image(const struct wire_raw_image *m)
{
	assert_true(m->size <= sizeof(reader.image));
	memcpy(reader.image + m->offset, m->data.v, m->data.n);
	reader.image_bytes = m->size;
	reader.image_first = m->first;
	reader.image_count = m->count;
	reader.n_images += m->offset + m->data.n == m->size;
}

static void take_frame(const struct frame *f)
{
	struct wire_message m;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_decode(&a, f->type, f->payload, f->size, &m), 0);
	if (m.type == WIRE_RECORDS) {
		take_columns(&m.records);
	} else if (m.type == WIRE_RAW_IMAGE) {
		take_image(&m.raw_image);
	} else if (m.type == WIRE_PROGRESS) {
		assert_true(m.progress.counted_ns >= reader.counted_ns);
		reader.counted_ns = m.progress.counted_ns;
		atomic_fetch_add(&reader.n_progress, 1);
	} else if (m.type == WIRE_NOTICE) {
		reader.n_notices++;
		reader.left_out = strtoul(m.notice.message, NULL, 10);
	} else if (m.type == WIRE_GOODBYE) {
		reader.goodbye = true;
		reader.totals = m.goodbye.totals;
	}
	arena_deinit(&a);
}

static ssize_t read_some(uint8_t *data, size_t bytes)
{
	const struct timespec pause = { 0, CLOCK_NS_PER_MS };
	size_t at_once = reader.at_once;

	while (atomic_load(&reader.held)) {
		nanosleep(&pause, NULL);
	}
	if (at_once > 0) {
		nanosleep(&pause, NULL);
		bytes = at_once < bytes ? at_once : bytes;
	}
	return read(reader.fd, data, bytes);
}

static void *read_all(void *unused)
{
	static uint8_t data[2 * LIMIT_FRAME_BYTES];
	size_t n = 0;
	ssize_t more;

	(void)unused;
	while ((more = read_some(data + n, sizeof(data) - n)) > 0) {
		struct frame f;
		size_t at = 0;

		n += (size_t)more;
		while (frame_parse(data + at, n - at, &f) == 0) {
			take_frame(&f);
			at += FRAME_HEADER_BYTES + f.size;
		}
		memmove(data, data + at, n - at);
		n -= at;
	}
	return NULL;
}

/* --- a capture --- */

/* Every seventh is one that CUPTI knows nothing of. */
static int evaluate(void *userdata, const struct batch *b, double *values, bool *measured)
{
	(void)userdata;
	for (size_t i = 0; i < b->n; i++) {
		measured[i] = b->launches[i].correlation % 7 != 0;
		values[i * COLUMNS] = b->launches[i].correlation;
		values[i * COLUMNS + 1] = 2.0 * b->launches[i].correlation;
	}
	return 0;
}

static void on_stop(void *userdata)
{
	(void)userdata;
	atomic_fetch_add(&n_stopped, 1);
}

static void on_batch(void *userdata, struct batch *b)
{
	const struct timespec pause = { 0, CLOCK_NS_PER_MS };

	(void)userdata;
	(void)b;
	while (atomic_load(&held)) {
		atomic_store(&is_held, true);
		nanosleep(&pause, NULL);
	}
}

static int begin(void **state)
{
	static const struct wire_column columns[COLUMNS];
	int fds[2];

	(void)state;
	memset(&reader, 0, sizeof(reader));
	memset(&counters, 0, sizeof(counters));
	memset(&welcome, 0, sizeof(welcome));
	welcome.plan.columns.n = COLUMNS;
	welcome.plan.columns.v = columns;
	n_stopped = 0;
	held = is_held = false;
	assert_int_equal(intern_init(&intern), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	to_daemon = (struct connection){ .fd = fds[0], .file = descriptor_file(fds[0]) };
	arena_init(&to_daemon.arena, LIMIT_UNPACKED_BYTES);
	arena_init(&to_daemon.scratch, 2 * LIMIT_UNPACKED_BYTES);
	reader.fd = fds[1];
	deliver_init(&d);
	d.connection = &to_daemon;
	d.intern = &intern;
	d.counters = &counters;
	d.welcome = &welcome;
	d.on_stop = on_stop;
	d.on_batch = on_batch;
	d.evaluate = evaluate;
	assert_int_equal(pthread_create(&reader.thread, NULL, read_all, NULL), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_true(deliver_deinit(&d));
	connection_close(&to_daemon);
	arena_deinit(&to_daemon.arena);
	arena_deinit(&to_daemon.scratch);
	buffer_deinit(&to_daemon.in);
	buffer_deinit(&to_daemon.out);
	intern_deinit(&intern);
	close(reader.fd);
	return 0;
}

static void finish(void)
{
	deliver_finish(&d, LONG_NS);
	shutdown(to_daemon.fd, SHUT_RDWR);
	pthread_join(reader.thread, NULL);
}

/* n launches from this number on, with an image of so many bytes that all have this value. */
static struct batch *make_batch(uint32_t first, size_t n, size_t bytes, uint8_t value)
{
	struct batch *b = deliver_new_batch(&d, n);
	uint8_t *image = malloc(bytes);

	assert_non_null(b);
	assert_int_equal(b->n, 0);
	memset(image, value, bytes);
	assert_int_equal(deliver_copy_image(b, image, bytes), 0);
	free(image);
	for (; b->n < n; b->n++) {
		uint32_t correlation = first + (uint32_t)b->n;

		b->launches[b->n] = (struct launch){ .function = 1,
						     .correlation = correlation,
						     .start_ns = 1000 * (uint64_t)correlation };
	}
	return b;
}

static void put(struct batch *b)
{
	deliver_put(&d, b, LONG_NS);
}

/* Until the last one was delivered. */
static void wait_for_spare(void)
{
	const struct timespec pause = { 0, CLOCK_NS_PER_MS };
	bool is = false;

	while (!is) {
		lock_acquire(&d.lock);
		is = d.spare != NULL;
		lock_release(&d.lock);
		nanosleep(&pause, NULL);
	}
}

/* Of the numbers from first on. */
static uint64_t count_measured(uint32_t first, size_t n, uint64_t *ret_sum)
{
	uint64_t measured = 0;

	for (size_t i = 0; i < n; i++) {
		measured += (first + i) % 7 != 0;
		*ret_sum += (first + i) % 7 != 0 ? first + i : 0;
	}
	return measured;
}

/* --- records --- */

#define DELIVER_TEST(f) TEST_WITH(f, begin, end)

DELIVER_TEST(each_launch_is_counted_for_what_it_is)
{
	struct batch *b = make_batch(1, 100, 10, 0);

	b->launches[2].fate = LAUNCH_FILTERED;
	b->launches[3].fate = b->launches[4].fate = LAUNCH_DISTURBED;
	b->launches[7].fate = b->launches[8].fate = b->launches[9].fate = LAUNCH_FAILED;
	assert_int_equal(deliver_start(&d), 0);
	put(b);
	finish();
	assert_true(reader.goodbye);
	assert_int_equal(reader.totals.filtered, 1);
	assert_int_equal(reader.totals.unready, 2);
	assert_int_equal(reader.totals.failed, 3 + 100 / 7);
	assert_int_equal(reader.totals.measured, 100 - 6 - 100 / 7);
	assert_int_equal(reader.n, reader.totals.measured);
	assert_int_equal(reader.totals.dropped, 0);
}

/* Records are numbered on, in frames of their own when there are many. */
DELIVER_TEST(batches_of_any_size_come_whole)
{
	static const size_t sizes[] = { 64, 64, 5000, 1, 64, 2048, 2048, 20000, 3 };
	uint64_t n = 0, sum = 0;
	uint32_t first = 1;

	assert_int_equal(deliver_start(&d), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		put(make_batch(first, sizes[i], 1000, 0));
		n += count_measured(first, sizes[i], &sum);
		first += (uint32_t)sizes[i];
	}
	finish();
	assert_int_equal(reader.n, n);
	assert_int_equal(reader.correlations, sum);
	assert_int_equal(reader.totals.measured, n);
}

/* Launches keep their places; and a buffer that was larger before tells nothing of that. */
DELIVER_TEST(images_are_kept_as_they_are)
{
	static const size_t bytes[] = { 1000, 2500, 700, 2 * LIMIT_IMAGE_PIECE_BYTES + 100,
					1000, 2000 };

	welcome.selection.raw_images = true;
	assert_int_equal(deliver_start(&d), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(bytes); i++) {
		struct batch *b = make_batch(1 + 70 * i, 70, bytes[i], (uint8_t)(i + 1));

		b->launches[1].fate = LAUNCH_FAILED;
		put(b);
		wait_for_spare(); /* which the next one gets */
	}
	finish();
	assert_int_equal(reader.n_images, ARRAY_SIZE(bytes));
	assert_int_equal(reader.image_bytes, 2000);
	assert_int_equal(reader.image_first, 350);
	assert_int_equal(reader.image_count, 70);
	for (size_t i = 0; i < reader.image_bytes; i++) {
		assert_int_equal(reader.image[i], 6);
	}
	assert_int_equal(reader.n, 420);
	assert_int_equal(reader.n_absent, 6 * (10 + 1));
}

/* Before the records that refer to them, and in frames of their own when there are many. */
DELIVER_TEST(definitions_of_any_number_come_in_order)
{
	enum { N = 20000 };
	char name[16];

	for (uint32_t i = 1; i <= N; i++) {
		const struct site_text site = { .parent = i - 1,
						.domain = "",
						.name = "s1",
						.n_name = 2,
						.sizes = "",
						.category = "",
						.color = 5 * i,
						.kind = (uint8_t)(i % 5),
						.numbered = (uint8_t)(i % 3) };
		uint32_t ranges[2] = { i, i + 1 };

		snprintf(name, sizeof(name), "s%u", i);
		assert_int_equal(intern_function(&intern, name, 2 * i, 3 * i), i);
		assert_int_equal(intern_site(&intern, &site), i);
		assert_int_equal(intern_set(&intern, ranges, 1 + i % 2), i);
	}
	assert_int_equal(deliver_start(&d), 0);
	finish();
	assert_int_equal(reader.n_strings, N);
	assert_int_equal(reader.n_functions, N);
	assert_int_equal(reader.n_sites, N);
	assert_int_equal(reader.n_sets, N);
}

/* --- the queue --- */

static void count_dropped(void *userdata, struct batch *b)
{
	*(size_t *)userdata += b->n;
}

DELIVER_TEST(the_queue_is_bounded)
{
	uint32_t first = 1;
	size_t n_dropped = 0;

	d.on_drop = count_dropped;
	d.userdata = &n_dropped;
	for (int i = 0; i < 4; i++, first += 10) { /* before anybody takes them */
		deliver_put(&d, make_batch(first, 10, 6 * MIB, 0), 1);
	}
	assert_int_equal(atomic_load(&counters.dropped), 20);
	assert_int_equal(n_dropped, 20);
	deliver_free_batch(&d, make_batch(1, 1, 10, 0));
	assert_int_equal(deliver_start(&d), 0);
	for (int i = 0; i < 20; i++, first += 10) { /* there is room again, each time */
		put(make_batch(first, 10, 3 * MIB, 0));
	}
	put(make_batch(first, 10, 30 * MIB, 0)); /* one is always taken */
	finish();
	assert_int_equal(reader.totals.dropped, 20);
	assert_int_equal(reader.totals.measured + reader.totals.failed, 20 + 200 + 10);
}

/* With a patience of a second; returns how long it took. */
static uint64_t put_quickly(struct batch *b)
{
	uint64_t begin_ns = clock_now_ns();

	deliver_put(&d, b, CLOCK_NS_PER_S);
	return clock_now_ns() - begin_ns;
}

/* Each of n batches is either delivered or dropped, and launches of both are counted. */
static void expect_all_counted(uint64_t n)
{
	finish();
	assert_true(reader.goodbye);
	assert_true(reader.totals.dropped > 0);
	assert_int_equal(reader.n, reader.totals.measured);
	assert_int_equal(reader.totals.measured + reader.totals.failed + reader.totals.dropped, n);
}

/* The socket is full soon, of images, and then the queue is. */
DELIVER_TEST(nobody_waits_for_a_reader_that_stands_still)
{
	enum { BATCHES = 200 };
	uint64_t took_ns = 0;

	welcome.selection.raw_images = true;
	atomic_store(&reader.held, true);
	assert_int_equal(deliver_start(&d), 0);
	for (uint32_t i = 0; i < BATCHES; i++) {
		took_ns += put_quickly(make_batch(1 + 10 * i, 10, MIB, 0));
	}
	assert_true(took_ns < BATCHES * CLOCK_NS_PER_S / 10);
	assert_true(d.queued_bytes <= DELIVER_QUEUE_BYTES);
	atomic_store(&reader.held, false);
	expect_all_counted(BATCHES * 10);
	assert_in_range(reader.totals.dropped, (BATCHES - 20) * 10, BATCHES * 10);
}

/* A slow one takes a little all the time. */
DELIVER_TEST(nobody_waits_for_a_reader_that_is_slow)
{
	enum { BATCHES = 100, LAUNCHES = 5000 };
	uint64_t took_ns = 0;

	reader.at_once = 512;
	assert_int_equal(deliver_start(&d), 0);
	for (uint32_t i = 0; i < 25; i++) { /* until both are full */
		deliver_put(&d, make_batch(1 + LAUNCHES * i, LAUNCHES, MIB, 0), 0);
	}
	for (uint32_t i = 25; i < BATCHES; i++) {
		took_ns += put_quickly(make_batch(1 + LAUNCHES * i, LAUNCHES, MIB, 0));
	}
	assert_true(took_ns < BATCHES * CLOCK_NS_PER_S / 10);
	reader.at_once = 0;
	expect_all_counted((uint64_t)BATCHES * LAUNCHES);
}

static int evaluate_slowly(void *userdata, const struct batch *b, double *values, bool *measured)
{
	nanosleep(&(struct timespec){ 0, 10 * CLOCK_NS_PER_MS }, NULL);
	return evaluate(userdata, b, values, measured);
}

/* It is not the reader that is slow here. */
DELIVER_TEST(who_evaluates_is_waited_for)
{
	enum { BATCHES = 60 };

	d.evaluate = evaluate_slowly;
	assert_int_equal(deliver_start(&d), 0);
	for (uint32_t i = 0; i < BATCHES; i++) {
		put(make_batch(1 + 10 * i, 10, 3 * MIB, 0));
	}
	finish();
	assert_int_equal(reader.totals.dropped, 0);
	assert_int_equal(reader.totals.measured + reader.totals.failed, BATCHES * 10);
}

DELIVER_TEST(notices_are_bounded)
{
	enum { NOTICES = 5000 };
	char text[1001];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < NOTICES; i++) {
		deliver_notice(&d, GPUCTR_OK, text, "");
	}
	assert_int_equal(deliver_start(&d), 0);
	finish();
	assert_in_range(reader.n_notices, 500, MIB / 1000 + 1);
	assert_int_equal(reader.n_notices - 1 + reader.left_out, NOTICES);
}

/* Names of kernels that had no room: their launches cannot be told, and are counted. */
DELIVER_TEST(a_launch_without_a_kernel_is_dropped)
{
	assert_int_equal(deliver_start(&d), 0);
	for (uint32_t k = 0; k < 2; k++) { /* an image is told whole or not at all */
		struct batch *b = make_batch(1 + 14 * k, 14, 1000, 1);

		b->launches[0].function = b->launches[13].function = 0;
		b->launches[2].function = 0; /* is counted for what became of it */
		b->launches[2].fate = LAUNCH_FILTERED;
		if (k == 0) {
			put(b);
			wait_for_spare();
			assert_int_equal(atomic_load(&counters.dropped), 2);
			welcome.selection.raw_images = true;
		} else {
			put(b);
		}
	}
	finish();
	assert_int_equal(reader.totals.dropped, 2 + 14);
	assert_int_equal(reader.totals.filtered, 1);
	assert_int_equal(reader.totals.failed, 1); /* 7; 14 is among those without */
	assert_int_equal(reader.totals.measured, 10);
	assert_int_equal(reader.n, 10);
	assert_int_equal(reader.n_images, 0);
}

static bool put_some(void *userdata)
{
	unsigned *n = userdata;

	for (uint32_t i = 0; *n == 0 && i < 5; i++) {
		put(make_batch(1 + 10 * i, 10, 3 * MIB, 0));
	}
	++*n;
	return true;
}

/* What is old is flushed by the thread that delivers. */
DELIVER_TEST(who_delivers_does_not_wait_for_itself)
{
	unsigned n = 0;

	d.on_idle = put_some;
	d.userdata = &n;
	deliver_put(&d, make_batch(1001, 10, 10, 0), 0);
	assert_int_equal(deliver_start(&d), 0);
	while (atomic_load(&counters.measured) < 60 - 60 / 7 - 1) {
		const struct timespec pause = { 0, CLOCK_NS_PER_MS };

		nanosleep(&pause, NULL);
	}
	finish();
	assert_true(n > 0);
	assert_int_equal(reader.totals.dropped, 0);
	assert_int_equal(reader.totals.measured + reader.totals.failed, 60);
}

DELIVER_TEST(what_comes_too_late_is_counted)
{
	assert_int_equal(deliver_start(&d), 0);
	put(make_batch(1, 10, 10, 0));
	finish();
	put(make_batch(11, 5, 10, 0));
	assert_int_equal(atomic_load(&counters.dropped), 5);
	assert_int_equal(reader.totals.measured + reader.totals.failed, 10);
}

/* --- counts --- */

/* As CUPTI's records are waited for: until counts have come twice, or a time has passed in which
 * they would have. */
static void wait_for_counts(void *userdata, struct batch *b)
{
	const struct timespec pause = { 0, CLOCK_NS_PER_MS };
	uint64_t by_ns = clock_now_ns() + 20 * CLOCK_NS_PER_S;
	unsigned first = atomic_load(&reader.n_progress);
	unsigned *ret = userdata;

	(void)b;
	while (*ret < 2 && clock_now_ns() < by_ns) {
		nanosleep(&pause, NULL);
		deliver_tell_progress(&d);
		*ret = atomic_load(&reader.n_progress) - first;
	}
}

/* Also if they do not change: it is their time that does. */
DELIVER_TEST(counts_are_sent_while_the_thread_waits)
{
	uint64_t begin_ns = clock_wall_ns();
	unsigned n = 0;

	d.on_batch = wait_for_counts;
	d.userdata = &n;
	put(make_batch(1, 10, 10, 0));
	assert_int_equal(deliver_start(&d), 0);
	finish();
	assert_true(n >= 2);
	assert_in_range(reader.counted_ns, begin_ns, clock_wall_ns());
}

/* --- the end --- */

DELIVER_TEST(without_a_daemon_all_is_counted_as_dropped)
{
	shutdown(reader.fd, SHUT_RDWR);
	put(make_batch(1, 10, 10, 0)); /* is the first to find out */
	assert_int_equal(deliver_start(&d), 0);
	for (uint32_t i = 1; i < 50; i++) {
		put(make_batch(1 + 10 * i, 10, 3 * MIB, 0));
	}
	while (atomic_load(&n_stopped) == 0) { /* the capture is told */
		const struct timespec pause = { 0, CLOCK_NS_PER_MS };

		nanosleep(&pause, NULL);
	}
	deliver_finish(&d, LONG_NS);
	pthread_join(reader.thread, NULL);
	assert_int_equal(atomic_load(&counters.dropped) + atomic_load(&counters.failed), 500);
	assert_int_equal(atomic_load(&counters.measured), 0);
}

/* A program that exits waits so long, whatever holds the thread up. */
DELIVER_TEST(the_end_is_not_waited_for_longer)
{
	const struct timespec pause = { 0, CLOCK_NS_PER_MS };

	atomic_store(&held, true);
	assert_int_equal(deliver_start(&d), 0);
	put(make_batch(1, 10, 10, 0));
	while (!atomic_load(&is_held)) {
		nanosleep(&pause, NULL);
	}
	deliver_finish(&d, 10 * CLOCK_NS_PER_MS);
	assert_false(deliver_deinit(&d)); /* it is at work still */
	atomic_store(&held, false);
	finish();
	assert_true(reader.goodbye);
}
