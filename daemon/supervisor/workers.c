/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "daemon/base/log.h"

/* Each worker is this program, executed anew (worker.c). The running front gets the link of a new
 * granter, gpu process or planner. A new front needs new links, so the other workers are replaced
 * with it. */

static int make_pair(int type, int pair[2])
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0) {
		log_error("no socket pair: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

/* Forks a worker with start. -errno. */
static int begin(struct supervisor *s, const struct worker_start *start)
{
	pid_t pid = fork();
	int r;

	if (pid == 0) {
		r = worker_execute(start, s->argv[0]);
		log_error("%s cannot be executed: %s", worker_name(start->id), strerror(-r));
		_exit(1);
	}
	if (pid < 0) {
		return -errno;
	}
	s->pids[start->id] = pid;
	restart_begin(&s->restarts[start->id], clock_now_ns());
	return 0;
}

/* Returns the front's end of the link, or -errno. */
static int start_linked(struct supervisor *s, enum worker_id id)
{
	static struct worker_start start;
	int pair[2], r = make_pair(id == WORKER_GRANTER ? SOCK_SEQPACKET : SOCK_STREAM, pair);

	if (r < 0) {
		return r;
	}
	start = (struct worker_start){ .id = id,
				       .log_level = s->front.config.log_level,
				       .link = pair[1] };
	r = begin(s, &start);
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
	}
	return r < 0 ? r : pair[0];
}

/* Enlarges the buffers: a message with settings or jobs takes up to 14 KiB, and neither end waits
 * for the other. */
static void make_room(const int pair[2])
{
	const int bytes = 32 * (int)sizeof(struct control_message);

	for (int i = 0; i < 2; i++) {
		setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	}
}

/* Starts all workers but the front. The first *ret_n links are open even after a failure: the
 * caller closes them. */
static int start_all_linked(struct supervisor *s, int links[WORKER_FRONT], size_t *ret_n)
{
	for (*ret_n = 0; *ret_n < WORKER_FRONT; (*ret_n)++) {
		links[*ret_n] = start_linked(s, (enum worker_id) * ret_n);
		if (links[*ret_n] < 0) {
			return links[*ret_n];
		}
	}
	return 0;
}

static int start_front(struct supervisor *s, const int links[WORKER_FRONT])
{
	static struct worker_start start;
	int pair[2], r = make_pair(SOCK_SEQPACKET, pair);

	if (r < 0) {
		return r;
	}
	make_room(pair);
	start = (struct worker_start){
		.id = WORKER_FRONT,
		.log_level = s->front.config.log_level,
		.link = pair[1],
		.front = s->front,
	};
	memcpy(start.front.links, links, sizeof(start.front.links));
	r = begin(s, &start);
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		return r;
	}
	s->control = pair[0];
	return 0;
}

int workers_start(struct supervisor *s)
{
	int links[WORKER_FRONT], r;
	size_t n;

	r = start_all_linked(s, links, &n);
	if (r == 0) {
		r = start_front(s, links);
	}
	while (n > 0) {
		close(links[--n]);
	}
	return r;
}

static int replace_linked(struct supervisor *s, enum worker_id id)
{
	CLEAN_FD int fd = start_linked(s, id);
	int r;

	if (fd < 0) {
		return fd;
	}
	r = control_send_worker(s->control, CONTROL_NEW, id, fd);
	/* These errors mean that the front is dying, and the other workers end with it, perhaps
	 * before the front is reaped. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

/* The longest times in which a worker must end. A granter first frees every object:
 * GRANTER_OBJECTS_MAX objects take 5 s at 5 ms each. If the driver hangs, the granter gives up a
 * call after GRANTER_HUNG_NS and ends within its time. */
enum { END_MS = 1000, END_GRANTER_MS = 8000 };

static bool has_ended(struct supervisor *s, enum worker_id id, unsigned patience_ms)
{
	int status;

	for (unsigned ms = 0; s->pids[id] > 0 && ms < patience_ms; ms += 10) {
		if (waitpid(s->pids[id], &status, WNOHANG) != 0) {
			s->pids[id] = 0;
			break;
		}
		poll(NULL, 0, 10);
	}
	return s->pids[id] == 0;
}

/* Ends the workers that were linked to a front that died. They end when their link ends, the
 * granter after it has freed every object; a worker that hangs is killed. One that cannot die
 * because it hangs in the driver is left behind: waiting for it would keep everybody from
 * measuring. */
static void end_linked(struct supervisor *s)
{
	sd_notify(0, "WATCHDOG=1"); /* no front's sign of life triggers this while we wait */
	for (enum worker_id id = 0; id < WORKER_FRONT; id++) {
		if (has_ended(s, id, id == WORKER_GRANTER ? END_GRANTER_MS : END_MS)) {
			continue;
		}
		kill(s->pids[id], SIGKILL);
		if (!has_ended(s, id, END_MS)) {
			log_error("%s (pid %d) cannot be killed: it hangs in the driver",
				  worker_name(id), (int)s->pids[id]);
			s->pids[id] = 0;
		}
	}
}

/* The front's end of the control link is closed: the front is dying, or dead and not reaped yet. */
static bool front_is_gone(const struct supervisor *s)
{
	struct pollfd p = { s->control, POLLIN, 0 };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0;
}

/* Counts only workers that ended by themselves, not those that ended with a front. */
static int replace_worker(struct supervisor *s, enum worker_id id)
{
	struct control_message m = { .op = CONTROL_RESTARTS };
	int r;

	if (id == WORKER_FRONT) {
		end_linked(s);
		s->front.restarts[id]++;
		return workers_start(s);
	}
	if (s->control < 0 || front_is_gone(s)) {
		return 0; /* it ended with its front, and the next front gets new workers */
	}
	r = replace_linked(s, id);
	if (r == 0) {
		s->front.restarts[id]++;
		memcpy(m.restarts, s->front.restarts, sizeof(m.restarts));
		control_send_message(s->control, &m, -1);
	}
	return r;
}

static void note_end(struct supervisor *s, pid_t pid, int status)
{
	if (pid == s->namer_pid) {
		s->namer_pid = 0;
	}
	for (enum worker_id id = 0; id < WORKERS; id++) {
		uint64_t delay_ns;

		if (s->pids[id] != pid) {
			continue;
		}
		s->pids[id] = 0;
		delay_ns = restart_end(&s->restarts[id], clock_now_ns());
		log_write(s->stopping ? LOG_DEBUG : LOG_WARNING, "%s (pid %d) ended (%s %d)%s%s",
			  worker_name(id), (int)pid, WIFSIGNALED(status) ? "signal" : "status",
			  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
			  s->stopping ? "" : ": replaced",
			  !s->stopping && delay_ns > 0 ? " after a delay" : "");
	}
}

void workers_reap(struct supervisor *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		note_end(s, pid, status);
	}
	if (s->pids[WORKER_FRONT] == 0 && s->control >= 0) {
		close(s->control);
		s->control = -1;
	}
}

void workers_replace_due(struct supervisor *s)
{
	uint64_t now = clock_now_ns();
	int r;

	if (s->stopping) {
		return;
	}
	for (enum worker_id id = WORKERS;
	     id-- > 0;) { /* the front first, because it starts the others */
		if (!restart_is_due(&s->restarts[id], now)) {
			continue;
		}
		s->restarts[id].due_ns = 0;
		r = replace_worker(s, id);
		if (r < 0) {
			log_error("%s cannot be started: %s", worker_name(id), strerror(-r));
			restart_end(&s->restarts[id], now);
		}
	}
}

int workers_next_ms(const struct supervisor *s)
{
	return restart_next_ms(s->restarts, WORKERS, clock_now_ns());
}

void workers_kill_hung(struct supervisor *s, enum worker_id id)
{
	log_error("%s (pid %d) does not answer what it is asked: killed", worker_name(id),
		  (int)s->pids[id]);
	if (s->pids[id] > 0) {
		kill(s->pids[id], SIGKILL);
	}
}

void workers_end(struct supervisor *s)
{
	if (s->pids[WORKER_FRONT] > 0) {
		kill(s->pids[WORKER_FRONT], SIGKILL);
		waitpid(s->pids[WORKER_FRONT], NULL, 0);
	}
	end_linked(s);
}
