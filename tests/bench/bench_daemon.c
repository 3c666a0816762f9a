/* SPDX-License-Identifier: Apache-2.0 */

/* What a daemon costs that does nothing, and what programs in standby add to it.
 *
 *	bench_daemon [AGENTS]
 *
 * AGENTS (10,000) connections of this process register and wait, which is all that the daemon sees
 * of a program in standby. Memory is the proportional set of the daemon's processes on the fakes,
 * that is without NVIDIA's code and without what the kernel keeps for sockets. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"
#include "tests/bench/daemon.h"

enum { IDLE_S = 10 };

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
		fprintf(stderr, "out of memory\n");
		exit(1);
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

int main(int argc, char **argv)
{
	bench_idle(argc > 1 ? strtoul(argv[1], NULL, 10) : 10000);
	return 0;
}
