/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/buffer.h"
#include "tests/system/recorder.h"
#include "tests/system/sample.h"

/* Readers that stop reading. Everything between them and the kernels is bounded: who produces
 * waits, goes on when they read again, and what was left out meanwhile is counted. */

enum { BATCH_RECORDS = 1000, MIB = 1 << 20 };

/* --- agents of a client that does not read --- */

struct producer {
	int socket;
	uint32_t capture, process;
	struct buffer frame; /* what is left of the batch on its way */
	uint64_t records;    /* that have been given to the socket, the one on its way included */
	size_t bytes;
};

/* Until the socket takes nothing for so long. */
static void produce(struct producer *p, uint64_t records, int patience_ms)
{
	const struct timeval patience = { .tv_usec = patience_ms * 1000 };

	assert_int_equal(
		setsockopt(p->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
	while (p->records < records || buffer_length(&p->frame) > 0) {
		ssize_t n;

		if (buffer_length(&p->frame) == 0) {
			sample_put_records(&p->frame, p->capture, p->process, p->records,
					   BATCH_RECORDS, 1);
			p->records += BATCH_RECORDS;
		}
		n = send(p->socket, p->frame.data + p->frame.start, buffer_length(&p->frame),
			 MSG_NOSIGNAL);
		if (n < 0) {
			assert_int_equal(errno, EAGAIN); /* and not closed */
			return;
		}
		p->bytes += (size_t)n;
		buffer_consume(&p->frame, (size_t)n);
	}
}

static void open_samples(struct recorder *r, struct fixture *f)
{
	struct gpuctr_capture_options o = recorder_options();

	o.metrics = sample_metrics;
	o.n_metrics = SAMPLE_METRICS;
	recorder_connect(r, f, USER_ANN);
	recorder_open(r, &o);
	recorder_until(r, &r->ready);
}

/* The front holds 2 MiB and a little for a client; the sockets hold less than that. */
static void agents_wait_for_a_client_that_does_not_read(void **state)
{
	struct fixture *f = *state;
	struct producer p = { 0 };
	struct recorder r;
	uint64_t stopped_at;

	fixture_start_daemon(f, NULL);
	open_samples(&r, f);
	p.socket = raw_agent(f, USER_ANN, recorder_token(&r), &p.process);
	p.capture = r.id;
	sample_put_definitions(&p.frame, p.capture, p.process);
	for (uint64_t by = now_ms() + PATIENCE_MS; p.bytes < 2 * MIB && now_ms() < by;) {
		produce(&p, 1000000, 900); /* the front may stand still before it holds so much */
	}
	assert_true(p.records < 1000000);
	print_message("the agent waits after %zu KiB, %llu records\n", p.bytes / 1024,
		      (unsigned long long)p.records);
	assert_in_range(p.bytes, 2 * MIB, 5 * MIB);
	stopped_at = p.records;
	for (int i = 0; i < 1000 && p.records < stopped_at + 20 * BATCH_RECORDS; i++) {
		recorder_for(&r, 20);
		produce(&p, stopped_at + 20 * BATCH_RECORDS, 20);
	}
	while (buffer_length(&p.frame) > 0) {
		recorder_for(&r, 20);
		produce(&p, p.records, 20);
	}
	assert_int_equal(p.records, stopped_at + 20 * BATCH_RECORDS);
	recorder_until_records(&r, p.records);
	assert_int_equal(r.records, p.records);
	assert_int_equal(r.disorder + r.gaps, 0);
	buffer_deinit(&p.frame);
	close(p.socket);
	recorder_close(&r);
	recorder_disconnect(&r);
}

/* --- the program's own agent --- */

enum { KERNELS = 200000, WINDOW_MS = 3000, WINDOWS = 12, TRICKLE_BYTES = 512 << 10 };

/* Bytes that the program has printed: some forty for each launch. */
static off_t printed(const struct program *p)
{
	struct stat st;

	assert_int_equal(stat(p->out, &st), 0);
	return st.st_size;
}

/* count_text() would take the square of that under the address sanitizer. */
static size_t count_lines(const struct program *p)
{
	CLEAN_FREE char *text = read_file(p->out);
	size_t n = 0;

	for (const char *c = text; *c; c++) {
		n += *c == '\n';
	}
	return n;
}

/* Does it trickle, and has it run before? Where others compute it is slow from the beginning. */
static bool comes_to_trickle(const struct program *p)
{
	off_t before = 0, now = 0;
	bool trickles = false;

	for (int i = 0; i < WINDOWS && !trickles; i++) {
		before = printed(p);
		sleep_ms(WINDOW_MS);
		now = printed(p);
		trickles = before > 3 * TRICKLE_BYTES && now - before < TRICKLE_BYTES;
	}
	print_message("%lld bytes of launches, %lld of them in the last %d ms\n", (long long)now,
		      (long long)(now - before), WINDOW_MS);
	return trickles && now > before && count_lines(p) < KERNELS;
}

/* Nobody reads for a while, then all is read. Was it so long that launches were dropped? */
static bool run_unread(struct fixture *f)
{
	struct recorder r;
	struct program *p;
	bool trickled;

	recorder_connect(&r, f, USER_ANN);
	p = recorder_start(&r, f, FAKEAPP, "--kernels", "200000", "--print", NULL);
	trickled = comes_to_trickle(p);
	while (program_is_running(p)) {
		recorder_for(&r, 20);
	}
	expect_exit(p, 0);
	recorder_close(&r);
	assert_int_equal(r.totals.seen, KERNELS);
	assert_int_equal(r.totals.measured + r.totals.dropped, KERNELS);
	assert_int_equal(r.records, r.totals.measured);
	expect_balance(&r.totals);
	recorder_disconnect(&r);
	return trickled && r.totals.dropped > 0;
}

/* Its queue is full as well in the end. Then each batch, of 2048 launches at most, waits a second
 * for room and is dropped: the program trickles where it ran before, and neither stands still nor
 * fills its memory. One that just did not run is begun anew. */
static void a_program_goes_on_slowly_when_nobody_reads(void **state)
{
	struct fixture *f = *state;
	bool trickled = false;

	fixture_limit(280); /* windows, and all that was held up by them, also under a sanitizer */
	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 4 && !trickled; i++) {
		trickled = run_unread(f);
	}
	assert_true(trickled);
}

/* --- the client's own reader --- */

/* Reads all there is, and counts the records in it. */
static size_t read_stream(int fd)
{
	static const char mark[] = "\"type\":\"kernel\"";
	char text[65536];
	size_t n = 0, kept = 0;
	ssize_t got;

	while ((got = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		size_t end = kept + (size_t)got;

		text[end] = '\0';
		for (const char *p = text; (p = strstr(p, mark)) != NULL; p += sizeof(mark) - 1) {
			n++;
		}
		/* A mark may come in two pieces. */
		kept = end < sizeof(mark) - 2 ? end : sizeof(mark) - 2;
		memmove(text, text + end - kept, kept);
	}
	return n;
}

/* A pipe whose reader waits for the program's end: 64 MiB wait for it, the rest is left out. */
static void records_left_out_of_a_stream_are_told(void **state)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "pipe");
	struct program *client;
	CLEAN_FD int fd = -1;
	uint64_t left_out, measured;
	size_t n;

	fixture_limit(150);
	fixture_start_daemon(f, NULL);
	assert_int_equal(mkfifo(path, 0666), 0);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--format",
				"jsonl", "--output", path, "--", FAKEAPP, "--kernels", "220000",
				NULL);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	expect_text_soon(client->out, "done 220000");
	sleep_ms(1500);
	n = read_stream(fd);
	expect_exit(client, 0);
	left_out = message_number(client, " records are not in the stream");
	measured = message_number(client, " measured");
	print_message("%zu records in the stream, %llu left out\n", n,
		      (unsigned long long)left_out);
	assert_true(left_out > 0);
	assert_int_equal(n + left_out, measured);
	assert_int_equal(measured + message_number(client, " dropped"), 220000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(agents_wait_for_a_client_that_does_not_read),
		SYSTEM_TEST(a_program_goes_on_slowly_when_nobody_reads),
		SYSTEM_TEST(records_left_out_of_a_stream_are_told),
	};

	return SYSTEM_RUN(tests);
}
