/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/workers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/closer.h"
#include "daemon/base/log.h"
#include "daemon/front/closers.h"
#include "daemon/front/front.h"
#include "daemon/gpu/gpu.h"
#include "daemon/gpu/planner.h"
#include "daemon/granter/granter.h"
#include "daemon/granter/thread.h"
#include "daemon/supervisor/privilege.h"
#include "daemon/supervisor/sandbox.h"
#include "daemon/supervisor/summary.h"

/* The workers are forked and not executed anew. A new granter, gpu process or planner is handed to
 * the running front. A new front needs new links, so the other workers are replaced with it. */

static int start_granter_threads(void)
{
	int r = closer_start();

	return r < 0 ? r : threads_start();
}

static int start_front_threads(void)
{
	int r = closer_start();

	return r < 0 ? r : closers_start();
}

static const struct worker {
	const char *name;
	enum sandbox sandbox;
	bool keeps_perfmon;
	int (*start_threads)(void); /* started before the filter; NULL: none */
	int link_type;
	int (*run)(int link);
	enum control_op replaced;
} workers[WORKERS] = {
	[WORKER_GRANTER] = { "granter", SANDBOX_GRANTER, true, start_granter_threads,
			     SOCK_SEQPACKET, granter_run, CONTROL_NEW_GRANTER },
	[WORKER_GPU] = { "gpu", SANDBOX_GPU, true, NULL, SOCK_STREAM, gpu_run, CONTROL_NEW_GPU },
	[WORKER_PLANNER] = { "planner", SANDBOX_PLANNER, false, NULL, SOCK_STREAM, planner_run,
			     CONTROL_NEW_PLANNER },
	[WORKER_FRONT] = { "front", SANDBOX_FRONT, false, start_front_threads, 0, NULL, 0 },
};

static int make_pair(int type, int pair[2])
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0) {
		log_error("no socket pair: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

/* In the child: takes the worker's name, keeps only what the worker may have, and closes our
 * descriptors. When the supervisor dies the kernel kills the workers. The granter is an exception:
 * it ends when its link to the front ends, after it has freed what only it can free. */
static void enter_worker(struct supervisor *s, enum worker_id id)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Ctrl-C sends these signals to the whole process group, but workers end when the
	 * supervisor tells them. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	if (id != WORKER_GRANTER) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	prctl(PR_SET_NAME, workers[id].name);
	log_init(workers[id].name, s->config.log_level);
	close(s->signals);
	if (id != WORKER_FRONT) {
		for (size_t i = 0; i < s->n_listeners; i++) {
			close(s->listeners[i]);
		}
	}
	if (s->control >= 0 && id != WORKER_FRONT) {
		close(s->control);
	}
	if (s->audit >= 0 && id != WORKER_FRONT) {
		close(s->audit);
	}
	/* Threads inherit the capabilities of this moment, and the filter covers them as well. */
	if (privilege_enter(workers[id].keeps_perfmon) < 0 ||
	    (workers[id].start_threads && workers[id].start_threads() < 0) ||
	    sandbox_enter(workers[id].sandbox) < 0) {
		log_error("cannot give up privileges");
		_exit(1);
	}
}

static void note_begin(struct supervisor *s, enum worker_id id, pid_t pid)
{
	s->pids[id] = pid;
	restart_begin(&s->restarts[id], clock_now_ns());
}

/* Returns the parent's end of the link, or -errno. The child closes the descriptors in others,
 * which would otherwise keep those links alive. */
static int start_linked(struct supervisor *s, enum worker_id id, const int *others, size_t n_others)
{
	int pair[2], r = make_pair(workers[id].link_type, pair);
	pid_t pid;

	if (r < 0) {
		return r;
	}
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		for (size_t i = 0; i < n_others; i++) {
			close(others[i]);
		}
		enter_worker(s, id);
		_exit(workers[id].run(pair[1]));
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -errno;
	}
	note_begin(s, id, pid);
	return pair[0];
}

/* Settings and jobs take up to 14 KiB a message, and neither end waits for the other. */
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
		links[*ret_n] = start_linked(s, (enum worker_id) * ret_n, links, *ret_n);
		if (links[*ret_n] < 0) {
			return links[*ret_n];
		}
	}
	return 0;
}

static int fork_front(struct supervisor *s, const int links[WORKER_FRONT])
{
	int pair[2], r = make_pair(SOCK_SEQPACKET, pair);
	pid_t pid;

	if (r < 0) {
		return r;
	}
	make_room(pair);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		enter_worker(s, WORKER_FRONT);
		_exit(front_run(&(struct front_start){
			.config = &s->config,
			.jobs = &s->jobs,
			.restarts = &s->replaced,
			.listeners = s->listeners,
			.n_listeners = s->n_listeners,
			.control = pair[1],
			.granter = links[WORKER_GRANTER],
			.gpu = links[WORKER_GPU],
			.planner = links[WORKER_PLANNER],
			.audit = s->audit,
			.has_perfmon = s->has_perfmon,
		}));
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -errno;
	}
	note_begin(s, WORKER_FRONT, pid);
	s->control = pair[0];
	return 0;
}

int workers_start(struct supervisor *s)
{
	int links[WORKER_FRONT], r;
	size_t n;

	r = start_all_linked(s, links, &n);
	if (r == 0) {
		r = fork_front(s, links);
	}
	while (n > 0) {
		close(links[--n]);
	}
	return r;
}

static int replace_linked(struct supervisor *s, enum worker_id id)
{
	CLEAN_FD int fd = start_linked(s, id, NULL, 0);
	int r;

	if (fd < 0) {
		return fd;
	}
	r = control_send(s->control, workers[id].replaced, fd);
	/* These errors mean that the front is dying, and the other workers end with it. The front
	 * may be reaped after them. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

/* Waits up to a second for the end of a worker. */
static bool has_ended(struct supervisor *s, enum worker_id id)
{
	int status;

	for (int i = 0; s->pids[id] > 0 && i < 100; i++) {
		if (waitpid(s->pids[id], &status, WNOHANG) != 0) {
			s->pids[id] = 0;
			break;
		}
		poll(NULL, 0, 10);
	}
	return s->pids[id] == 0;
}

/* Ends the workers that were linked to a front that died. The end of their link ends them, after
 * they have freed every object; one that hangs is killed. One that the driver does not let die is
 * left behind, because nobody could measure on any GPU while we wait for it. */
static void end_linked(struct supervisor *s)
{
	for (enum worker_id id = 0; id < WORKER_FRONT; id++) {
		if (has_ended(s, id)) {
			continue;
		}
		kill(s->pids[id], SIGKILL);
		if (!has_ended(s, id)) {
			log_error("%s (pid %d) cannot be killed: it hangs in the driver",
				  workers[id].name, (int)s->pids[id]);
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

static void count_replaced(struct supervisor *s, enum worker_id id)
{
	uint64_t *const counts[WORKERS] = {
		[WORKER_GRANTER] = &s->replaced.granter,
		[WORKER_GPU] = &s->replaced.gpu,
		[WORKER_PLANNER] = &s->replaced.planner,
		[WORKER_FRONT] = &s->replaced.front,
	};

	++*counts[id];
}

/* Counts only workers that ended by themselves, not those that a front took with it. */
static int replace_worker(struct supervisor *s, enum worker_id id)
{
	int r;

	if (id == WORKER_FRONT) {
		end_linked(s);
		count_replaced(s, id);
		return workers_start(s);
	}
	if (s->control < 0 || front_is_gone(s)) {
		return 0; /* it ended with its front, and the next front comes with new ones */
	}
	r = replace_linked(s, id);
	if (r == 0) {
		count_replaced(s, id);
		control_send_restarts(s->control, &s->replaced);
		if (s->is_ready) {
			supervisor_tell_systemd(s);
		}
	}
	return r;
}

static void note_end(struct supervisor *s, pid_t pid, int status)
{
	for (enum worker_id id = 0; id < WORKERS; id++) {
		uint64_t delay_ns;

		if (s->pids[id] != pid) {
			continue;
		}
		s->pids[id] = 0;
		delay_ns = restart_end(&s->restarts[id], clock_now_ns());
		log_write(s->stopping ? LOG_DEBUG : LOG_WARNING, "%s (pid %d) ended (%s %d)%s%s",
			  workers[id].name, (int)pid, WIFSIGNALED(status) ? "signal" : "status",
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
	     id-- > 0;) { /* the front first: the others come with it */
		if (!restart_is_due(&s->restarts[id], now)) {
			continue;
		}
		s->restarts[id].due_ns = 0;
		r = replace_worker(s, id);
		if (r < 0) {
			log_error("%s cannot be started: %s", workers[id].name, strerror(-r));
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
	log_error("%s (pid %d) does not answer: killed", workers[id].name, (int)s->pids[id]);
	if (s->pids[id] > 0) {
		kill(s->pids[id], SIGKILL);
	}
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	return status;
}

void workers_end(struct supervisor *s)
{
	if (s->pids[WORKER_FRONT] > 0) {
		kill(s->pids[WORKER_FRONT], SIGKILL);
		wait_for(s->pids[WORKER_FRONT]);
	}
	end_linked(s);
}
