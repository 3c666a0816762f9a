/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/agent/connection.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/nvidia/rm.h"
#include "tests/gpu/driver.h"
#include "tests/gpu/floor.h"

/* Allocates the profiler object over and over, as CUPTI would: by itself, or through the daemon.
 *
 *   grants bare N        N times with the driver's own ioctl; needs the privilege
 *   grants broker N      N times through the daemon, as a program of gpuctr-client
 *   grants hold S        only has a context and shows its numbers, for S seconds
 *     --every-ms M       a pause after each
 *     --keep             the first object stays to the end
 *     --target CLIENT    --context HANDLE     instead of its own context
 *
 * Prints when its context was there, the numbers that libcuda used, how many were granted, when the
 * first was refused, and the times.
 *
 * This program's own ioctl() comes before libc's: it sees libcuda allocate the object for CUPTI,
 * does its work in place of that call, with the same file and numbers, and ends there. */

enum { ANSWER_TIMEOUT_S = 5, REFUSED_MAX = 50, TRIES_MAX = 100000, FIRST_HANDLE = 0x7abc0000 };

static struct {
	const char *mode;
	int n, every_ms;
	bool keep;
	uint32_t target, context;
} options;

static int (*next_ioctl)(int, unsigned long, ...);

struct tries {
	int fd;
	const struct rm_alloc *like;
	struct rm_profiler_parameters targets;
	unsigned granted, refused;
	uint32_t last_status;
	uint64_t first_refusal_ns; /* Unix time */
	double us[TRIES_MAX];
	size_t n;
};

static double unix_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* --- one grant --- */

static int ask_driver(struct tries *t, uint32_t object, uint32_t *ret_status)
{
	return rm_alloc_profiler(t->fd, t->like->root, t->like->parent, &object, &t->targets,
				 ret_status);
}

static int ask_daemon(struct tries *t, uint32_t object, uint32_t *ret_status)
{
	const char *path = getenv("GPUCTR_SOCKET"), *token = getenv("GPUCTR_TOKEN");
	struct wire_message q = { .type = WIRE_PERMISSION_REQUEST }, answer;
	struct connection l;
	int r = connection_open(&l, path ? path : "");

	if (r < 0) {
		return r;
	}
	q.permission_request = (struct wire_permission_request){
		token ? token : "",	   t->like->root,
		t->like->parent,	   object,
		RM_CLASS_PROFILER_DEVICE,  t->targets.client_target,
		t->targets.context_target,
	};
	r = connection_send(&l, &q, t->fd, ANSWER_TIMEOUT_S * CLOCK_NS_PER_S);
	r = r < 0 ? r : connection_receive(&l, &answer, ANSWER_TIMEOUT_S * CLOCK_NS_PER_S);
	if (r == 0) {
		*ret_status = answer.type == WIRE_PERMISSION_REPLY
				      ? answer.permission_reply.status
				      : RM_STATUS_INSUFFICIENT_PERMISSIONS;
	}
	connection_close(&l);
	return r;
}

static uint32_t free_object(struct tries *t, uint32_t object)
{
	uint32_t status = 0;

	rm_free_object(t->fd, t->like->root, t->like->parent, object, &status);
	return status;
}

static void try_one(struct tries *t, uint32_t object)
{
	bool bare = strcmp(options.mode, "bare") == 0;
	uint64_t begin = clock_now_ns();
	uint32_t status = RM_STATUS_INSUFFICIENT_PERMISSIONS;
	int r = bare ? ask_driver(t, object, &status) : ask_daemon(t, object, &status);

	t->us[t->n++] = (double)(clock_now_ns() - begin) / 1e3;
	if (r == 0 && status == RM_STATUS_OK) {
		t->granted++;
		if (!options.keep || t->granted > 1) {
			free_object(t, object);
		}
		return;
	}
	t->last_status = status;
	if (t->refused++ == 0) {
		t->first_refusal_ns = clock_wall_ns();
	}
}

/* --- all of them --- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_tries(struct tries *t)
{
	qsort(t->us, t->n, sizeof(t->us[0]), by_value);
	printf("granted %u refused %u status 0x%x first refusal at %.6f\n", t->granted, t->refused,
	       t->last_status, unix_seconds(t->first_refusal_ns));
	printf("grant p50 %.1f us p99 %.1f us\n", t->us[t->n / 2], t->us[t->n * 99 / 100]);
}

/* A refusal that lasts is an answer; the pause between them is then at least a millisecond. */
static void try_all(struct tries *t)
{
	for (int i = 0; i < options.n && i < TRIES_MAX && t->refused < REFUSED_MAX; i++) {
		try_one(t, FIRST_HANDLE + (uint32_t)i);
		usleep((useconds_t)(options.every_ms * 1000 + (t->refused ? 1000 : 0)));
	}
	if (options.keep) {
		printf("kept object: free says 0x%x\n", free_object(t, FIRST_HANDLE));
	}
	print_tries(t);
}

static void work(int fd, const struct rm_alloc *like)
{
	static struct tries t;

	t.fd = fd;
	t.like = like;
	if (like->parameters != 0) {
		memcpy(&t.targets, (const void *)(uintptr_t)like->parameters, sizeof(t.targets));
	}
	printf("numbers root 0x%x target 0x%x context 0x%x\n", like->root, t.targets.client_target,
	       t.targets.context_target);
	fflush(stdout);
	t.targets.client_target = options.target ? options.target : t.targets.client_target;
	t.targets.context_target = options.context ? options.context : t.targets.context_target;
	if (strcmp(options.mode, "hold") == 0) {
		sleep((unsigned)options.n);
	} else {
		try_all(&t);
	}
	fflush(stdout);
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	struct rm_alloc *p;
	va_list ap;

	va_start(ap, request);
	p = va_arg(ap, void *);
	va_end(ap);
	if (!next_ioctl) {
		*(void **)&next_ioctl = dlsym(RTLD_NEXT, "ioctl");
	}
	if (request != RM_IOCTL_ALLOC || p->object_class != RM_CLASS_PROFILER_DEVICE ||
	    p->object - FIRST_HANDLE < TRIES_MAX) {
		return next_ioctl(fd, request, p);
	}
	work(fd, p);
	_exit(0);
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "every-ms", 1, NULL, 'e' },
		{ "keep", 0, NULL, 'k' },
		{ "target", 1, NULL, 't' },
		{ "context", 1, NULL, 'c' },
		{ 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (o == 'e') {
			options.every_ms = atoi(optarg);
		} else if (o == 'k') {
			options.keep = true;
		} else if (o == 't') {
			options.target = (uint32_t)strtoul(optarg, NULL, 16);
		} else if (o == 'c') {
			options.context = (uint32_t)strtoul(optarg, NULL, 16);
		} else {
			exit(2);
		}
	}
	if (optind + 2 != argc) {
		fprintf(stderr, "usage: grants bare|broker|hold N\n");
		exit(2);
	}
	options.mode = argv[optind];
	options.n = atoi(argv[optind + 1]);
}

int main(int argc, char **argv)
{
	char metric[] = "dram__bytes_read.sum";
	static struct floor f;
	static struct driver d;

	parse(argc, argv);
	alarm(120);
	unsetenv("CUDA_INJECTION64_PATH"); /* the agent would answer libcuda before us */
	unsetenv("NVTX_INJECTION64_PATH");
	driver_begin(&d, 0);
	printf("context at %.6f\n", unix_seconds(d.context_ns));
	fflush(stdout);
	floor_begin(&f, d.context, 0, metric, 1);
	fprintf(stderr, "grants: CUPTI did not ask for the object\n");
	return 1;
}
