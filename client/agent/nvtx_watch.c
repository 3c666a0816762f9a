/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_watch.h"

#include "client/agent/capture.h"
#include "client/agent/nvtx_select.h"
#include "client/agent/section.h"

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
		state = nvtx_match_stack(f, c->number, &buffer);
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
