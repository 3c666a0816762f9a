/* SPDX-License-Identifier: Apache-2.0 */

/* gpuctr-sampler under a lease, as `permit -- gpuctr-sampler` would run it, and what it writes.
 * What it has sampled when the lease is over is shown. */

#include "client/cli/timeline.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/leased.h"
#include "client/cli/request.h"
#include "client/cli/sampler_child.h"
#include "client/cli/say.h"
#include "client/cli/timeline_view.h"
#include "client/sampler/stream.h"
#include "proto/base/clock.h"

enum { WORDS_MAX = 16 };

struct timeline {
	const struct run_options *options;
	struct strings metrics;
	char path[PATH_MAX]; /* of the sampler */
	char gpu[SAMPLER_UUID_BYTES];
	int life;	    /* the sampler's standard input; -1: it was told to end */
	uint64_t kill_ns;   /* when it is killed; 0: never */
	uint64_t end_at_ns; /* when its duration should be over; 0: none */
	uint64_t begin_by_ns;
	bool was_started, was_killed;
	bool broken; /* it wrote nonsense */
	struct sampler_reader *reader;
	struct timeline_view view;
};

/* --- which metrics ---------------------------------------------------------------------------- */

/* The sampler takes CUPTI's names. The daemon's plan says which metrics a name stands for (presets,
 * derived metrics, globs, names without their rollup). Only CUPTI says whether they can be
 * sampled. */

struct question {
	struct request request; /* first: request_answer() */
	struct strings *names;
};

/* How long a kernel took is nothing that a sample could say. */
static const char not_sampled[] = "gpu__time_duration.sum";

static bool is_plain(const char *name)
{
	return strchr(name, '.') && !strpbrk(name, "*?[") && strncmp(name, "regex:", 6) != 0;
}

static void on_plan(const struct gpuctr_plan *plan, const struct gpuctr_error *error,
		    void *userdata)
{
	struct question *q = userdata;
	bool good = true;

	for (size_t i = 0; plan && good && i < plan->n_metrics; i++) {
		const char *name = plan->metrics[i];

		good = strcmp(name, not_sampled) == 0 || strings_add(q->names, name, strlen(name));
	}
	request_answer(&q->request, error);
	q->request.status = good ? q->request.status : EXIT_REFUSED;
}

/* False: the reason was reported. */
static bool ask(const struct run_options *o, struct strings *ret)
{
	struct question q = { .names = ret };
	int r;

	if (!request_open(&q.request, o->socket)) {
		return false;
	}
	r = gpuctr_plan(q.request.g, NULL, strings_items(&o->metrics), o->metrics.n, on_plan, &q);
	return request_finish(&q.request, r) == 0;
}

static bool find_metrics(const struct run_options *o, struct strings *ret)
{
	bool plain = true, good = true;

	for (size_t i = 0; i < o->metrics.n; i++) {
		plain = plain && is_plain(o->metrics.items[i]);
	}
	if (!plain && !ask(o, ret)) {
		return false;
	}
	for (size_t i = 0; plain && good && i < o->metrics.n; i++) {
		good = strings_add(ret, o->metrics.items[i], strlen(o->metrics.items[i]));
	}
	if (ret->n == 0 || ret->n > SAMPLER_METRICS_MAX) {
		say_usage("--metrics: these are %zu names; 1 to %d can be sampled, and how long "
			  "kernels take cannot",
			  ret->n, SAMPLER_METRICS_MAX);
		return false;
	}
	return good;
}

/* --- the sampler --- */

/* "a,b"; free with free(). NULL: out of memory. */
static char *join(const struct strings *s)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < s->n; i++) {
		buf_printf(&b, "%s%s", i > 0 ? "," : "", s->items[i]);
	}
	return buf_take(&b);
}

static bool start(struct leased *l, const char *const *added, int *ret_status)
{
	struct timeline *t = l->data;
	const struct run_options *o = t->options;
	char interval[32], duration[32], *metrics;
	const char *argv[WORDS_MAX] = { "gpuctr-sampler", "--quiet", "--gpu",	 t->gpu,
					"--interval",	  interval,  "--metrics" };
	int r;

	if (!timeline_view_open(&t->view)) {
		return false;
	}
	argv[7] = metrics = join(&t->metrics);
	snprintf(interval, sizeof(interval), "%lluns", (unsigned long long)o->timeline.interval_ns);
	if (o->duration_ns > 0) {
		snprintf(duration, sizeof(duration), "%lluns", (unsigned long long)o->duration_ns);
		argv[8] = "--duration";
		argv[9] = duration;
		t->end_at_ns = clock_now_ns() + o->duration_ns;
	}
	r = metrics ? sampler_start(&l->child, t->path, argv, added, &l->signals.inherited,
				    &t->life, &l->input)
		    : -ENOMEM;
	free(metrics);
	if (r < 0) {
		say_usage("%s: cannot be run: %s", t->path, strerror(-r));
		*ret_status = EXIT_REFUSED;
		return false;
	}
	t->was_started = true;
	t->begin_by_ns = clock_now_ns() + SAMPLER_BEGIN_NS;
	return true;
}

static void ask_end(struct timeline *t)
{
	if (t->life >= 0) {
		sampler_ask_end(&t->life);
		t->kill_ns = clock_now_ns() + SAMPLER_END_NS;
	}
}

static void end_now(struct leased *l)
{
	struct timeline *t = l->data;

	t->was_killed = true;
	if (l->child.pid > 0) {
		kill(l->child.pid, SIGKILL);
	}
}

/* --- events --- */

/* The lease is of one GPU, which the sampler gets by its UUID: CUDA may number them otherwise. */
static void on_opened(struct leased *l, const struct gpuctr_opened *opened)
{
	struct timeline *t = l->data;

	if (opened->n_gpus > 0) {
		snprintf(t->gpu, sizeof(t->gpu), "%s", opened->gpus[0].uuid);
	}
}

static void close_input(struct leased *l)
{
	if (l->input >= 0) {
		close(l->input);
		l->input = -1;
	}
}

static void take_input(struct leased *l)
{
	struct timeline *t = l->data;
	int r = l->input >= 0 ? sampler_take(l->input, t->reader) : 0;

	if (r < 0) {
		t->broken = true;
		end_now(l);
	}
	if (r != 0) {
		close_input(l);
	}
}

static void on_signal(struct leased *l)
{
	ask_end(l->data);
}

static void on_early_end(struct leased *l, const struct gpuctr_error *error)
{
	struct timeline *t = l->data;

	if (error->code == GPUCTR_E_DISCONNECTED) {
		say("the daemon is gone: sampling ends, what was sampled before follows");
	} else {
		if (error->code != GPUCTR_OK) {
			say_gpuctr_error(error);
		}
		say("the lease is over: sampling ends, what was sampled before follows");
	}
	t->view.is_cut = true;
	ask_end(t);
}

static void on_tick(struct leased *l)
{
	struct timeline *t = l->data;
	uint64_t now = clock_now_ns();

	timeline_view_progress(&t->view);
	if (!t->view.has_begun && !t->view.has_ended && t->life >= 0 && now > t->begin_by_ns) {
		sampler_tell_silent(t->gpu, l->child.pid);
		ask_end(t);
	}
	if (t->end_at_ns != 0 && t->kill_ns == 0 && now > t->end_at_ns + SAMPLER_END_NS) {
		ask_end(t);
	}
	if (t->kill_ns != 0 && now > t->kill_ns && !t->was_killed) {
		say("the sampler does not end, and is killed");
		end_now(l);
	}
}

static void on_command_end(struct leased *l)
{
	struct timeline *t = l->data;

	take_input(l);
	close_input(l); /* a child of the sampler's may have it as well */
	say_clear();
	t->view.status = l->child.status;
	if (t->broken) {
		say("the sampler wrote what is no stream of samples: what follows came before");
	}
}

static void on_closed(struct leased *l, const struct gpuctr_end *end)
{
	(void)l;
	(void)end;
}

static const struct leased_user user = {
	.interrupted = "interrupted: nothing was sampled",
	.disconnected = "nothing was sampled: ask again once the daemon is back",
	.on_opened = on_opened,
	.start = start,
	.on_signal = on_signal,
	.on_early_end = on_early_end,
	.on_input = take_input,
	.on_tick = on_tick,
	.on_command_end = on_command_end,
	.on_closed = on_closed,
};

int timeline_run(const struct run_options *o)
{
	struct strings gpus = { 0 };
	struct timeline t = { .options = o, .life = -1 };
	struct leased l = {
		.user = &user,
		.data = &t,
		.options = { .devices = &gpus,
			     .socket = o->socket,
			     .timeout_ns = o->timeout_ns,
			     .no_wait = o->no_wait,
			     .quiet = o->quiet,
			     .program = "gpuctr-sampler" },
		.input = -1,
	};
	int status = EXIT_REFUSED;

	if (!sampler_find(t.path)) {
		say_error("no-agent", "gpuctr-sampler was not found",
			  "Install gpuctr-client, or name it with GPUCTR_SAMPLER.");
		return EXIT_REFUSED;
	}
	if (!timeline_view_init(&t.view, o) || !find_metrics(o, &t.metrics)) {
		strings_deinit(&t.metrics);
		return EXIT_REFUSED;
	}
	t.reader = sampler_reader_new(&timeline_view_handler, &t.view);
	if (t.reader && strings_add(&gpus, o->timeline.gpu, strlen(o->timeline.gpu))) {
		status = leased_run(&l);
		status = t.was_started ? timeline_view_finish(&t.view) : status;
	}
	sampler_reader_free(t.reader);
	timeline_view_close(&t.view);
	strings_deinit(&t.metrics);
	strings_deinit(&gpus);
	sampler_ask_end(&t.life);
	close_input(&l);
	return status;
}
