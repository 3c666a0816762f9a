/* SPDX-License-Identifier: Apache-2.0 */

/* "waiting, 2nd in the queue: GPU-... is held by alice (python3, pid 4711), up to 43 s" and
 * "12,345 kernels, 4,321/s, 3 processes". */

#include "client/cli/progress.h"

#include <time.h>

#include "client/cli/say.h"
#include "client/cli/text.h"

#define TERMINAL_NS UINT64_C(500000000)
#define PLAIN_NS UINT64_C(5000000000)

uint64_t progress_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool is_due(const struct progress *p, uint64_t now)
{
	return now - p->told_ns >= (say_is_terminal() ? TERMINAL_NS : PLAIN_NS);
}

void progress_add_queued(struct buf *b, const struct gpuctr_queued *queued)
{
	buf_printf(b, "waiting, number %u in the queue: %s is held by %s", queued->position,
		   queued->gpu && *queued->gpu ? queued->gpu : "the GPU",
		   queued->holder && *queued->holder ? queued->holder : "another capture");
	if (queued->holder_left_ns > 0) {
		buf_printf(b, ", for up to %llu s",
			   (unsigned long long)(queued->holder_left_ns / 1000000000u) + 1);
	}
}

void progress_queued(struct progress *p, const struct gpuctr_queued *queued)
{
	uint64_t now = progress_now_ns();
	struct buf b = { 0 };

	/* A new place in the queue is always worth a line. */
	if (p->quiet || (queued->position == p->position && !is_due(p, now))) {
		return;
	}
	progress_add_queued(&b, queued);
	say_status(buf_string(&b));
	buf_deinit(&b);
	p->position = queued->position;
	p->told_ns = now;
}

void progress_kernels(struct progress *p, uint64_t records, unsigned processes)
{
	uint64_t now = progress_now_ns();
	struct buf b = { 0 };
	double seconds;

	if (p->began_ns == 0) {
		p->began_ns = now;
		p->told_ns = now;
	}
	if (p->quiet || !is_due(p, now)) {
		return;
	}
	seconds = (double)(now - p->told_ns) / 1e9;
	text_count(&b, records);
	buf_printf(&b, " kernel%s, ", records == 1 ? "" : "s");
	text_count(&b, (uint64_t)((double)(records - p->records) / seconds + 0.5));
	buf_printf(&b, "/s, %u process%s", processes, processes == 1 ? "" : "es");
	say_status(buf_string(&b));
	buf_deinit(&b);
	p->told_ns = now;
	p->records = records;
}
