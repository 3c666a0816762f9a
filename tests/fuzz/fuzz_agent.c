/* SPDX-License-Identifier: Apache-2.0 */

/* The agent and a daemon that says anything: the introduction, the plan it is given, the records it
 * packs by that plan, and what it is told meanwhile. The agent lives in a user's program, so
 * nothing here may end it, or wait for ever. */

#include <errno.h>

#include "client/agent/filter.h"
#include "client/agent/connection.h"
#include "client/agent/pack.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "tests/fuzz/daemon_box.h"
#include "tests/fuzz/fuzz.h"

enum { LAUNCHES = 5, MESSAGES_MAX = 10000 };

static void check_plan(const struct wire_plan *p)
{
	fuzz_check(p->metrics.n <= LIMIT_PLAN_METRICS && p->columns.n <= LIMIT_PLAN_METRICS);
	for (size_t i = 0; i < p->columns.n; i++) {
		const struct wire_column *c = &p->columns.v[i];

		fuzz_check(c->metric.n == c->weight.n && c->metric.n <= LIMIT_TERMS);
		for (size_t k = 0; k < c->metric.n; k++) {
			fuzz_check(c->metric.v[k] < p->metrics.n);
		}
	}
}

static void try_ranges(struct nvtx_filter *f, const struct wire_selection *s)
{
	struct nvtx_matched below, state, started = { { 0 } };
	struct refusal r;

	nvtx_filter_begin(f, below.v);
	nvtx_filter_advance(f, below.v, state.v, "", "A");
	nvtx_filter_advance(f, state.v, below.v, "D", "B");
	nvtx_filter_add(f, started.v, "", "A");
	nvtx_filter_selects(f, below.v, started.v);
	nvtx_filter_missed(f, s, &r);
}

static void try_filter(const struct wire_agent_welcome *w)
{
	struct filter f;
	struct refusal r;

	if (filter_init(&f, &w->selection, &r) != 0) {
		return;
	}
	filter_selects(&f, "_Z6kernelPf");
	try_ranges(&f.nvtx, &w->selection);
	for (uint64_t group = 1; group <= 3; group++) {
		filter_takes(&f, group);
	}
	filter_missed_all(&f, &r);
	filter_deinit(&f);
}

static void send_records(struct connection *l, const struct wire_agent_welcome *w)
{
	size_t n = LAUNCHES * w->plan.columns.n;
	double *values = calloc(n + 1, sizeof(*values));
	struct launch launches[LAUNCHES] = { 0 };
	struct intern in;

	fuzz_check(values && intern_init(&in) == 0);
	for (size_t i = 0; i < LAUNCHES; i++) {
		launches[i].function = intern_function(&in, i % 2 ? "_Z6kernelPf" : "other", 0, 8);
	}
	pack_send(l, w, &in, launches, LAUNCHES, values, 0);
	intern_deinit(&in);
	free(values);
}

static void listen_for_orders(struct connection *l)
{
	struct wire_message m;
	size_t length = 0;
	int r;

	for (int i = 0; (r = connection_receive(l, &m, CLOCK_NS_PER_S)) == 0; i++) {
		fuzz_check(i < MESSAGES_MAX);
		length += m.type == WIRE_AGENT_STOP ? strlen(m.agent_stop.message) : 0;
	}
	/* The end of the stream, or what is no message: the agent leaves the daemon alone. */
	fuzz_check(r < 0 && r != -EAGAIN && l->fd < 0 && length < SIZE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct wire_agent_hello hello = { .token = "token", .program = "program" };
	struct fuzz_input in = { data, size };
	size_t chunk = fuzz_take_u8(&in);
	struct wire_agent_welcome w;
	struct refusal r;
	struct arena a;
	struct connection l;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	daemon_box_open(in.data, in.size, chunk);
	if (hello_say(&l, "daemon", &hello, &a, &w, &r) == 0) {
		check_plan(&w.plan);
		try_filter(&w);
		send_records(&l, &w);
		if (l.fd >= 0) {
			listen_for_orders(&l);
		}
		connection_close(&l);
	} else {
		fuzz_check(r.code > 0);
		fuzz_check(l.fd < 0);
	}
	daemon_box_close();
	arena_deinit(&a);
	return 0;
}
