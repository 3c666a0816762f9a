/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "tests/gpu/driver.h"

/* A user's program whose output and exit status are the same in every run: what a daemon or an
 * agent does to it shows.
 *
 *   program [--kernels N] [--threads T] [--sleep-ms M] [--exit STATUS] [--fork] [--exit-in-signal]
 *
 * Each thread launches N kernels. A thread that has done a tenth of them says so when it is alone.
 */

enum { THREADS_MAX = 256, LINES = 10 };

static struct {
	int kernels, threads, sleep_ms, status;
	bool fork, exit_in_signal;
} options = { .kernels = 100, .threads = 1 };

static struct driver driver;
static CUfunction function;
static CUdeviceptr memory;
static atomic_int launched;

static void on_signal(int signo)
{
	(void)signo;
	exit(options.status);
}

static void launch(int i)
{
	void *arguments[] = { &memory, &memory };
	struct timespec pause = { options.sleep_ms / 1000, options.sleep_ms % 1000 * 1000000L };

	check("cuLaunchKernel",
	      driver.cuLaunchKernel(function, 132, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
	if (options.threads == 1 && (i + 1) % (options.kernels / LINES + 1) == 0) {
		printf("launched %d\n", i + 1);
		fflush(stdout);
	}
	if (options.exit_in_signal && i == options.kernels / 2) {
		raise(SIGUSR1);
	}
	nanosleep(&pause, NULL);
}

static void *run_thread(void *unused)
{
	check("cuCtxSetCurrent", driver.cuCtxSetCurrent(driver.context));
	for (int i = 0; i < options.kernels; i++) {
		launch(i);
		atomic_fetch_add(&launched, 1);
	}
	return unused;
}

static void run_threads(void)
{
	pthread_t threads[THREADS_MAX];

	for (int i = 0; i < options.threads; i++) {
		check("pthread_create", pthread_create(&threads[i], NULL, run_thread, NULL));
	}
	for (int i = 0; i < options.threads; i++) {
		pthread_join(threads[i], NULL);
	}
}

/* As a multiprocessing program does: the child's exit handlers run, and CUDA is not used in it. */
static void fork_a_child(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		exit(5);
	}
	waitpid(pid, &status, 0);
	printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "kernels", 1, NULL, 'n' },
		{ "threads", 1, NULL, 't' },
		{ "exit", 1, NULL, 'e' },
		{ "sleep-ms", 1, NULL, 's' },
		{ "fork", 0, NULL, 'f' },
		{ "exit-in-signal", 0, NULL, 'x' },
		{ 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (o) {
		case 'n':
			options.kernels = atoi(optarg);
			break;
		case 't':
			options.threads = atoi(optarg);
			break;
		case 'e':
			options.status = atoi(optarg);
			break;
		case 's':
			options.sleep_ms = atoi(optarg);
			break;
		case 'f':
			options.fork = true;
			break;
		case 'x':
			options.exit_in_signal = true;
			break;
		default:
			exit(2);
		}
	}
	if (options.threads < 1 || options.threads > THREADS_MAX) {
		exit(2);
	}
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	signal(SIGUSR1, on_signal);
	driver_begin(&driver, 0);
	function = driver_function(&driver, "tiny");
	check("cuMemAlloc", driver.cuMemAlloc(&memory, 1 << 20));
	run_threads();
	check("cuCtxSynchronize", driver.cuCtxSynchronize());
	if (options.fork) {
		fork_a_child();
	}
	printf("done %d\n", atomic_load(&launched));
	return options.status;
}
