/* SPDX-License-Identifier: Apache-2.0 */

/* How many records a second the client can take on one core: JSON lines into a buffer that is
 * thrown away, the summary, and the capture file in the folder given (default: the current one). 3
 *metrics, NVTX depth 4, 200 kernels. CPU time, so that a slow disk does not count.
 *
 *	bench_client [FOLDER [RECORDS]]
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/jsonl.h"
#include "client/cli/summary.h"
#include "client/store/reader.h"
#include "tests/bench/synthetic.h"

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void report(const char *what, uint64_t n, double seconds)
{
	printf("%-16s %12.0f records/s\n", what, (double)n / seconds);
}

static void bench_jsonl(struct synthetic *s, uint64_t n)
{
	const struct format_capture capture = {
		.plan = &s->plan, .driver = "", .program = "bench", .recorded_from = ""
	};
	struct attributor *attributor = attributor_new();
	struct attribution what;
	struct buf b = { 0 };
	struct jsonl *jsonl = jsonl_new(&capture);
	double began = cpu_seconds();

	jsonl_process(jsonl, &b, &s->process);
	for (uint64_t i = 0; i < n; i++) {
		attributor_take(attributor, synthetic_record(s, i), &what);
		jsonl_record(jsonl, &b, synthetic_record(s, i), &what);
		if (b.n > 32768) {
			buf_clear(&b);
		}
	}
	report("jsonl", n, cpu_seconds() - began);
	jsonl_free(jsonl);
	attributor_free(attributor);
	buf_deinit(&b);
}

static void bench_summary(struct synthetic *s, uint64_t n)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	struct summary *summary = summary_new(&by_kernel);
	double began = cpu_seconds();

	summary_begin(summary, &s->plan, "", NULL);

	for (uint64_t i = 0; i < n; i++) {
		summary_record(summary, synthetic_record(s, i), NULL);
	}
	report("summary", n, cpu_seconds() - began);
	summary_free(summary);
}

static int bench_store_write(struct synthetic *s, const char *path, uint64_t n)
{
	const struct store_options options = {
		.path = path, .force = true, .plan = &s->plan, .driver = "", .version = "bench"
	};
	const struct gpuctr_end end = { .totals = { .seen = n, .measured = n },
					.error = { 0, "", "" } };
	struct store_error error;
	struct store *store;
	double began = cpu_seconds();
	int r = store_create(&options, &error, &store);

	if (r) {
		fprintf(stderr, "%s\n", error.message);
		return r;
	}
	r = store_write_process(store, &s->process);
	for (uint64_t i = 0; i < n && r == 0; i++) {
		r = store_write_record(store, synthetic_record(s, i), NULL);
	}
	r = r ? r : store_finish(store, &end);
	if (r) {
		fprintf(stderr, "%s\n", store_last_error(store)->message);
	}
	store_close(store);
	report("SQLite write", n, cpu_seconds() - began);
	return r;
}

static int bench_store_read(const char *path, uint64_t n)
{
	const struct gpuctr_record *record;
	struct store_error error;
	struct store_reader *reader;
	struct store_cursor *cursor;
	double began = cpu_seconds();
	int r = store_open(path, &error, &reader);

	if (r) {
		fprintf(stderr, "%s\n", error.message);
		return r;
	}
	report("SQLite check", n, cpu_seconds() - began);
	began = cpu_seconds();
	r = store_records(reader, 1, 0, 0, &cursor);
	while (r == 0 && (r = store_next_record(cursor, &record)) == 0 && record) {
	}
	report("SQLite read", n, cpu_seconds() - began);
	store_cursor_free(cursor);
	store_reader_free(reader);
	return r;
}

int main(int argc, char **argv)
{
	static struct synthetic s;
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
	char path[4096];
	int r;

	synthetic_init(&s);
	bench_jsonl(&s, n);
	bench_summary(&s, n);
	snprintf(path, sizeof(path), "%s/bench-%d.gpuctr", argc > 1 ? argv[1] : ".", (int)getpid());
	r = bench_store_write(&s, path, n);
	r = r ? r : bench_store_read(path, n);
	unlink(path);
	return r ? 1 : 0;
}
