/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

/* Descriptors go to the thread as numbers through a pipe. When the pipe is full, the thread hangs
 * and thousands of descriptors wait: a further descriptor then stays open, since closing it here
 * could hang the caller too. If the thread cannot read the pipe any more, all descriptors would
 * stay open: the process ends, and the supervisor replaces it. */

static int pipe_in = -1;

struct start {
	int from;
	sem_t running;
};

static void *run(void *argument)
{
	struct start *start = argument;
	int from = start->from, fd;
	ssize_t n;

	sem_post(&start->running);
	do {
		n = read(from, &fd, sizeof(fd));
		if (n == (ssize_t)sizeof(fd)) {
			close(fd);
		}
	} while (n == (ssize_t)sizeof(fd) || (n < 0 && errno == EINTR));
	_exit(1);
}

int closer_start(void)
{
	static struct start start;
	pthread_t thread;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0 || sem_init(&start.running, 0, 0) < 0) {
		return -errno;
	}
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	start.from = ends[0];
	r = pthread_create(&thread, NULL, run, &start);
	if (r != 0) {
		return -r;
	}
	pthread_detach(thread);
	/* Waits until the thread runs: while it starts, libc makes system calls that the filter may
	 * forbid later. */
	while (sem_wait(&start.running) < 0 && errno == EINTR) {
	}
	pipe_in = ends[1];
	return 0;
}

void closer_close(int fd)
{
	ssize_t n;

	if (fd < 0) {
		return;
	}
	if (pipe_in < 0) {
		close(fd);
		return;
	}
	do {
		n = write(pipe_in, &fd, sizeof(fd));
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN) { /* full: see above */
		close(fd);
	}
}
