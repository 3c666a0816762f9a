/* SPDX-License-Identifier: Apache-2.0 */

/* A training loop that has some of its own steps measured. It must have been started with
 * `gpuctr-client standby -- PROGRAM`, and links -lgpuctr.
 *
 *	struct measuring m;
 *	for (int step = 0; step < 1000; step++) {
 *		if (step == 500 && measuring_begin(&m, "dram__bytes.sum") != 0)
 *			puts(m.why);
 *		train();
 *		if (step == 502) {   (synchronise before: what still runs is not waited for)
 *			measuring_end(&m);
 *			printf("%lu kernels, %g bytes\n", m.kernels, m.sum);
 *		}
 *	} */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gpuctr/gpuctr.h>

struct measuring {
	struct gpuctr *g;
	struct gpuctr_capture *capture;
	unsigned self; /* our number among the registered processes; 0: not registered */
	int measured, done;
	unsigned long kernels;
	double sum; /* of the metric over all kernels */
	char why[256];
};

static void measuring_process(const struct gpuctr_registered_process *p, void *userdata)
{
	struct measuring *m = userdata;

	m->self = p->pid == (unsigned)getpid() ? p->process : m->self;
}

static void measuring_listed(const struct gpuctr_error *error, void *userdata)
{
	((struct measuring *)userdata)->done = 1;
}

/* Called when the process is attached, and again when it has opened CUPTI: from then on its
 * launches are measured. */
static void measuring_begun(struct gpuctr_capture *c, const struct gpuctr_process *p,
			    void *userdata)
{
	((struct measuring *)userdata)->measured = p->cupti[0] != 0;
}

static void measuring_record(struct gpuctr_capture *c, const struct gpuctr_record *r,
			     void *userdata)
{
	struct measuring *m = userdata;

	m->kernels++;
	m->sum += r->values[0];
}

static void measuring_over(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct measuring *m = userdata;

	m->done = 1;
	snprintf(m->why, sizeof(m->why), "%s", end->error.message);
}

static int measuring_fails(struct measuring *m)
{
	snprintf(m->why, sizeof(m->why), "%s", gpuctr_last_error(m->g)->message);
	m->g = gpuctr_disconnect(m->g);
	return -1;
}

/* Connects, and looks whether we are registered: m->self says. Not 0: m->why says why not. */
static int measuring_find(struct measuring *m)
{
	int r;

	memset(m, 0, sizeof(*m));
	r = gpuctr_connect(NULL, "training_loop", &m->g);
	r = r ? r : gpuctr_list_processes(m->g, measuring_process, measuring_listed, m);
	while (r == 0 && !m->done) {
		r = gpuctr_dispatch(m->g, -1);
	}
	if (r != 0) {
		return measuring_fails(m);
	}
	m->g = gpuctr_disconnect(m->g);
	return 0;
}

/* 0 once the process is part of a capture of the metric; else m->why says why not. */
static int measuring_begin(struct measuring *m, const char *metric)
{
	struct gpuctr_capture_options options = GPUCTR_INIT(gpuctr_capture_options);
	struct gpuctr_capture_handler handler = GPUCTR_INIT(gpuctr_capture_handler);
	int r;

	if (measuring_find(m) != 0) {
		return -1;
	}
	if (m->self == 0) {
		snprintf(m->why, sizeof(m->why), "not started with gpuctr-client standby");
		return -1;
	}
	handler.on_process = measuring_begun;
	handler.on_record = measuring_record;
	handler.on_end = measuring_over;
	options.metrics = &metric;
	options.n_metrics = 1;
	options.processes = &m->self;
	options.n_processes = 1;
	m->done = 0;
	r = gpuctr_connect(NULL, "training_loop", &m->g);
	r = r ? r : gpuctr_capture_open(m->g, &options, &handler, m, &m->capture);
	while (r == 0 && !m->measured && !m->done) {
		r = gpuctr_dispatch(m->g, -1);
	}
	if (r != 0) {
		return measuring_fails(m);
	}
	return m->measured ? 0 : -1;
}

/* Takes what was measured, and ends. */
static void measuring_end(struct measuring *m)
{
	if (m->g && !m->done && gpuctr_capture_close(m->capture) == 0) {
		while (!m->done && gpuctr_dispatch(m->g, -1) == 0) {
		}
	}
	m->g = gpuctr_disconnect(m->g);
}
