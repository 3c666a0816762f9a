/* SPDX-License-Identifier: Apache-2.0 */
/* A program that shuts itself in once it has what it needs: after cuInit it makes no connection any
 * more, and a filter of its own kills whoever tries.
 *
 * fakesandbox thread|tsync socket|send now|later
 *
 *     thread  the filter is the launching thread's alone; tsync: of all threads that there are
 *     socket  forbids socket and connect; send: also sendto and sendmsg
 *     now     before the first kernel; later: at SIGUSR1
 *
 * Launches a kernel each half millisecond until SIGTERM, says "shut in" when it has its filter, and
 * at the end "done". It exits with 7. */

#include <cuda.h>

#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 128, STATUS = 7 };

static volatile sig_atomic_t asked, ended;

static void check(const char *what, int r)
{
	if (r != 0) {
		printf("%s: %d\n", what, r);
		exit(3);
	}
}

static void on_signal(int number)
{
	if (number == SIGTERM) {
		ended = 1;
	} else {
		asked = 1;
	}
}

static void forbid(scmp_filter_ctx filter, int call)
{
	check("seccomp_rule_add", seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, call, 0));
}

static void shut_in(char **argv)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	if (strcmp(argv[1], "tsync") == 0) {
		check("seccomp_attr_set", seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1));
	}
	forbid(filter, SCMP_SYS(socket));
	forbid(filter, SCMP_SYS(connect));
	if (strcmp(argv[2], "send") == 0) {
		forbid(filter, SCMP_SYS(sendto));
		forbid(filter, SCMP_SYS(sendmsg));
	}
	check("seccomp_load", seccomp_load(filter));
	seccomp_release(filter);
	printf("shut in\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUmodule module;
	CUfunction f;

	if (argc != 4) {
		return 2;
	}
	asked = strcmp(argv[3], "now") == 0;
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	check("cuInit", (int)cuInit(0));
	check("cuCtxCreate", (int)cuCtxCreate(&context, NULL, 0, 0));
	check("cuModuleLoadData", (int)cuModuleLoadData(&module, "sandbox"));
	check("cuModuleGetFunction", (int)cuModuleGetFunction(&f, module, "_Z4shutPf"));
	for (unsigned i = 0; !ended; i++) {
		if (asked) {
			asked = 0;
			shut_in(argv);
		}
		check("cuLaunchKernel",
		      (int)cuLaunchKernel(f, i % 97 + 1, 1, 1, THREADS, 1, 1, 0, NULL, NULL, NULL));
		nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	}
	printf("done\n");
	return STATUS;
}
