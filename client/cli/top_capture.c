/* SPDX-License-Identifier: Apache-2.0 */

/* A capture of one's own, of programs in standby: they are measured for as long as they are looked
 * at. What is shown is kept as numbers of each kernel, so it may go on for days. The programs run
 * on when it ends, and may be captured again: the end is waited for, because until then they are
 * being measured. */

#include "client/cli/top.h"

#include <stdlib.h>

#include "client/cli/progress.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/cli/verb.h"

/* The daemon gives programs two seconds to deliver what they have. */
#define END_WAIT_NS UINT64_C(4000000000)

struct capture_state {
	const struct top_options *o;
	struct gpuctr *g;
	struct gpuctr_capture *capture; /* NULL: over */
	struct selected selected;
	struct summary *summary;
	struct gpuctr_totals totals;
	struct buf stage, notice; /* safe */
	struct top_rate rate;
	unsigned id, n_begun, n_ended;
	bool planned, ready, fresh;
	bool refused; /* over before it was ready */
	bool closing; /* nobody looks any more */
};

static void set_stage(struct capture_state *s, const char *text)
{
	buf_clear(&s->stage);
	text_terminal(&s->stage, text);
	s->fresh = true;
}

static void on_opened(struct gpuctr_capture *c, const struct gpuctr_opened *opened, void *userdata)
{
	struct capture_state *s = userdata;

	(void)c;
	s->id = opened->capture;
	s->planned = summary_begin(s->summary, opened->plan, "", NULL) == 0;
}

static void on_queued(struct gpuctr_capture *c, const struct gpuctr_queued *queued, void *userdata)
{
	struct buf b = { 0 };

	(void)c;
	progress_add_queued(&b, queued);
	set_stage(userdata, buf_string(&b));
	buf_deinit(&b);
}

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	struct capture_state *s = userdata;

	(void)c;
	s->ready = true;
	top_rate_update(&s->rate, 0, top_now_ns());
	set_stage(s, "measuring");
}

static void on_process(struct gpuctr_capture *c, const struct gpuctr_process *process,
		       void *userdata)
{
	struct capture_state *s = userdata;

	(void)c;
	s->n_begun = process->process > s->n_begun ? process->process : s->n_begun;
	summary_process(s->summary, process);
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *record, void *userdata)
{
	(void)c;
	summary_record(((struct capture_state *)userdata)->summary, record);
}

static void on_progress(struct gpuctr_capture *c, const struct gpuctr_totals *totals,
			void *userdata)
{
	(void)c;
	((struct capture_state *)userdata)->totals = *totals;
}

static void on_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice, void *userdata)
{
	struct capture_state *s = userdata;

	(void)c;
	buf_clear(&s->notice);
	text_terminal(&s->notice, notice->error.message);
	if (notice->error.remedy[0]) {
		buf_text(&s->notice, " - ");
		text_terminal(&s->notice, notice->error.remedy);
	}
	s->fresh = true;
}

static void on_process_end(struct gpuctr_capture *c, const struct gpuctr_process_end *end,
			   void *userdata)
{
	struct capture_state *s = userdata;

	(void)end;
	if (++s->n_ended >= s->n_begun) { /* all have begun before the first ends */
		gpuctr_capture_close(c);
	}
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct capture_state *s = userdata;

	(void)c;
	s->capture = NULL;
	if (s->closing) {
		return;
	}
	if (!s->ready) {
		s->refused = true;
		say_gpuctr_error(&end->error);
	} else if (end->error.code != GPUCTR_OK) {
		set_stage(s, end->error.message);
	} else {
		set_stage(s, "over: all of the processes have ended, or nothing more is wanted");
	}
	if (s->ready && end->totals.seen > 0) {
		s->totals = end->totals;
	}
}

static const struct gpuctr_capture_handler handler = {
	.size = sizeof(struct gpuctr_capture_handler),
	.on_opened = on_opened,
	.on_queued = on_queued,
	.on_ready = on_ready,
	.on_process = on_process,
	.on_record = on_record,
	.on_progress = on_progress,
	.on_notice = on_notice,
	.on_process_end = on_process_end,
	.on_end = on_end,
};

/* --- opening --------------------------------------------------------------------------------- */

static void wait_for_end(struct capture_state *s)
{
	uint64_t now = top_now_ns(), until_ns = now + END_WAIT_NS;

	s->closing = true;
	for (; s->capture && now < until_ns; now = top_now_ns()) {
		if (gpuctr_dispatch(s->g, (int)((until_ns - now) / 1000000)) != 0) {
			return;
		}
	}
}

static void capture_close(void *state)
{
	struct capture_state *s = state;

	if (s->capture && gpuctr_capture_close(s->capture) == 0) {
		wait_for_end(s);
	}
	gpuctr_disconnect(s->g);
	summary_free(s->summary);
	selected_deinit(&s->selected);
	buf_deinit(&s->stage);
	buf_deinit(&s->notice);
	free(s);
}

static int ask(struct capture_state *s)
{
	const struct top_options *o = s->o;
	struct gpuctr_capture_options options = GPUCTR_INIT(gpuctr_capture_options);

	options.metrics = strings_items(&o->metrics);
	options.n_metrics = o->metrics.n;
	options.gpus = strings_items(&o->devices);
	options.n_gpus = o->devices.n;
	options.kernel_regex = o->kernel;
	options.no_wait = o->no_wait;
	options.program = "gpuctr-client top";
	options.processes = s->selected.ids;
	options.n_processes = s->selected.n;
	return gpuctr_capture_open(s->g, &options, &handler, s, &s->capture);
}

/* Waits until the daemon has planned it: what is refused is refused before the terminal is ours. */
static bool open_capture(struct capture_state *s)
{
	int r = gpuctr_connect(s->o->socket, "gpuctr-client", &s->g);

	if (r == 0 && !select_some(s->g, &s->o->selector, &s->selected)) {
		return false;
	}
	r = r ? r : ask(s);
	while (r == 0 && !s->planned && !s->refused) {
		r = gpuctr_dispatch(s->g, -1);
	}
	if (r > 0 && !s->refused) {
		say_gpuctr_error(gpuctr_last_error(s->g));
	} else if (r < 0) {
		say_usage("%s", strerror(-r));
	}
	return r == 0 && !s->refused;
}

static void *capture_open(const struct top_options *o)
{
	struct capture_state *s = calloc(1, sizeof(*s));

	if (s) {
		s->o = o;
		s->summary = summary_new(&o->keys);
	}
	if (!s || !s->summary) {
		say_usage("out of memory");
		free(s);
		return NULL;
	}
	set_stage(s, "opened");
	if (!open_capture(s)) {
		capture_close(s);
		return NULL;
	}
	return s;
}

/* --- looking --------------------------------------------------------------------------------- */

static struct gpuctr *capture_connection(void *state)
{
	struct capture_state *s = state;

	return s->capture ? s->g : NULL;
}

static void capture_look(void *state)
{
	struct capture_state *s = state;

	top_rate_update(&s->rate, summary_records(s->summary), top_now_ns());
	s->fresh = true;
}

static bool capture_fresh(const void *state)
{
	return ((const struct capture_state *)state)->fresh;
}

static int capture_over(const void *state)
{
	return ((const struct capture_state *)state)->refused ? EXIT_VERB_FAILED : 0;
}

/* What was not measured, of each kind. */
static void add_losses(const struct gpuctr_totals *t, struct buf *b)
{
	const struct {
		uint64_t n;
		const char *name;
	} losses[] = { { t->filtered, "filtered" },
		       { t->unready + t->capturing, "skipped" },
		       { t->failed, "failed" },
		       { t->dropped, "dropped" },
		       { t->lost, "lost" } };

	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		if (losses[i].n > 0) {
			buf_text(b, ", ");
			text_count(b, losses[i].n);
			buf_printf(b, " %s", losses[i].name);
		}
	}
}

static int capture_draw(void *state, const struct top_look *look, struct frame *f, struct buf *why)
{
	struct capture_state *s = state;
	unsigned n = s->n_begun > 0 ? s->n_begun : (unsigned)s->selected.n;

	s->fresh = false;
	buf_printf(&f->text, "capture %u: ", s->id);
	buf_text(&f->text, buf_string(&s->stage));
	frame_end_line(f, LOOK_TITLE);
	text_count(&f->text, summary_records(s->summary));
	buf_printf(&f->text, " kernel%s", summary_records(s->summary) == 1 ? "" : "s");
	top_rate_add_behind(&s->rate, &f->text);
	buf_printf(&f->text, ", %u process%s", n, n == 1 ? "" : "es");
	add_losses(&s->totals, &f->text);
	frame_end_line(f, LOOK_PLAIN);
	if (s->notice.n > 0) {
		frame_add(f, buf_string(&s->notice), LOOK_TITLE);
	}
	return top_add_kernels(s->summary, s->o->sort, look, f, why);
}

const struct top_source top_capture = {
	.open = capture_open,
	.close = capture_close,
	.connection = capture_connection,
	.look = capture_look,
	.is_fresh = capture_fresh,
	.is_over = capture_over,
	.draw = capture_draw,
};
