/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void run_daemon(const struct bench_daemon *d, bool fakes)
{
	char log[128];
	int fd;

	snprintf(log, sizeof(log), "%s/log", d->folder);
	fd = open(log, O_WRONLY | O_CREAT, 0666);
	dup2(fd, STDERR_FILENO);
	dup2(fd, STDOUT_FILENO);
	if (fakes) {
		setenv("GPUCTR_FAKE_DIR", d->folder, 1);
		setenv("GPUCTR_FAKE_LOG_KIB", "64", 1);
		setenv("LD_LIBRARY_PATH", TEST_FAKE_LIBRARIES, 1);
		setenv("LD_PRELOAD", TEST_FAKE_DRIVER, 1);
	}
	execl(TEST_DAEMON, TEST_DAEMON, "-s", d->socket, "--set", "allow-users=*", "--set",
	      "connections=65536", "--set", "registered=65536", "--set",
	      "registered-per-user=65536", "--set", "captures-per-minute=10000000", "--set",
	      "permissions-per-minute=10000000", NULL);
	_exit(127);
}

static bool answers(const struct bench_daemon *d)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool up;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", d->socket);
	up = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
	close(fd);
	return up;
}

/* However the benchmark ends. */
static pid_t running, owner;

static void end_running(void)
{
	if (running > 0 && getpid() == owner) {
		kill(running, SIGTERM);
	}
}

static void find_processes(struct bench_daemon *d)
{
	char path[64], text[256] = "";
	size_t n = 1;
	FILE *f;

	d->pids[0] = d->pid;
	snprintf(d->names[0], sizeof(d->names[0]), "supervisor");
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)d->pid, (int)d->pid);
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f)) {
		die(path);
	}
	fclose(f);
	for (char *p = text; n < BENCH_PROCESSES && *p >= '0' && *p <= '9'; n++) {
		d->pids[n] = (pid_t)strtol(p, &p, 10);
		p += strspn(p, " ");
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)d->pids[n]);
		f = fopen(path, "re");
		if (f && fgets(d->names[n], sizeof(d->names[n]), f)) {
			d->names[n][strcspn(d->names[n], "\n")] = '\0';
		}
		if (f) {
			fclose(f);
		}
	}
}

void bench_daemon_start(struct bench_daemon *d, bool fakes)
{
	*d = (struct bench_daemon){ .pid = 0 };
	snprintf(d->folder, sizeof(d->folder), "/tmp/gpuctr-bench.XXXXXX");
	if (!mkdtemp(d->folder) || chmod(d->folder, 01777) < 0) {
		die(d->folder);
	}
	snprintf(d->socket, sizeof(d->socket), "%s/socket", d->folder);
	signal(SIGPIPE, SIG_IGN);
	d->pid = fork();
	if (d->pid == 0) {
		run_daemon(d, fakes);
	}
	running = d->pid;
	owner = getpid();
	atexit(end_running);
	for (int i = 0; i < 1000 && !answers(d); i++) {
		poll(NULL, 0, 10);
	}
	if (!answers(d)) {
		fprintf(stderr, "the daemon does not come up: see %s/log\n", d->folder);
		exit(1);
	}
	poll(NULL, 0, 300); /* until the gpu process has looked around */
	find_processes(d);
}

void bench_daemon_stop(struct bench_daemon *d)
{
	char command[128];

	kill(d->pid, SIGTERM);
	waitpid(d->pid, NULL, 0);
	running = 0;
	snprintf(command, sizeof(command), "rm -rf '%s'", d->folder);
	if (system(command) != 0) {
		fprintf(stderr, "%s is left behind\n", d->folder);
	}
}

size_t bench_memory(pid_t pid, const char *key)
{
	char path[64], line[256], head[32];
	unsigned long kib = 0;
	FILE *f;

	snprintf(head, sizeof(head), "%s: %%lu", key);
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid,
		 strncmp(key, "Vm", 2) == 0 ? "status" : "smaps_rollup");
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, head, &kib) == 1) {
			break;
		}
	}
	if (f) {
		fclose(f);
	}
	return kib;
}

double bench_cpu_seconds(pid_t pid)
{
	unsigned long long run_ns = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%llu", &run_ns) != 1) {
		run_ns = 0;
	}
	if (f) {
		fclose(f);
	}
	return (double)run_ns * 1e-9;
}
