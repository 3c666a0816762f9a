/* SPDX-License-Identifier: Apache-2.0 */

/* What a daemon costs that does nothing, and how long it takes to list metrics.
 *
 *	bench_daemon [SECONDS]
 *
 * "idle": memory (proportional set) and CPU of its processes on the fakes, that is without NVIDIA's
 * code. "metrics": `gpuctr-client metrics`, from start to end, with the machine's own CUPTI where
 * there is one. */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/daemon.h"

static void bench_idle(double seconds)
{
	double cpu[BENCH_PROCESSES], total_cpu = 0;
	size_t total_kib = 0;
	struct bench_daemon d;

	bench_daemon_start(&d, true);
	poll(NULL, 0, 1000); /* what a start leaves to do is done */
	for (int i = 0; i < BENCH_PROCESSES; i++) {
		cpu[i] = bench_cpu_seconds(d.pids[i]);
	}
	poll(NULL, 0, (int)(1000 * seconds));
	for (int i = 0; i < BENCH_PROCESSES; i++) {
		size_t kib = bench_memory(d.pids[i], "Pss");

		cpu[i] = bench_cpu_seconds(d.pids[i]) - cpu[i];
		printf("idle, %-12s %8.1f MiB %10.4f %% of a core\n", d.names[i],
		       (double)kib / 1024, 100 * cpu[i] / seconds);
		total_kib += kib;
		total_cpu += cpu[i];
	}
	printf("idle, %-12s %8.1f MiB %10.4f %% of a core\n", "all", (double)total_kib / 1024,
	       100 * total_cpu / seconds);
	bench_daemon_stop(&d);
}

/* Seconds; negative: it failed. */
static double run_metrics(const struct bench_daemon *d, const char *pattern)
{
	double began = bench_now();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execl(TEST_CLIENT, TEST_CLIENT, "metrics", "--chip", "GH100", "--socket", d->socket,
		      pattern, NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return status == 0 ? bench_now() - began : -1;
}

static void bench_metrics(void)
{
	static const char *const patterns[] = { "dram__*", NULL };
	struct bench_daemon d;

	bench_daemon_start(&d, false);
	for (int p = 0; p < 2; p++) {
		double first = run_metrics(&d, patterns[p]), best = 1e9;

		for (int i = 0; i < 5; i++) {
			double seconds = run_metrics(&d, patterns[p]);

			best = seconds < best ? seconds : best;
		}
		if (first < 0 || best < 0) {
			printf("metrics %-10s      failed (no CUPTI on this machine?)\n",
			       patterns[p] ? patterns[p] : "(all)");
		} else {
			printf("metrics %-10s %8.1f ms first %8.1f ms warm\n",
			       patterns[p] ? patterns[p] : "(all)", 1000 * first, 1000 * best);
		}
	}
	bench_daemon_stop(&d);
}

int main(int argc, char **argv)
{
	bench_idle(argc > 1 ? strtod(argv[1], NULL) : 5);
	bench_metrics();
	return 0;
}
