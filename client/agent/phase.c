/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/phase.h"

#include <string.h>

#include "client/agent/flag.h"
#include "proto/wire/nvtx_expression.h"
#include "proto/wire/status.h"

/* A phase belongs to the process: one that a thread begins holds for the launches of all threads.
 * If a range is asked for, launches are measured only while one is open; if there is a schedule,
 * only in steps that it takes. A step lasts until the next one begins; launches before the first
 * step are in none. */

bool phase_steps_recur(const struct wire_selection *selection)
{
	return selection->schedule.active > 0 && selection->step[0] == '\0';
}

void phase_init(struct phase *p, const struct wire_selection *selection)
{
	*p = (struct phase){
		.by_profiler = strcmp(selection->capture_range, NVTX_CAPTURE_PROFILER) == 0,
		.by_step = selection->schedule.active > 0,
		.steps_by_profiler = strcmp(selection->step, NVTX_STEP_PROFILER) == 0,
		.steps_recur = phase_steps_recur(selection),
		.once = selection->stop_on_range_end,
		.schedule = selection->schedule,
	};
	p->by_range = !p->by_profiler && selection->capture_range[0] != '\0';
}

bool phase_is_on(struct phase *p)
{
	bool ranged = (!p->by_profiler && !p->by_range) ||
		      atomic_load_explicit(&p->open, memory_order_acquire) > 0;
	bool on = ranged &&
		  (!p->by_step || atomic_load_explicit(&p->scheduled, memory_order_acquire));

	flag_raise(on ? &p->was_on : &p->waited);
	return on;
}

/* These calls do not nest. */
void phase_on_profiler_call(struct phase *p, bool starts)
{
	if (p->by_step && p->steps_by_profiler && starts) {
		phase_on_step(p);
	}
	if (!p->by_profiler) {
		return;
	}
	if (starts && !atomic_load(&p->over)) {
		atomic_store(&p->open, 1);
	} else if (!starts && atomic_exchange(&p->open, 0) > 0 && p->once) {
		atomic_store(&p->over, true);
	}
}

void phase_on_range_begin(struct phase *p)
{
	if (!atomic_load(&p->over)) {
		atomic_fetch_add(&p->open, 1);
	}
}

/* Ranges that began after the phase was over were not counted. */
void phase_on_range_end(struct phase *p)
{
	unsigned n = atomic_load(&p->open);

	while (n > 0 && !atomic_compare_exchange_weak(&p->open, &n, n - 1)) {
	}
	if (n == 1 && p->once) {
		atomic_store(&p->over, true);
	}
}

bool phase_schedule_takes(const struct wire_schedule *s, uint64_t i)
{
	uint64_t cycle = s->wait + s->warmup + s->active;

	if (i < s->skip_first || cycle == 0) {
		return false;
	}
	i -= s->skip_first;
	return (s->repeat == 0 || i / cycle < s->repeat) && i % cycle >= s->wait + s->warmup;
}

void phase_on_step(struct phase *p)
{
	uint64_t i = atomic_fetch_add(&p->steps, 1);

	atomic_store(&p->scheduled, phase_schedule_takes(&p->schedule, i));
	if (atomic_load(&p->over)) { /* phase_lost_steps() came meanwhile */
		atomic_store(&p->scheduled, false);
	}
}

void phase_without_steps(struct phase *p)
{
	atomic_store(&p->stepless, true);
	atomic_store(&p->scheduled, true);
}

void phase_lost_steps(struct phase *p)
{
	atomic_store(&p->over, true);
	atomic_store(&p->scheduled, false);
}

bool phase_is_finished(const struct phase *p)
{
	const struct wire_schedule *s = &p->schedule;
	uint64_t cycle = s->wait + s->warmup + s->active, steps = atomic_load(&p->steps);

	return atomic_load(&p->over) ||
	       (p->by_step && !atomic_load(&p->stepless) && cycle > 0 && s->repeat > 0 &&
		steps > s->skip_first && (steps - 1 - s->skip_first) / cycle >= s->repeat);
}

bool phase_missed(const struct phase *p, struct refusal *r)
{
	unsigned long long steps = atomic_load(&p->steps);

	if (atomic_load(&p->was_on) || !atomic_load(&p->waited)) {
		return false;
	}
	if (p->by_step && steps > 0) {
		refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH, "Skip fewer.",
			    "no launch was in a step that --steps takes; there were %llu steps",
			    steps);
	} else if (p->steps_recur) {
		refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH,
			    "Let the program run for longer, name by --step what begins a step, or "
			    "leave --steps out.",
			    "no launch was measured: no sequence of launches had recurred when the "
			    "capture ended, so that no step was found");
	} else if (p->by_profiler || (p->by_step && p->steps_by_profiler)) {
		refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH,
			    "Call cudaProfilerStart() before what is to be measured, or leave the "
			    "option out.",
			    "no launch came after cudaProfilerStart()");
	} else {
		return false; /* nvtx_filter_missed() reports the expression */
	}
	return true;
}
