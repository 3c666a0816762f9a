/* SPDX-License-Identifier: Apache-2.0 */

/* A trace of anybody's making, as text or compressed, and a capture's counters put into it.
 * Whatever the trace is, places to put something in come in the order of the text and lie within
 * it; and what is written is JSON where the trace was, so it can be read and merged again. */

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/report/merge.h"
#include "tests/fuzz/fuzz.h"

static const struct gpuctr_column columns[] = { { "dram__bytes.sum", "byte", 0 },
						{ "sm__\"\\.sum", "", 0 } };
static const struct gpuctr_plan plan = { .chip = "GH100", .columns = columns, .n_columns = 2 };

static struct trace_text *open_bytes(const void *data, size_t size, int *ret_fd)
{
	char path[32];
	struct trace_text *text;

	*ret_fd = memfd_create("trace", MFD_CLOEXEC);
	fuzz_check(*ret_fd >= 0 && write(*ret_fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", *ret_fd);
	text = trace_text_open(path);
	fuzz_check(text);
	return text;
}

/* As many of each name as a trace may have. */
static void feed(struct merge *m)
{
	static const char *const names[] = { "k", "a<b>", "" };

	for (size_t i = 0; i < 12; i++) {
		const struct gpuctr_kernel kernel = { .id = 1,
						      .name = names[i % 3],
						      .mangled = "_Zk" };
		double values[] = { (double)i, i % 4 == 0 ? 0.0 / 0.0 : 1e300 };
		const struct gpuctr_record record = { .kernel = i == 11 ? NULL : &kernel,
						      .values = values };

		fuzz_check(merge_record(m, &record) == 0);
	}
}

/* The trace with what is put in. */
static void write_merged(struct merge *m, struct trace_text *text, uint64_t bytes, struct buf *b)
{
	uint64_t at = 0, next;

	fuzz_check(trace_text_seek(text, 0) == 0);
	for (bool more = true; more;) {
		more = merge_next(m, &next);
		next = more ? next : bytes;
		fuzz_check(next >= at && next <= bytes && buf_reserve(b, (size_t)(next - at)));
		fuzz_check(trace_text_next(text, b->data + b->n, (size_t)(next - at)) ==
			   (int64_t)(next - at));
		b->n += (size_t)(next - at);
		at = next;
		if (more) {
			merge_put(m, b);
		}
	}
	fuzz_check(!b->failed);
}

/* Was it a trace? Then it is left in ret with counters. */
static bool merge_one(const void *data, size_t size, struct buf *ret)
{
	struct buf why = { 0 };
	struct trace trace;
	struct merge_counts counts;
	struct merge *m;
	int fd;
	struct trace_text *text = open_bytes(data, size, &fd);
	const char *remedy;
	int r = trace_read(&trace, text, &why, &remedy);

	fuzz_check(r == 0 || r == -EINVAL);
	fuzz_check((r == -EINVAL) == (why.n > 0));
	if (r == 0) {
		m = merge_new(&trace, &plan);
		fuzz_check(m);
		feed(m);
		fuzz_check(merge_finish(m, &counts) == 0);
		fuzz_check(counts.joined + counts.capture_alone == 12 &&
			   counts.joined + counts.trace_alone == trace.n);
		write_merged(m, text, trace.bytes, ret);
		merge_free(m);
	}
	trace_deinit(&trace);
	trace_text_close(text);
	close(fd);
	buf_deinit(&why);
	return r == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf once = { 0 }, twice = { 0 };

	if (size > 0 && merge_one(data, size, &once)) {
		fuzz_check(merge_one(once.data, once.n, &twice));
	}
	buf_deinit(&once);
	buf_deinit(&twice);
	return 0;
}
