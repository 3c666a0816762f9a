/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/internal.h"
#include "proto/base/clean.h"
#include "proto/wire/limits.h"

/* The client's side of a capture. The capture is freed after its on_end. Until then the decoders of
 * its processes keep the names, kernels and sites to which records point. */

enum { PROCESSES_MAX = 1 << 22 }; /* as many as a capture file can hold */

/* Calls a handler, unless the program has left it out. */
#define TELL(c, on_event, event) \
	((c)->handler.on_event ? (c)->handler.on_event(c, event, (c)->userdata) : (void)0)

static struct gpuctr_capture *capture_free(struct gpuctr_capture *c)
{
	list_remove(&c->link);
	requests_forget(c->g, c);
	for (size_t i = 0; i < c->n_processes; i++) {
		decoder_free(c->processes[i].decoder);
	}
	free(c->processes);
	arena_deinit(&c->arena);
	free(c->token);
	free(c->environment);
	free(c);
	return NULL;
}

void captures_free_all(struct gpuctr *g)
{
	while (!list_is_empty(&g->captures)) {
		capture_free(list_entry(g->captures.next, struct gpuctr_capture, link));
	}
}

static struct gpuctr_capture *
capture_new(struct gpuctr *g, const struct gpuctr_capture_handler *handler, void *userdata)
{
	struct gpuctr_capture *c = calloc(1, sizeof(*c));

	if (c) {
		c->g = g;
		c->request = ++g->last_request;
		c->handler = *handler;
		c->userdata = userdata;
		arena_init(&c->arena, ARENA_NO_LIMIT);
		decoder_memory_init(&c->memory);
		list_append(&g->captures, &c->link);
	}
	return c;
}

static void on_expanded(struct gpuctr_capture *c, const struct wire_strings *metrics,
			const struct gpuctr_error *e);

/* Expands the patterns of metrics first; c->to_open keeps the request meanwhile. */
static int expand_and_open(struct gpuctr_capture *c, const struct wire_message *m)
{
	struct wire_message copy;
	int r = wire_copy(&c->arena, m, &copy);

	if (r != 0) {
		return r == -EMSGSIZE ? connection_send(c->g, m) : r;
	}
	c->to_open = copy.open_capture;
	return requests_expand(c->g, m->open_capture.chip, &m->open_capture.metrics, on_expanded,
			       c);
}

int gpuctr_capture_open(struct gpuctr *g, const struct gpuctr_capture_options *options,
			const struct gpuctr_capture_handler *handler, void *userdata,
			struct gpuctr_capture **ret)
{
	struct wire_message m = { .type = WIRE_OPEN_CAPTURE };
	struct gpuctr_capture_options o;
	struct gpuctr_capture_handler h;
	struct gpuctr_capture *c = NULL;
	char program[LIMIT_NAME_BYTES];
	int r = options_copy(g, &o, sizeof(o), options);

	r = r != 0 ? r : options_copy(g, &h, sizeof(h), handler);
	r = r != 0 ? r : selection_check(g, &o);
	if (r == 0) {
		c = capture_new(g, &h, userdata);
	}
	if (!c) {
		return r != 0 ? r : -ENOMEM;
	}
	c->raw_images = o.raw_images;
	connection_name(o.program, program, sizeof(program));
	m.open_capture = (struct wire_open_capture){
		.request = c->request,
		.metrics = { o.n_metrics, o.metrics },
		.gpus = { o.n_gpus, o.gpus },
		.chip = o.chip,
		.selection = selection_to_wire(&o),
		.no_wait = o.no_wait,
		.timeout_ns = o.timeout_ns,
		.program = program,
		.recorded = o.recorded,
		.processes = { o.n_processes, o.processes },
		.permit = o.permit != GPUCTR_PERMIT_NONE,
		.trace = o.trace != 0,
		.gpus_allowed = o.gpus_allowed != 0,
	};
	c->permit = (enum gpuctr_permit)o.permit;
	r = expansion_is_needed(&m.open_capture.metrics) ? expand_and_open(c, &m)
							 : connection_send(g, &m);
	if (r != 0) {
		capture_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

static int send_close(const struct gpuctr_capture *c)
{
	const struct wire_message m = { .type = WIRE_CLOSE_CAPTURE,
					.close_capture = { .capture = c->id } };

	return connection_send(c->g, &m);
}

/* If the daemon has not opened the capture yet, the close is sent after its answer. */
int gpuctr_capture_close(struct gpuctr_capture *c)
{
	bool is_new = !c->closed && c->id != 0;

	c->closed = true;
	return is_new ? send_close(c) : 0;
}

unsigned gpuctr_capture_id(const struct gpuctr_capture *c)
{
	return c->id;
}

/* --- events --- */

/* id 0: finds the capture that this request is to open. */
static struct gpuctr_capture *find(struct gpuctr *g, uint32_t id, uint32_t request)
{
	list_for_each(l, &g->captures) {
		struct gpuctr_capture *c = list_entry(l, struct gpuctr_capture, link);

		if (c->id == id && (id != 0 || c->request == request)) {
			return c;
		}
	}
	return NULL;
}

/* The daemon numbers processes from 1 in the order of their arrival. NULL: the number is out of
 * range, or out of memory. */
static struct decoder_process *find_process(struct gpuctr_capture *c, uint32_t process)
{
	struct decoder_process *p;

	if (process == 0 || process > PROCESSES_MAX) {
		return NULL;
	}
	if (process > c->n_processes) {
		size_t n = process + process / 2;

		p = realloc(c->processes, n * sizeof(*p));
		if (!p) {
			return NULL;
		}
		memset(p + c->n_processes, 0, (n - c->n_processes) * sizeof(*p));
		c->processes = p;
		c->n_processes = n;
	}
	p = &c->processes[process - 1];
	p->decoder = p->decoder ? p->decoder : decoder_new(process, &c->memory);
	return p->decoder ? p : NULL;
}

static void finish(struct gpuctr_capture *c, const struct gpuctr_end *end)
{
	/* Leaves the list first: the handler may use other captures, but not this one. */
	list_remove(&c->link);
	TELL(c, on_end, end);
	capture_free(c);
}

/* metrics is NULL when the expansion failed: e says why. */
static void on_expanded(struct gpuctr_capture *c, const struct wire_strings *metrics,
			const struct gpuctr_error *e)
{
	struct wire_message m = { .type = WIRE_OPEN_CAPTURE, .open_capture = c->to_open };
	struct gpuctr_end end = { .error = e ? *e : (struct gpuctr_error){ 0, "", "" } };

	if (metrics) {
		m.open_capture.metrics = *metrics;
		if (connection_send(c->g, &m) == 0) {
			return;
		}
		end.error = *gpuctr_last_error(c->g);
	}
	finish(c, &end);
}

void captures_fail_all(struct gpuctr *g, const struct gpuctr_error *e)
{
	struct gpuctr_end end = { .error = *e };

	while (!list_is_empty(&g->captures)) {
		finish(list_entry(g->captures.next, struct gpuctr_capture, link), &end);
	}
}

/* The plan's strings must outlive the message, so the plan is copied into the capture's arena. */
static int keep_plan(struct gpuctr_capture *c, const struct wire_plan *in)
{
	const struct wire_message m = { .type = WIRE_PLAN_REPLY, .plan_reply = { 0, *in } };
	struct wire_message copy;
	int r = wire_copy(&c->arena, &m, &copy);

	return r == 0 ? plan_from_wire(&c->arena, &copy.plan_reply.plan, &c->plan) : r;
}

static int on_opened(struct gpuctr *g, const struct wire_opened *w)
{
	struct gpuctr_capture *c = find(g, 0, w->request);
	struct gpuctr_opened o;

	if (!c) {
		return GPUCTR_E_PROTOCOL;
	}
	c->id = w->capture;
	if (w->owner[0]) {
		decoder_memory_bound(&c->memory);
	}
	o = (struct gpuctr_opened){
		w->capture, &c->plan, w->gpus.v, w->gpus.n, w->driver, w->recorded, w->owner,
	};
	if (keep_plan(c, &w->plan) < 0) {
		return GPUCTR_E_PROTOCOL;
	}
	TELL(c, on_opened, &o);
	if (c->closed) {
		send_close(c);
	}
	return 0;
}

static void on_ready(struct gpuctr_capture *c, const struct wire_ready *w)
{
	free(c->token);
	c->token = strdup(w->token);
	if (c->handler.on_ready) {
		c->handler.on_ready(c, c->userdata);
	}
}

static void notice(struct gpuctr_capture *c, uint32_t process, int code, const char *message,
		   const char *remedy)
{
	const struct gpuctr_notice n = { process, { code, message, remedy } };

	TELL(c, on_notice, &n);
}

static void notice_malformed(struct gpuctr_capture *c, uint32_t process)
{
	notice(c, process, GPUCTR_E_PROTOCOL,
	       "a process sent records that cannot be read; they are left out",
	       "Use an agent and client of the same release.");
}

static void tell_devices(struct gpuctr_capture *c, uint32_t process)
{
	struct decoder_process *p = find_process(c, process);

	if (p && !p->told_devices) {
		p->told_devices = true;
		notice(c, process, GPUCTR_E_PROTOCOL,
		       "a process tells of more GPUs than any machine has; they are left out",
		       "Use an agent and client of the same release.");
	}
}

static bool has_devices(const struct wire_process *w)
{
	size_t i = 0;

	while (i < w->devices.n && w->devices.v[i].index < LIMIT_GPUS) {
		i++;
	}
	return i == w->devices.n;
}

static void on_process(struct gpuctr_capture *c, const struct wire_process *w)
{
	struct gpuctr_process p = {
		w->process,	  w->pid,	w->program,   w->cupti,	   w->driver,
		w->recorded_from, w->devices.v, w->devices.n, w->claims.v, w->claims.n,
	};

	/* The message may come several times, each time with other devices. */
	if (!has_devices(w)) {
		tell_devices(c, w->process);
		p.n_devices = 0;
	}
	TELL(c, on_process, &p);
}

/* Reports each limit that a process has reached, once. */
static void tell_limits(struct gpuctr_capture *c, struct decoder_process *p)
{
	const struct decoder *d = p->decoder;

	if (d->is_deep && !p->told_deep) {
		p->told_deep = true;
		notice(c, d->process, GPUCTR_E_QUOTA,
		       "a process has more than 4,096 NVTX ranges within each other; deeper ones "
		       "are "
		       "told as the innermost of these",
		       "Look for ranges that are pushed and never popped.");
	}
	if (d->is_full && !p->told_full) {
		p->told_full = true;
		notice(c, d->process, GPUCTR_E_QUOTA,
		       "names and NVTX ranges of a process take more memory than a capture may; "
		       "later "
		       "launches are told without those that are new",
		       "Capture for a shorter time, or less with --nvtx.");
	}
	if (d->lost_image && !p->told_lost_image) {
		p->told_lost_image = true;
		notice(c, d->process, GPUCTR_E_QUOTA,
		       "images of raw counter data are left out: processes send more than 2 GiB of "
		       "them at a time",
		       "Record fewer processes at a time.");
	}
}

static void on_records(struct gpuctr_capture *c, const struct wire_records *w)
{
	struct decoder_process *p = find_process(c, w->process);
	bool good =
		p && decoder_feed(p->decoder, w, c->plan.n_columns, &c->handler, c, c->userdata);

	if (!good && !(p && p->decoder->is_full)) {
		notice_malformed(c, w->process);
	}
	if (p) {
		tell_limits(c, p);
	}
}

/* Images that no handler wants are dropped piece by piece. */
static void on_image(struct gpuctr_capture *c, const struct wire_raw_image *w)
{
	struct decoder_process *p = c->raw_images ? find_process(c, w->process) : NULL;
	struct gpuctr_image image;

	if (!c->raw_images) {
		return;
	}
	if (!p || !decoder_feed_image(p->decoder, w, &image)) {
		if (!p || !p->decoder->lost_image) {
			notice_malformed(c, w->process);
		}
	} else if (image.data) {
		TELL(c, on_image, &image);
		decoder_drop_image(p->decoder);
	}
	if (p) {
		tell_limits(c, p);
	}
}

static void on_process_end(struct gpuctr_capture *c, const struct wire_process_end *w)
{
	const struct gpuctr_process_end e = { w->process, w->totals, w->clean, w->uncounted_ns };

	if (w->process > 0 && w->process <= c->n_processes &&
	    c->processes[w->process - 1].decoder) {
		decoder_drop_image(c->processes[w->process - 1].decoder);
	}
	TELL(c, on_process_end, &e);
}

static void on_event(struct gpuctr_capture *c, const struct wire_message *m)
{
	switch (m->type) {
	case WIRE_QUEUED: {
		const struct gpuctr_queued q = { m->queued.position, m->queued.holder,
						 m->queued.gpu, m->queued.holder_left_ns };

		TELL(c, on_queued, &q);
		break;
	}
	case WIRE_READY:
		on_ready(c, &m->ready);
		break;
	case WIRE_PROCESS:
		on_process(c, &m->process);
		break;
	case WIRE_RECORDS:
		on_records(c, &m->records);
		break;
	case WIRE_RAW_IMAGE:
		on_image(c, &m->raw_image);
		break;
	case WIRE_PROGRESS: {
		const struct gpuctr_totals t = m->progress.totals;

		TELL(c, on_progress, &t);
		break;
	}
	case WIRE_NOTICE: {
		const struct gpuctr_notice n = {
			m->notice.process,
			{ (int)m->notice.code, m->notice.message, m->notice.remedy },
			/* only the daemon's notices (process 0) name a registered process */
			m->notice.process == 0 ? m->notice.registered : 0,
		};

		TELL(c, on_notice, &n);
		break;
	}
	case WIRE_PROCESS_END:
		on_process_end(c, &m->process_end);
		break;
	case WIRE_CAPTURE_END: {
		const struct gpuctr_end e = {
			m->capture_end.totals,
			m->capture_end.processes,
			{ (int)m->capture_end.code, m->capture_end.message, m->capture_end.remedy },
		};

		finish(c, &e);
		break;
	}
	default:
		break;
	}
}

/* Every event begins with the id of its capture. */
int captures_handle(struct gpuctr *g, const struct wire_message *m)
{
	struct gpuctr_capture *c;

	if (m->type == WIRE_OPENED) {
		return on_opened(g, &m->opened);
	}
	if (m->type == WIRE_REFUSAL) {
		struct gpuctr_end end = { .error = { refusal_code(m->refusal.code),
						     m->refusal.message, m->refusal.remedy } };

		c = find(g, 0, m->refusal.request);
		if (c) {
			finish(c, &end);
		}
		return 0;
	}
	c = m->progress.capture != 0 ? find(g, m->progress.capture, 0) : NULL;
	if (c) {
		on_event(c, m);
	}
	return 0;
}
