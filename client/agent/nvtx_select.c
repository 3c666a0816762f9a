/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx.h"

#include <stdlib.h>
#include <string.h>

#include "client/agent/capture.h"
#include "client/agent/nvtx_stack.h"
#include "client/agent/section.h"

/* A thread's stack keeps each range's matches until the range is popped. So a range without
 * launches costs nothing, and a range with many launches is compared once. Each thread keeps the
 * matches of start/end ranges until their list changes. */

/* Room for the matches of all ranges of the stack; false: out of memory. */
static bool make_room(struct stack *s, const struct nvtx_filter *f)
{
	size_t bytes = s->room * f->n_terms * sizeof(uint64_t);
	uint64_t *v;

	if (bytes <= s->matches.bytes) {
		return true;
	}
	v = realloc(s->matches.v, bytes);
	if (v) {
		s->matches.v = v;
		s->matches.bytes = bytes;
	}
	return v != NULL;
}

/* Compares the whole stack; for a stack without memory for its matches. */
static void match_anew(struct nvtx_filter *f, const struct stack *s, uint64_t *state)
{
	struct nvtx_matched below;

	nvtx_filter_begin(f, state);
	for (size_t i = 0; i < s->n; i++) {
		memcpy(below.v, state, f->n_terms * sizeof(*state));
		nvtx_filter_advance(f, below.v, state, nvtx_domain_name(s->v[i].event.domain),
				    s->v[i].event.message);
	}
}

/* The matches of the calling thread's stack, in buffer or in the stack's own memory. There the
 * n_terms numbers before them are the matches of the stack without its topmost range. */
static const uint64_t *match_stack(struct nvtx_filter *f, uint32_t capture,
				   struct nvtx_matched *buffer)
{
	struct stack *s = nvtx_stack();
	struct stack_matches *m = s ? &s->matches : NULL;

	if (!s || s->n == 0) {
		nvtx_filter_begin(f, buffer->v);
		return buffer->v;
	}
	if (!make_room(s, f)) {
		match_anew(f, s, buffer->v);
		return buffer->v;
	}
	m->n = m->capture == capture ? m->n : 0;
	m->capture = capture;
	for (; m->n < s->n; m->n++) {
		const struct event *e = &s->v[m->n].event;
		const uint64_t *below = m->v + (m->n - 1) * f->n_terms;

		if (m->n == 0) {
			nvtx_filter_begin(f, buffer->v);
			below = buffer->v;
		}
		nvtx_filter_advance(f, below, m->v + m->n * f->n_terms, nvtx_domain_name(e->domain),
				    e->message);
	}
	return m->v + (s->n - 1) * f->n_terms;
}

struct adding {
	struct nvtx_filter *filter;
	struct nvtx_matched *matched;
};

static bool add_started(const struct event *e, void *userdata)
{
	struct adding *s = userdata;

	nvtx_filter_add(s->filter, s->matched->v, nvtx_domain_name(e->domain), e->message);
	return true;
}

static const uint64_t *match_started(struct nvtx_filter *f, uint32_t capture)
{
	static __thread struct nvtx_matched matched;
	static __thread uint64_t seen_version;
	static __thread uint32_t seen_capture;
	uint64_t version = nvtx_started_version();

	if (version != seen_version || capture != seen_capture) {
		memset(&matched, 0, sizeof(matched));
		nvtx_for_each_started(add_started, &(struct adding){ f, &matched });
		seen_version = version;
		seen_capture = capture;
	}
	return matched.v;
}

bool nvtx_selects(struct nvtx_filter *f, uint32_t capture)
{
	const uint64_t *started = match_started(f, capture);
	struct nvtx_matched buffer;

	return nvtx_filter_selects(f, match_stack(f, capture, &buffer), started);
}

/* A range begins a phase if its push or start makes the expression match; the phase ends with the
 * range. Ranges that were open before the capture begin no phase. */

static uint32_t begin(struct capture *c, bool range, bool step)
{
	if (step) {
		phase_on_step(&c->filter.phase);
	}
	if (range) {
		phase_on_range_begin(&c->filter.phase);
	}
	return range ? c->number : 0;
}

uint32_t nvtx_watch_push(struct stack *s)
{
	struct nvtx_matched buffer;
	const uint64_t *state, *below;
	struct nvtx_filter *f;
	uint32_t begun = 0;
	struct section *v;
	struct capture *c = section_enter(&v);

	if (c) {
		f = &c->filter.nvtx;
		state = match_stack(f, c->number, &buffer);
		below = s->n > 1 && state != buffer.v ? state - f->n_terms : NULL;
		begun = begin(c, nvtx_filter_triggers(f, f->range, below, state),
			      nvtx_filter_triggers(f, f->step, below, state));
	}
	section_leave(v);
	return begun;
}

uint32_t nvtx_watch_start(const struct event *e)
{
	uint32_t begun = 0;
	struct section *v;
	struct capture *c = section_enter(&v);

	if (c) {
		struct nvtx_filter *f = &c->filter.nvtx;
		const char *domain = nvtx_domain_name(e->domain);

		begun = begin(c, nvtx_filter_names(f, f->range, domain, e->message),
			      nvtx_filter_names(f, f->step, domain, e->message));
	}
	section_leave(v);
	return begun;
}

void nvtx_watch_end(uint32_t capture)
{
	struct section *v;
	struct capture *c = section_enter(&v);

	if (c && c->number == capture) {
		phase_on_range_end(&c->filter.phase);
	}
	section_leave(v);
}

void nvtx_watch_mark(struct capture *c, const struct event *e)
{
	struct nvtx_filter *f = &c->filter.nvtx;

	if (nvtx_filter_names(f, f->step, nvtx_domain_name(e->domain), e->message)) {
		phase_on_step(&c->filter.phase);
	}
}
