/* SPDX-License-Identifier: Apache-2.0 */

/* What a job manager asks: how many bytes do the kernels of this job move now, for three seconds?
 *
 *	cc job_manager.c -o job_manager -lgpuctr && ./job_manager 1234 */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <gpuctr/gpuctr.h>

enum { PROCESSES_MAX = 64, SECONDS = 3 };

static unsigned processes[PROCESSES_MAX];
static size_t n_processes;
static char wanted[64]; /* "SLURM_JOB_ID=1234" */
static double bytes;
static unsigned long kernels;
static int done;

static void on_process(const struct gpuctr_registered_process *p, void *userdata)
{
	for (size_t i = 0; i < p->n_claims && n_processes < PROCESSES_MAX; i++) {
		if (strcmp(p->claims[i], wanted) == 0 && p->capture == 0) {
			processes[n_processes++] = p->process;
		}
	}
}

static void on_listed(const struct gpuctr_error *error, void *userdata)
{
	done = 1;
}

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	*(time_t *)userdata = time(NULL) + SECONDS;
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *r, void *userdata)
{
	kernels++;
	bytes += r->values[0];
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	done = 1;
	printf("%zu processes, %lu kernels, %.3g bytes%s%s\n", n_processes, kernels, bytes,
	       end->error.code ? ": " : "", end->error.message);
}

int main(int argc, char **argv)
{
	const char *const metrics[] = { "dram__bytes.sum" };
	struct gpuctr_capture_options options = GPUCTR_INIT(gpuctr_capture_options);
	struct gpuctr_capture_handler handler = GPUCTR_INIT(gpuctr_capture_handler);
	struct gpuctr_capture *capture = NULL;
	struct gpuctr *g;
	time_t end = 0;
	int r = gpuctr_connect(NULL, "job_manager", &g);

	snprintf(wanted, sizeof(wanted), "SLURM_JOB_ID=%s", argc > 1 ? argv[1] : "");
	r = r ? r : gpuctr_list_processes(g, on_process, on_listed, NULL);
	while (r == 0 && !done) {
		r = gpuctr_dispatch(g, -1);
	}
	handler.on_ready = on_ready;
	handler.on_record = on_record;
	handler.on_end = on_end;
	options.metrics = metrics;
	options.n_metrics = 1;
	options.processes = processes;
	options.n_processes = n_processes;
	done = n_processes == 0;
	if (r == 0 && !done) {
		r = gpuctr_capture_open(g, &options, &handler, &end, &capture);
	}
	while (r == 0 && !done) {
		r = gpuctr_dispatch(g, 100);
		if (!done && end != 0 && time(NULL) >= end) {
			gpuctr_capture_close(capture); /* on_end follows */
			end = 0;
		}
	}
	if (r != 0) {
		fprintf(stderr, "%s. %s\n", gpuctr_last_error(g)->message,
			gpuctr_last_error(g)->remedy);
	}
	gpuctr_disconnect(g);
	return r != 0 || n_processes == 0;
}
