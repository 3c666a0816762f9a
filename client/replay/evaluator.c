/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/evaluator.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/agent/evaluate.h"
#include "client/replay/box.h"
#include "proto/base/clean.h"

/* CUPTI trusts the contents of an image: of 40 images in which one byte was changed, 12 crashed the
 * process (CUPTI 2025.3.1). A recording may come from anywhere, and whoever wrote it also made its
 * checksum. So images are evaluated in a child, which is forked when CUPTI has been set up. The
 * child has a seccomp filter, no descriptor but its socket to the parent, and no access to files.
 *
 * Image and values are in memory that parent and child share; a request and its answer are one
 * struct each on a socket. A child serves until it dies, or until a larger image needs more memory.
 * When it dies, the values of its image are lost, and the next image gets a new child. A child that
 * does not answer is killed and not replaced: nobody would wait for a file of a thousand such
 * images. */

enum { ANSWER_TIMEOUT_MS = 20000, DEATHS_MAX = 64, SHARED_MIN = 1 << 20 };

struct request {
	size_t image_size;
	size_t n; /* number of launches */
};

struct answer {
	int result;
	size_t n_ranges;
};

/* --- the memory --- */

static size_t align(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

static size_t values_bytes(const struct evaluator *e, const struct request *q)
{
	return align(q->n * e->plan->columns.n * sizeof(double));
}

static double *values_at(const struct evaluator *e, const struct request *q)
{
	return (double *)(void *)(e->shared + align(q->image_size));
}

static uint8_t *measured_at(const struct evaluator *e, const struct request *q)
{
	return e->shared + align(q->image_size) + values_bytes(e, q);
}

/* --- in the child --- */

static struct answer evaluate(const struct evaluator *e, const struct request *q)
{
	const struct batch b = {
		.host = e->host, .n = q->n, .image = e->shared, .image_size = q->image_size
	};

	return (struct answer){
		.result = evaluate_batch(e->plan, &b, values_at(e, q), (bool *)measured_at(e, q)),
		.n_ranges = host_count_ranges(e->host, b.image, b.image_size),
	};
}

static __attribute__((noreturn)) void serve(const struct evaluator *e, int fd)
{
	struct request q;
	sigset_t none;

	sigemptyset(&none); /* the delivering thread blocks all signals */
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "evaluator");
	if (box_enter(fd) < 0) {
		_exit(1);
	}
	while (read(fd, &q, sizeof(q)) == (ssize_t)sizeof(q)) {
		struct answer a = evaluate(e, &q);

		if (write(fd, &a, sizeof(a)) != (ssize_t)sizeof(a)) {
			break;
		}
	}
	_exit(0);
}

/* --- in the parent --- */

static void end_child(struct evaluator *e, int *ret_status)
{
	*ret_status = 0;
	if (e->child > 0) {
		close(e->fd);
		kill(e->child, SIGKILL);
		while (waitpid(e->child, ret_status, 0) < 0 && errno == EINTR) {
		}
		e->child = 0;
		e->fd = -1;
	}
}

static int make_room(struct evaluator *e, size_t size)
{
	size_t room = SHARED_MIN;
	void *shared;
	int status;

	if (size <= e->shared_size) {
		return 0;
	}
	while (room < size) {
		room *= 2;
	}
	shared = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		return -errno;
	}
	end_child(e, &status); /* the child maps the old memory only */
	if (e->shared) {
		munmap(e->shared, e->shared_size);
	}
	e->shared = shared;
	e->shared_size = room;
	return 0;
}

static int start_child(struct evaluator *e)
{
	int pair[2];
	pid_t pid;

	if (e->child > 0) {
		return 0;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -errno;
	}
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		serve(e, pair[1]);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -errno;
	}
	e->child = pid;
	e->fd = pair[0];
	return 0;
}

static void note_death(struct evaluator *e, bool is_late)
{
	int status;

	end_child(e, &status); /* also waits for a child that is dying, for its status */
	if (is_late) {
		snprintf(e->why, sizeof(e->why), "CUPTI did not come to an end within %d s",
			 ANSWER_TIMEOUT_MS / 1000);
	} else if (WIFSIGNALED(status)) {
		snprintf(e->why, sizeof(e->why), "CUPTI crashed on them (signal %d)",
			 WTERMSIG(status));
	} else {
		snprintf(e->why, sizeof(e->why), "their evaluation ended with status %d",
			 WEXITSTATUS(status));
	}
	e->given_up = is_late || ++e->deaths >= DEATHS_MAX;
}

static int ask(struct evaluator *e, const struct request *q, const uint8_t *image,
	       struct answer *ret)
{
	struct pollfd p = { .events = POLLIN };
	int ready;
	int r = make_room(e, align(q->image_size) + values_bytes(e, q) + q->n);

	r = r < 0 ? r : start_child(e);
	if (r < 0) {
		snprintf(e->why, sizeof(e->why), "no process could be started (%s)", strerror(-r));
		return -EIO;
	}
	memcpy(e->shared, image, q->image_size);
	p.fd = e->fd;
	send(e->fd, q, sizeof(*q),
	     MSG_NOSIGNAL); /* fails when the child is dead: then no answer comes */
	do {
		ready = poll(&p, 1, ANSWER_TIMEOUT_MS);
	} while (ready < 0 && errno == EINTR);
	if (ready != 1 || recv(e->fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret)) {
		note_death(e, ready == 0);
		return -EIO;
	}
	return ret->result < 0 ? (int)CUPTI_ERROR_UNKNOWN : ret->result;
}

void evaluator_init(struct evaluator *e, const struct host *host, const struct wire_plan *plan)
{
	*e = (struct evaluator){ .host = host, .plan = plan, .fd = -1 };
}

void evaluator_deinit(struct evaluator *e)
{
	int status;

	end_child(e, &status);
	if (e->shared) {
		munmap(e->shared, e->shared_size);
	}
	*e = (struct evaluator){ .given_up = true };
}

int evaluator_batch(struct evaluator *e, const struct batch *b, double *values, bool *measured,
		    size_t *ret_ranges)
{
	const struct request q = { .image_size = b->image_size, .n = b->n };
	struct answer a;
	int r = e->given_up ? -EIO : ask(e, &q, b->image, &a);

	if (r == -EIO) {
		return r;
	}
	memcpy(values, values_at(e, &q), b->n * e->plan->columns.n * sizeof(*values));
	for (size_t i = 0; i < b->n; i++) {
		measured[i] = measured_at(e, &q)[i] != 0;
	}
	*ret_ranges = a.n_ranges;
	return r;
}
