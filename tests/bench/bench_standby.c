/* SPDX-License-Identifier: Apache-2.0 */

/* What programs in standby cost the daemon, and whether a program that is captured again and again
 * grows.
 *
 *	bench_standby [AGENTS [CYCLES]]
 *
 * "idle": AGENTS connections of this process that have registered and wait, which is all that the
 * daemon sees of a program in standby; memory is the proportional set of its processes, without
 * what the kernel keeps for sockets. "cycles": one program on the fakes that launches without end;
 * each cycle opens a capture of it, waits for the first record, and closes it. The first hundred
 * cycles are to warm up. Rows are of a hundred cycles each. */

#include <gpuctr/gpuctr.h>

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"
#include "tests/bench/daemon.h"

enum { IDLE_S = 10, ROW = 100, REGISTER_MS = 60000 };

static void die(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

/* --- idle --- */

static void raise_limit(void)
{
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}

/* -1: the daemon takes no more. */
static int register_one(const struct bench_daemon *d, const struct buffer *hello)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint8_t header[FRAME_HEADER_BYTES];

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", d->socket);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    send(fd, hello->data + hello->start, buffer_length(hello), MSG_NOSIGNAL) < 0 ||
	    recv(fd, header, sizeof(header), MSG_WAITALL) != sizeof(header) ||
	    header[4] != (WIRE_AGENT_REGISTERED & 0xff)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void encode_hello(struct buffer *out)
{
	static const char *const claims[] = { "SLURM_JOB_ID=4711", "SLURM_STEP_ID=0", "RANK=3",
					      "CUDA_VISIBLE_DEVICES=3" };
	const struct wire_message hello = {
		.type = WIRE_AGENT_HELLO,
		.agent_hello = { .version = PROTO_VERSION,
				 .program = "python3",
				 .claims = { ARRAY_SIZE(claims), claims } },
	};
	struct arena scratch;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	if (wire_encode(&scratch, out, &hello) < 0) {
		die("out of memory");
	}
	arena_deinit(&scratch);
}

static double daemon_mib(const struct bench_daemon *d)
{
	size_t kib = 0;

	for (int i = 0; i < BENCH_PROCESSES; i++) {
		kib += bench_memory(d->pids[i], "Pss");
	}
	return (double)kib / 1024;
}

static double daemon_cpu_seconds(const struct bench_daemon *d)
{
	double seconds = 0;

	for (int i = 0; i < BENCH_PROCESSES; i++) {
		seconds += bench_cpu_seconds(d->pids[i]);
	}
	return seconds;
}

static void print_idle(const struct bench_daemon *d, size_t n)
{
	double cpu, mib = daemon_mib(d);

	poll(NULL, 0, 1000);
	cpu = daemon_cpu_seconds(d);
	poll(NULL, 0, IDLE_S * 1000);
	cpu = daemon_cpu_seconds(d) - cpu;
	printf("idle, %6zu in standby %8.1f MiB %10.4f %% of a core\n", n, mib, 100 * cpu / IDLE_S);
}

static void bench_idle(size_t wanted)
{
	int *fds = calloc(wanted + 1, sizeof(*fds));
	struct buffer hello = { 0 };
	struct bench_daemon d;
	double began;
	size_t n = 0;

	raise_limit();
	bench_daemon_start(&d, true);
	encode_hello(&hello);
	print_idle(&d, 0);
	began = bench_now();
	while (fds && n < wanted && (fds[n] = register_one(&d, &hello)) >= 0) {
		n++;
	}
	printf("registered %zu of %zu in %.1f s\n", n, wanted, bench_now() - began);
	print_idle(&d, n);
	while (n > 0) {
		close(fds[--n]);
	}
	free(fds);
	buffer_deinit(&hello);
	bench_daemon_stop(&d);
}

/* --- cycles --- */

static pid_t start_program(const struct bench_daemon *d)
{
	pid_t pid = fork();

	if (pid == 0) {
		setenv("GPUCTR_FAKE_DIR", d->folder, 1);
		setenv("GPUCTR_FAKE_LOG_KIB", "64", 1);
		setenv("GPUCTR_SOCKET", d->socket, 1);
		setenv("GPUCTR_AGENT", TEST_AGENT, 1);
		setenv("LD_LIBRARY_PATH", TEST_FAKE_LIBRARIES, 1);
		setenv("LD_PRELOAD", TEST_FAKE_DRIVER, 1);
		execl(TEST_CLIENT, TEST_CLIENT, "standby", "--", TEST_FAKEAPP, "--kernels",
		      "2000000000", "--sleep-us", "100", NULL);
		_exit(127);
	}
	return pid;
}

struct cycle {
	unsigned process; /* the daemon's number of the program; 0: not registered yet */
	bool listed, recorded, over;
	int code;
};

static void on_listed(const struct gpuctr_registered_process *p, void *userdata)
{
	((struct cycle *)userdata)->process = p->process;
}

static void on_list_done(const struct gpuctr_error *error, void *userdata)
{
	(void)error;
	((struct cycle *)userdata)->listed = true;
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *record, void *userdata)
{
	(void)c;
	(void)record;
	((struct cycle *)userdata)->recorded = true;
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct cycle *cycle = userdata;

	(void)c;
	cycle->over = true;
	cycle->code = end->error.code;
}

static void wait_for(struct gpuctr *g, const bool *what, const bool *or_what)
{
	while (!*what && !*or_what) {
		if (gpuctr_dispatch(g, -1) != 0) {
			die(gpuctr_last_error(g)->message);
		}
	}
}

static void find_program(struct gpuctr *g, struct cycle *cycle)
{
	double by = bench_now() + REGISTER_MS / 1000.0;

	while (cycle->process == 0 && bench_now() < by) {
		cycle->listed = false;
		if (gpuctr_list_processes(g, on_listed, on_list_done, cycle) != 0) {
			die(gpuctr_last_error(g)->message);
		}
		wait_for(g, &cycle->listed, &cycle->over);
		poll(NULL, 0, 10);
	}
	if (cycle->process == 0) {
		die("the program does not register");
	}
}

/* Seconds; *first_s: until the first record was there. */
static double run_cycle(struct gpuctr *g, struct cycle *cycle, double *first_s)
{
	static const struct gpuctr_capture_handler handler = { .size = sizeof(handler),
							       .on_record = on_record,
							       .on_end = on_end };
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	struct gpuctr_capture_options o = GPUCTR_INIT(gpuctr_capture_options);
	double began = bench_now();
	struct gpuctr_capture *c;

	o.metrics = metrics;
	o.n_metrics = 1;
	o.processes = &cycle->process;
	o.n_processes = 1;
	cycle->recorded = cycle->over = false;
	if (gpuctr_capture_open(g, &o, &handler, cycle, &c) != 0) {
		die(gpuctr_last_error(g)->message);
	}
	wait_for(g, &cycle->recorded, &cycle->over);
	*first_s += bench_now() - began;
	if (!cycle->over) {
		gpuctr_capture_close(c);
		wait_for(g, &cycle->over, &cycle->over);
	}
	if (cycle->code != 0) {
		die(gpuctr_error_name(cycle->code));
	}
	return bench_now() - began;
}

static size_t count_entries(pid_t pid, const char *folder)
{
	char path[64];
	size_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, folder);
	dir = opendir(path);
	while (dir && readdir(dir)) {
		n++;
	}
	if (dir) {
		closedir(dir);
	}
	return n > 2 ? n - 2 : 0;
}

static pid_t front_pid(const struct bench_daemon *d)
{
	for (int i = 0; i < BENCH_PROCESSES; i++) {
		if (strcmp(d->names[i], "front") == 0) {
			return d->pids[i];
		}
	}
	return d->pid;
}

/* Seconds of a row of cycles. */
static double run_row(const struct bench_daemon *d, struct gpuctr *g, struct cycle *cycle,
		      pid_t program, unsigned before)
{
	double total_s = 0, first_s = 0;

	for (unsigned i = 0; i < ROW; i++) {
		total_s += run_cycle(g, cycle, &first_s);
	}
	printf("cycles, %5u to %5u: %7.1f ms, first record %7.1f ms; program %6zu KiB, %2zu "
	       "descriptors, %2zu threads; daemon %6.1f MiB, front %2zu descriptors\n",
	       before + 1, before + ROW, 1000 * total_s / ROW, 1000 * first_s / ROW,
	       bench_memory(program, "Anonymous"), count_entries(program, "fd"),
	       count_entries(program, "task"), daemon_mib(d), count_entries(front_pid(d), "fd"));
	fflush(stdout);
	return total_s;
}

static void bench_cycles(unsigned cycles)
{
	struct cycle cycle = { 0 };
	double first_s = 0, last_s = 0;
	struct bench_daemon d;
	struct gpuctr *g;
	pid_t program;

	bench_daemon_start(&d, true);
	program = start_program(&d);
	if (gpuctr_connect(d.socket, "bench", &g) != 0) {
		die(gpuctr_last_error(g)->message);
	}
	find_program(g, &cycle);
	for (unsigned i = 0; i < cycles + ROW; i += ROW) {
		last_s = run_row(&d, g, &cycle, program, i);
		first_s = i == ROW ? last_s : first_s;
	}
	printf("cycles, the last hundred took %.2f times as long as the first after warming up\n",
	       last_s / first_s);
	gpuctr_disconnect(g);
	kill(program, SIGKILL);
	waitpid(program, NULL, 0);
	bench_daemon_stop(&d);
}

int main(int argc, char **argv)
{
	size_t agents = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
	unsigned cycles = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1000;

	if (agents > 0) {
		bench_idle(agents);
	}
	if (cycles >= ROW) {
		bench_cycles(cycles);
	}
	return 0;
}
