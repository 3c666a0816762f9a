/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/buffer.h"
#include "tests/system/built.h"
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
SYSTEM_TEST(agents_wait_for_a_client_that_does_not_read)
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

enum { WARM_MS = 1000, WINDOW_MS = 2000, WINDOWS = 3, GROWTH_KIB = 64 << 10 };

/* Bytes that the program prints in a window: some forty for each launch. */
static off_t print_some(const struct program *p)
{
	struct stat before, after;

	assert_int_equal(stat(p->out, &before), 0);
	sleep_ms(WINDOW_MS);
	assert_int_equal(stat(p->out, &after), 0);
	return after.st_size - before.st_size;
}

/* Sanitizers keep what is freed, and make a program so slow that it does not fill its queue. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

struct pressed {
	const char *option, *value, *names;
};

/* Is its pace with a client that is stopped most of that with one that reads? False: the machine
 * did something else, or was so slow that not all was full on the way: the next try waits longer
 * then. */
static bool keeps_pace(struct fixture *f, const struct pressed *how, unsigned *full_ms)
{
	struct program *client = fixture_client(f, USER_ANN, "-f", "-o", fixture_path(f, "file"),
						how->option, how->value, "--", FAKEAPP, "--kernels",
						"100000000", "--until", fixture_path(f, "over"),
						"--print", "--nvtx-names", how->names, NULL);
	off_t read, unread = 0;
	uint64_t seen, dropped;
	CLEAN_FREE char *text = NULL;
	pid_t program;
	long kib;

	expect_text_soon(client->out, "launch ");
	program = fixture_child(client);
	sleep_ms(WARM_MS);
	read = print_some(client);
	assert_int_equal(kill(client->pid, SIGSTOP), 0);
	sleep_ms(*full_ms); /* until all is full on the way */
	kib = process_resident_kib(program);
	assert_true(kib > 0);
	for (int i = 0; i < WINDOWS; i++) {
		unread += print_some(client) / WINDOWS;
	}
	assert_true(process_resident_kib(program) > 0);
	kib = process_resident_kib(program) - kib;
	assert_int_equal(kill(client->pid, SIGCONT), 0);
	sleep_ms(*full_ms); /* its agent gives up, in the end, who reads too slowly */
	fixture_write(f, "over", "");
	expect_exit(client, 0);
	unlink(fixture_path(f, "over"));
	expect_no_message(client, "without a last word");
	expect_no_message(client, "lost its connection");
	seen = message_number(client, " kernels seen");
	dropped = message_number(client, " dropped");
	print_message("%s, names of %s bytes: %lld bytes read, %lld unread, %ld KiB more, %llu of "
		      "%llu dropped\n",
		      how->value, how->names, (long long)read, (long long)unread, kib,
		      (unsigned long long)dropped, (unsigned long long)seen);
	text = read_file(client->out);
	assert_int_equal(strtoul(strstr(text, "done ") + 5, NULL, 10), seen);
	assert_int_equal(message_number(client, " measured") + dropped, seen);
	assert_true(kib < GROWTH_KIB || is_sanitized);
	if (dropped == 0 && !is_sanitized) {
		*full_ms *= 4;
		return false;
	}
	return unread > read / 2;
}

/* Its queues are full soon, of records, times and names. What does not fit is dropped, and counted
 * in the end. */
SYSTEM_TEST(a_program_keeps_its_pace_when_nobody_reads)
{
	static const struct pressed all[] = {
		{ "--metrics", "dram__bytes_read.sum", "0" },
		{ "--metrics", "dram__bytes_read.sum", "2000" },
		{ "--mode", "trace", "0" },
		{ "--mode", "trace", "2000" },
	};
	struct fixture *f = *state;
	unsigned full_ms = WARM_MS;

	fixture_limit(280);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		bool kept = false;

		for (int try = 0; try < 4 && !kept; try++) {
			kept = keeps_pace(f, &all[i], &full_ms);
		}
		assert_true(kept);
	}
}

/* New contexts ask the courier whether the program is shut in, while all is full on the way. */
SYSTEM_TEST(contexts_that_begin_while_nobody_reads_are_measured)
{
	struct fixture *f = *state;
	struct program *client;

#ifdef __SANITIZE_THREAD__
	fixture_skip("900,000 launches take too long under the thread sanitizer");
#endif
	fixture_limit(150);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-f", "-o", fixture_path(f, "file"), "--metrics",
				"dram__bytes_read.sum", "--", built_path("tests/fake/fakerough"),
				"12", "75000", NULL);
	expect_text_soon(client->err, "single pass");
	sleep_ms(WARM_MS / 2);
	assert_int_equal(kill(client->pid, SIGSTOP), 0);
	expect_text_soon(client->out, "done 900000 ");
	assert_int_equal(kill(client->pid, SIGCONT), 0);
	expect_exit(client, 0);
	expect_no_message(client, "seccomp");
	expect_no_message(client, " skipped");
	assert_true(message_number(client, " dropped") > 0); /* all was full */
	assert_int_equal(message_number(client, " measured") + message_number(client, " dropped") +
				 message_number(client, " failed"),
			 message_number(client, " kernels seen"));
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
SYSTEM_TEST(records_left_out_of_a_stream_are_told)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "pipe");
	struct program *client;
	CLEAN_FD int fd = -1;
	uint64_t left_out, measured;
	size_t n;

	fixture_limit(450);
	fixture_start_daemon(f, NULL);
	assert_int_equal(mkfifo(path, 0666), 0);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", stream_to(path),
				"--", FAKEAPP, "--kernels", "220000", NULL);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	/* With the sanitizer of threads the launches take minutes on a busy machine. */
	for (int i = 0; i < 270 && count_text(client->out, "done 220000") == 0; i++) {
		sleep_ms(1000);
	}
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
