/* SPDX-License-Identifier: Apache-2.0 */

/* A trace of anybody's making, as text or compressed, and a capture's counters put into it.
 * Whatever the trace is, it is refused with a reason or copied with what is put in; and what is
 * written is JSON where the trace was, so it can be read and merged again. */

#include <sys/mman.h>
#include <unistd.h>

#include "client/report/exporter.h"
#include "tests/fuzz/fuzz.h"

static const struct gpuctr_column columns[] = { { "dram__bytes.sum", "byte", 0 },
						{ "sm__\"\\.sum", "", 0 } };
static const struct store_info info = {
	.plan = { .chip = "GH100", .columns = columns, .n_columns = 2 }
};

static int open_bytes(const void *data, size_t size, char path[32])
{
	int fd = memfd_create("trace", MFD_CLOEXEC);

	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

/* As many of each name as a trace may have. */
static void feed(void *e)
{
	static const char *const names[] = { "k", "a<b>", "" };

	for (size_t i = 0; i < 12; i++) {
		const struct gpuctr_kernel kernel = { .id = 1,
						      .name = names[i % 3],
						      .mangled = "_Zk" };
		double values[] = { (double)i, i % 4 == 0 ? 0.0 / 0.0 : 1e300 };
		const struct gpuctr_record record = { .kernel = i == 11 ? NULL : &kernel,
						      .values = values };

		fuzz_check(exporter_merge.record(e, NULL, &record, NULL) == 0);
	}
}

/* Was it a trace with a kernel of the capture's? Then it is left in ret with counters. */
static bool merge_one(const void *data, size_t size, struct buf *ret)
{
	char path[32];
	int fd = open_bytes(data, size, path), r = EXPORTER_MORE;
	const struct exporter_options options = { .trace = path };
	struct exporter_refusal refusal = { 0 };
	struct buf b = { 0 }, told = { 0 };
	void *e = exporter_merge.open(&info, &options, &refusal);

	if (e) {
		feed(e);
		while (r == EXPORTER_MORE) {
			r = exporter_merge.end(e, &b);
			buf_add(ret, b.data, b.n);
			buf_clear(&b);
		}
		fuzz_check(r == 0 || r == EXPORTER_REFUSES);
		fuzz_check(r != 0 || ret->n > 0);
		exporter_merge.tell(e, &told);
		exporter_merge.close(e);
	}
	fuzz_check((r != 0) == (refusal.why.n > 0 && refusal.code));
	fuzz_check(!b.failed && !ret->failed);
	close(fd);
	buf_deinit(&b);
	buf_deinit(&told);
	buf_deinit(&refusal.why);
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
