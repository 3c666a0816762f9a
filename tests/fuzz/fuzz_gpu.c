/* SPDX-License-Identifier: Apache-2.0 */

/* The planner, which takes names that users typed to CUPTI: planner_run() as it ships, on the fake
 * CUPTI of tests/fake, asked by a front that passes on anything, or that has been taken over and
 * says any bytes. Every question has exactly one answer, a plan is one that an agent can carry out,
 * and the fake never meets a name that it has not given itself: it would answer with an error, and
 * the planner with a refusal that is no user's fault. */

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/buffer.h"
#include "daemon/base/log.h"
#include "proto/base/utf8.h"
#include "daemon/gpu/gpu.h"
#include "proto/nvidia/vendor.h"
#include "proto/wire/limits.h"
#include "proto/wire/pattern.h"
#include "proto/wire/wire.h"
#include "tests/fuzz/fuzz.h"

#define EXPORT __attribute__((visibility("default")))

enum { QUESTIONS_MAX = 64, NAMES_MAX = 7 };

static struct {
	int link; /* -1: no run under way */
	size_t chunk;
	bool is_raw;
	struct buffer in, out; /* towards the planner, and from it */
	struct arena arena, scratch;
	enum wire_type asked[QUESTIONS_MAX + 1]; /* by number; 0: not asked, or answered */
	unsigned n_asked, n_answered;
} box = { .link = -1 };

/* --- instead of daemon/base/log.c --- */

void log_init(const char *process, int max_level)
{
	(void)process;
	(void)max_level;
}

int log_write(int level, const char *format, ...)
{
	(void)level;
	(void)format;
	return 0;
}

int log_always(int level, const char *format, ...)
{
	(void)level;
	(void)format;
	return 0;
}

/* --- answers --- */

static void check_plan(const struct wire_plan *p)
{
	fuzz_check(p->passes >= 1 && p->columns.n >= 1 && p->columns.n <= LIMIT_METRICS);
	fuzz_check(p->groups >= 1 || p->passes > 1);
	for (size_t i = 0; i < p->metrics.n; i++) {
		fuzz_check(strchr(p->metrics.v[i], '.') && !pattern_is(p->metrics.v[i]));
	}
	for (size_t i = 0; i < p->columns.n; i++) {
		const struct wire_column *c = &p->columns.v[i];

		fuzz_check(c->metric.n >= 1 && c->group <= p->groups);
		fuzz_check(p->passes > 1 || c->group == 0);
		for (size_t k = 0; k < i; k++) {
			fuzz_check(strcmp(p->columns.v[k].name, c->name) != 0);
		}
	}
}

static void answered(uint32_t request, enum wire_type question)
{
	if (box.is_raw) {
		return; /* its numbers are any */
	}
	fuzz_check(request >= 1 && request <= box.n_asked);
	fuzz_check(box.asked[request] != 0);
	fuzz_check(question == 0 || box.asked[request] == question);
	box.asked[request] = 0;
	box.n_answered++;
}

static void check_answer(const struct wire_message *m)
{
	switch (m->type) {
	case WIRE_METRICS_REPLY:
		if (m->metrics_reply.last) {
			answered(m->metrics_reply.request, WIRE_METRICS_REQUEST);
		}
		break;
	case WIRE_PLAN_REPLY:
		check_plan(&m->plan_reply.plan);
		answered(m->plan_reply.request, WIRE_PLAN_REQUEST);
		break;
	case WIRE_STATUS_REPLY:
		answered(m->status_reply.request, WIRE_STATUS_REQUEST);
		break;
	case WIRE_REFUSAL:
		fuzz_check(m->refusal.code != 0 && m->refusal.message[0] != '\0');
		fuzz_check(m->refusal.code != GPUCTR_E_PROFILER); /* CUPTI was asked nonsense */
		answered(m->refusal.request, 0);
		break;
	default:
		fuzz_fail("the planner answers with type %u", (unsigned)m->type);
	}
}

static void check_answers(void)
{
	struct wire_message m;
	int r;

	while ((r = wire_next(&box.out, &box.arena, &m)) == 0) {
		check_answer(&m);
	}
	fuzz_check(r == FRAME_E_MORE);
}

/* --- instead of libc --- */

EXPORT ssize_t recv(int fd, void *data, size_t size, int flags)
{
	size_t n = buffer_length(&box.in);

	(void)flags;
	fuzz_check(fd == box.link);
	n = box.chunk != 0 && box.chunk < n ? box.chunk : n;
	n = n < size ? n : size;
	if (n > 0) {
		memcpy(data, box.in.data + box.in.start, n);
		buffer_consume(&box.in, n);
	}
	return (ssize_t)n;
}

/* What recv() becomes where the compiler knows the size of the buffer. */
EXPORT ssize_t __recv_chk(int fd, void *data, size_t size, size_t room, int flags);

EXPORT ssize_t __recv_chk(int fd, void *data, size_t size, size_t room, int flags)
{
	(void)room;
	return recv(fd, data, size, flags);
}

EXPORT ssize_t send(int fd, const void *data, size_t size, int flags)
{
	(void)flags;
	fuzz_check(fd == box.link);
	fuzz_check(buffer_append(&box.out, data, size) == 0);
	check_answers();
	return (ssize_t)size;
}

/* --- questions --- */

static const char *const known[] = {
	"memory",
	"flops",
	"kineto__cuda_core_flops",
	"dram__bytes_read.sum",
	"dram__bytes_write.avg.per_second",
	"dram__throughput.avg.pct_of_peak_sustained_elapsed",
	"sm__inst_executed_pipe_fp16.sum",
	"sm__average_threads_launched_per_warp.ratio",
	"LTS.TriageCompute.lts__t_requests.sum",
	"gpu__time_duration.sum",
	"sm__inst_executed.sum",
	"l1tex__t_bytes.sum",
};

/* As the front has checked it; free it. */
static char *take_text(struct fuzz_input *in, size_t limit)
{
	char *text = fuzz_take_text(in, limit);

	fuzz_check(text);
	utf8_repair(text);
	return text;
}

/* One that there is, or any text; free it. */
static char *take_name(struct fuzz_input *in)
{
	uint8_t what = fuzz_take_u8(in);

	return what < sizeof(known) / sizeof(known[0]) ? strdup(known[what])
						       : take_text(in, LIMIT_STRING_BYTES);
}

static void ask(const struct wire_message *m)
{
	fuzz_check(wire_encode(&box.scratch, &box.in, m) == 0);
	box.asked[++box.n_asked] = m->type;
	arena_reset(&box.scratch);
}

static void take_question(struct fuzz_input *in)
{
	static const char *const chips[] = { "", "GH100", "TU102", "GA102" };
	struct wire_message m = { .type = WIRE_METRICS_REQUEST };
	uint8_t head = fuzz_take_u8(in);
	char *names[NAMES_MAX],
		*chip = head & 0x80 ? take_text(in, 64) : strdup(chips[head >> 5 & 3]);
	uint32_t request = box.n_asked + 1;
	size_t n = 0;

	if (head % 4 == 0) {
		m.metrics_request = (struct wire_metrics_request){ request, chip, head & 4 };
	} else if (head % 4 == 1) {
		m.type = WIRE_STATUS_REQUEST;
		m.status_request.request = request;
	} else {
		m.type = WIRE_PLAN_REQUEST;
		for (size_t wanted = head >> 2 & 7; n < wanted; n++) {
			names[n] = take_name(in);
		}
		m.plan_request = (struct wire_plan_request){ request,
							     chip,
							     { n, (const char *const *)names } };
	}
	ask(&m);
	while (n > 0) {
		free(names[--n]);
	}
	free(chip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	uint8_t head = fuzz_take_u8(&in);
	uint32_t version;
	int status;

	fuzz_check(cuptiGetVersion(&version) == CUPTI_SUCCESS); /* keeps the fake linked */
	box.is_raw = head & 1;
	box.chunk = head >> 1;
	box.n_asked = box.n_answered = 0;
	arena_init(&box.arena, LIMIT_UNPACKED_BYTES);
	arena_init(&box.scratch, LIMIT_UNPACKED_BYTES);
	if (box.is_raw && in.size > 0) {
		fuzz_check(buffer_append(&box.in, in.data, in.size) == 0);
	}
	while (!box.is_raw && in.size > 0 && box.n_asked < QUESTIONS_MAX) {
		take_question(&in);
	}
	box.link = open("/dev/null", O_RDWR | O_CLOEXEC);
	status = planner_run(box.link); /* closes it */
	box.link = -1;
	fuzz_check(box.is_raw || status == 0);
	fuzz_check(box.n_answered == box.n_asked || box.is_raw);
	buffer_deinit(&box.in);
	buffer_deinit(&box.out);
	arena_deinit(&box.arena);
	arena_deinit(&box.scratch);
	return 0;
}
