/* SPDX-License-Identifier: Apache-2.0 */

/* The daemon: its GPUs, captures and programs in standby, as `status` and `ps` tell them, with the
 * kernels a second that follow from two answers. Records of captures go to those who opened them
 * and to nobody else, so this says how much is measured and not what. A daemon that goes away is
 * looked for again each time. */

#include "client/cli/top.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/cli/grid.h"
#include "client/cli/say.h"
#include "client/cli/status_json.h"
#include "client/cli/text.h"
#include "client/cli/verb.h"

enum { COLUMN_CAPTURE, COLUMN_USER, COLUMN_PROGRAM, COLUMN_STATE, COLUMN_KERNELS, COLUMN_RATE };

static const struct grid_column capture_columns[] = {
	{ "CAPTURE", .right = true },
	{ "USER", .rank = 3 },
	{ "PROGRAM" },
	{ "STATE", .rank = 1 },
	{ "KERNELS", .right = true },
	{ "KERNELS/S", .right = true, .rank = 2 },
	{ "MEASURED", .right = true, .rank = 6 },
	{ "PROCESSES", .right = true, .rank = 7 },
	{ "LEASE", .right = true, .rank = 5 },
	{ "PID", .right = true, .rank = 4 },
	{ "METRICS", .cut = true, .rank = 8 },
};

enum { COLUMN_PID = 0 };

static const struct grid_column program_columns[] = {
	{ "PID", .right = true },
	{ "USER", .rank = 2 },
	{ "PROGRAM" },
	{ "STATE", .rank = 1 },
	{ "REGISTERED", .right = true, .rank = 5 },
	{ "JOB", .rank = 3 },
	{ "RANK", .right = true, .rank = 4 },
};

static const struct grid_column gpu_columns[] = {
	{ "GPU", .right = true },
	{ "NAME", .rank = 1 },
	{ "STATE" },
	{ "WAITING", .right = true, .rank = 2 },
	{ "JOB", .rank = 3 },
	{ "UUID", .rank = 4 },
};

/* The orders that 's' goes through. */
static const struct {
	const char *name;
	unsigned capture_column, program_column;
	enum grid_order capture_order, program_order;
} sorts[] = {
	{ "number", COLUMN_CAPTURE, COLUMN_PID, GRID_LOWEST, GRID_LOWEST },
	{ "rate", COLUMN_RATE, COLUMN_PID, GRID_HIGHEST, GRID_LOWEST },
	{ "kernels", COLUMN_KERNELS, COLUMN_PID, GRID_HIGHEST, GRID_LOWEST },
	{ "user", COLUMN_USER, COLUMN_USER, GRID_TEXT, GRID_TEXT },
	{ "program", COLUMN_PROGRAM, COLUMN_PROGRAM, GRID_TEXT, GRID_TEXT },
};

enum { N_SORTS = sizeof(sorts) / sizeof(sorts[0]) };

struct capture_rate {
	unsigned capture;
	bool seen; /* in the last answer */
	struct top_rate rate;
};

struct daemon_state {
	const struct top_options *o;
	struct gpuctr *g; /* NULL: it is gone */
	bool asked, has_status, has_programs, fresh, is_first;
	uint64_t asked_ns;
	struct buf head, trouble; /* safe */
	struct grid gpus, captures, programs;
	struct grid coming; /* programs, while they come */
	struct capture_rate *rates;
	size_t n_rates;
	unsigned first_sort;
};

/* --- rates ----------------------------------------------------------------------------------- */

/* NULL: out of memory. */
static struct capture_rate *find_rate(struct daemon_state *s, unsigned capture)
{
	struct capture_rate *rates;

	for (size_t i = 0; i < s->n_rates; i++) {
		if (s->rates[i].capture == capture) {
			return &s->rates[i];
		}
	}
	rates = realloc(s->rates, (s->n_rates + 1) * sizeof(*rates));
	if (!rates) {
		return NULL;
	}
	s->rates = rates;
	rates[s->n_rates] = (struct capture_rate){ .capture = capture };
	return &rates[s->n_rates++];
}

static void forget_rates(struct daemon_state *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_rates; i++) {
		if (s->rates[i].seen) {
			s->rates[n] = s->rates[i];
			s->rates[n++].seen = false;
		}
	}
	s->n_rates = n;
}

/* --- answers --------------------------------------------------------------------------------- */

static void take_number(struct grid *g, uint64_t n, bool known)
{
	struct buf b = { 0 };

	if (known) {
		text_count(&b, n);
	}
	grid_value(g, known ? (double)n : -1, buf_string(&b));
	buf_deinit(&b);
}

/* As it stands, to be copied to a command line. */
static void take_id(struct grid *g, unsigned n)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	grid_value(g, n, text);
}

static void take_duration(struct grid *g, uint64_t ns)
{
	struct buf b = { 0 };

	if (ns > 0) {
		text_duration(&b, ns);
	}
	grid_value(g, (double)ns, buf_string(&b));
	buf_deinit(&b);
}

static void take_rate(struct daemon_state *s, const struct gpuctr_capture_info *info)
{
	struct capture_rate *r = find_rate(s, info->capture);
	struct buf b = { 0 };
	bool known;

	if (!r) {
		grid_text(&s->captures, "");
		return;
	}
	r->seen = true;
	top_rate_update(&r->rate, info->totals.seen, top_now_ns());
	known = info->totals.seen > 0 && !isnan(r->rate.per_second);
	if (known) {
		top_rate_add(&r->rate, &b);
	}
	grid_value(&s->captures, known ? r->rate.per_second : -1, buf_string(&b));
	buf_deinit(&b);
}

static void take_state(struct grid *g, const struct gpuctr_capture_info *info)
{
	char text[64];

	if (info->position > 0) {
		snprintf(text, sizeof(text), "queued, number %u", info->position);
	} else {
		snprintf(text, sizeof(text), "%s", status_state_name(info->state));
	}
	grid_text(g, text);
}

static void take_metrics(struct grid *g, const struct gpuctr_capture_info *info)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < info->n_metrics; i++) {
		buf_printf(&b, "%s%s", i > 0 ? ", " : "", info->metrics[i]);
	}
	grid_text(g, buf_string(&b));
	buf_deinit(&b);
}

static void take_capture(struct daemon_state *s, const struct gpuctr_capture_info *info)
{
	struct grid *g = &s->captures;
	bool counted = info->totals.seen > 0;

	take_id(g, info->capture);
	grid_text(g, info->user);
	grid_text(g, info->program);
	take_state(g, info);
	take_number(g, info->totals.seen, counted);
	take_rate(s, info);
	take_number(g, info->totals.measured, counted);
	take_number(g, info->processes, info->processes > 0);
	take_duration(g, info->lease_left_ns);
	take_id(g, info->pid);
	take_metrics(g, info);
}

static void take_gpu(struct grid *g, const struct gpuctr_gpu *gpu, bool in_trouble)
{
	struct buf b = { 0 };

	take_id(g, gpu->index);
	grid_text(g, gpu->name);
	if (gpu->holder > 0) {
		buf_printf(&b, "held by capture %u", gpu->holder);
	}
	grid_text(g, b.n > 0 ? buf_string(&b) : in_trouble ? "not measurable" : "free");
	take_number(g, gpu->waiting, gpu->waiting > 0);
	buf_clear(&b);
	if (*gpu->job) {
		buf_printf(&b, "%s of %s", gpu->job, gpu->job_user);
	}
	grid_text(g, buf_string(&b));
	grid_text(g, gpu->uuid);
	buf_deinit(&b);
}

static void take_head(struct daemon_state *s, const struct gpuctr_status *status)
{
	buf_clear(&s->head);
	buf_text(&s->head, "gpucountd ");
	text_terminal(&s->head, status->daemon);
	buf_text(&s->head, ", up ");
	text_duration(&s->head, status->uptime_ns);
	buf_printf(&s->head, ", %u connection%s, driver ", status->peers,
		   status->peers == 1 ? "" : "s");
	text_terminal(&s->head, *status->driver ? status->driver : "none");
	buf_clear(&s->trouble);
	if (status->trouble.code != GPUCTR_OK) {
		buf_text(&s->trouble, "nothing can be measured: ");
		text_terminal(&s->trouble, status->trouble.message);
	}
}

/* The answers to one asking come one after the other; both are there before a frame is. */
static void note_answer(struct daemon_state *s, const struct gpuctr_error *error)
{
	if (error) {
		buf_clear(&s->trouble);
		text_terminal(&s->trouble, error->message);
		s->has_status = s->has_programs = true;
	}
	if (s->has_status && s->has_programs) {
		s->asked = false;
		s->fresh = true;
	}
}

static void on_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
		      void *userdata)
{
	struct daemon_state *s = userdata;

	if (status) {
		take_head(s, status);
		grid_clear(&s->gpus);
		grid_clear(&s->captures);
		for (size_t i = 0; i < status->n_gpus; i++) {
			take_gpu(&s->gpus, &status->gpus[i], status->trouble.code != GPUCTR_OK);
		}
		for (size_t i = 0; i < status->n_captures; i++) {
			take_capture(s, &status->captures[i]);
		}
		forget_rates(s);
	}
	s->has_status = true;
	note_answer(s, error);
}

static void on_program(const struct gpuctr_registered_process *p, void *userdata)
{
	struct grid *g = &((struct daemon_state *)userdata)->coming;
	const char *rank = select_claim(p, "RANK");
	char text[256];

	rank = rank ? rank : select_claim(p, "SLURM_PROCID");
	take_id(g, select_pid(p));
	grid_text(g, p->user);
	grid_text(g, p->program);
	snprintf(text, sizeof(text), "measured by capture %u", p->capture);
	grid_text(g, p->capture ? text : "standby");
	take_duration(g, p->age_ns);
	select_job(p, text, sizeof(text));
	grid_text(g, text);
	grid_text(g, rank);
}

static void on_programs(const struct gpuctr_error *error, void *userdata)
{
	struct daemon_state *s = userdata;
	struct grid before = s->programs;

	s->programs = s->coming;
	s->coming = before;
	s->has_programs = true;
	note_answer(s, error);
}

/* --- the source ------------------------------------------------------------------------------ */

static bool find_sort(const char *name, unsigned *ret)
{
	for (unsigned i = 0; i < N_SORTS; i++) {
		if (name && strcmp(sorts[i].name, name) == 0) {
			*ret = i;
			return true;
		}
	}
	*ret = 0;
	return name == NULL;
}

bool top_daemon_sorts(const char *name)
{
	unsigned ignored;

	return find_sort(name, &ignored);
}

static void daemon_close(void *state)
{
	struct daemon_state *s = state;

	gpuctr_disconnect(s->g);
	buf_deinit(&s->head);
	buf_deinit(&s->trouble);
	grid_deinit(&s->gpus);
	grid_deinit(&s->captures);
	grid_deinit(&s->programs);
	grid_deinit(&s->coming);
	free(s->rates);
	free(s);
}

static int ask(struct daemon_state *s)
{
	int r;

	s->has_status = s->has_programs = false;
	s->asked = true;
	s->asked_ns = top_now_ns();
	grid_clear(&s->coming);
	r = gpuctr_get_status(s->g, on_status, s);
	return r ? r : gpuctr_list_processes(s->g, on_program, on_programs, s);
}

/* The first time the daemon has to be there. */
static void *daemon_open(const struct top_options *o)
{
	struct daemon_state *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		say_usage("out of memory");
		return NULL;
	}
	s->o = o;
	grid_init(&s->gpus, gpu_columns, sizeof(gpu_columns) / sizeof(gpu_columns[0]));
	grid_init(&s->captures, capture_columns,
		  sizeof(capture_columns) / sizeof(capture_columns[0]));
	grid_init(&s->programs, program_columns,
		  sizeof(program_columns) / sizeof(program_columns[0]));
	s->coming = s->programs;
	find_sort(o->sort, &s->first_sort);
	r = gpuctr_connect(o->socket, "gpuctr-client", &s->g);
	r = r ? r : ask(s);
	while (r == 0 && s->asked) {
		r = gpuctr_dispatch(s->g, -1);
	}
	if (r) {
		if (r > 0) {
			say_gpuctr_error(gpuctr_last_error(s->g));
		} else {
			say_usage("%s", strerror(-r));
		}
		daemon_close(s);
		return NULL;
	}
	return s;
}

static void lose(struct daemon_state *s)
{
	buf_clear(&s->trouble);
	text_terminal(&s->trouble, gpuctr_last_error(s->g)->message);
	buf_text(&s->trouble, "; trying again");
	s->g = gpuctr_disconnect(s->g);
	s->asked = false;
	s->fresh = true;
}

static struct gpuctr *daemon_connection(void *state)
{
	return ((struct daemon_state *)state)->g;
}

static void daemon_look(void *state)
{
	struct daemon_state *s = state;
	int r = 0;

	if (s->g && gpuctr_dispatch(s->g, 0) != 0) {
		lose(s);
	}
	if (!s->g) {
		r = gpuctr_connect(s->o->socket, "gpuctr-client", &s->g);
	}
	if (r == 0 && s->asked) {
		buf_clear(&s->trouble);
		buf_text(&s->trouble, "the daemon has not answered for ");
		text_duration(&s->trouble, top_now_ns() - s->asked_ns);
		s->fresh = true;
	} else if (r == 0) {
		r = ask(s);
	}
	if (r != 0 && s->g) {
		lose(s);
	}
}

static bool daemon_fresh(const void *state)
{
	return ((const struct daemon_state *)state)->fresh;
}

static int daemon_over(const void *state)
{
	(void)state;
	return 0;
}

static void add_grid(const struct grid *g, const char *title, size_t width, struct frame *f)
{
	frame_add(f, "", LOOK_PLAIN);
	frame_add(f, title, LOOK_TITLE);
	if (grid_rows(g) > 0) {
		grid_add_to(g, width, f);
	} else {
		frame_add(f, "none", LOOK_DIM);
	}
}

static int daemon_draw(void *state, const struct top_look *look, struct frame *f, struct buf *why)
{
	struct daemon_state *s = state;
	unsigned sort = (s->first_sort + look->sort) % N_SORTS;
	struct buf title = { 0 };

	(void)why;
	s->fresh = false;
	grid_sort(&s->captures, sorts[sort].capture_column, sorts[sort].capture_order);
	grid_sort(&s->programs, sorts[sort].program_column, sorts[sort].program_order);
	frame_add(f, buf_string(&s->head), LOOK_TITLE);
	if (s->trouble.n > 0) {
		frame_add(f, buf_string(&s->trouble), LOOK_TITLE);
	}
	frame_fix_head(f);
	add_grid(&s->gpus, "GPUs", look->width, f);
	buf_printf(&title, "captures, by %s", sorts[sort].name);
	add_grid(&s->captures, buf_string(&title), look->width, f);
	buf_deinit(&title);
	add_grid(&s->programs, "programs in standby", look->width, f);
	return 0;
}

const struct top_source top_daemon = {
	.open = daemon_open,
	.close = daemon_close,
	.connection = daemon_connection,
	.look = daemon_look,
	.is_fresh = daemon_fresh,
	.is_over = daemon_over,
	.draw = daemon_draw,
};
