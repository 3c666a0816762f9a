/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/journal.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/closer.h"
#include "daemon/base/log.h"
#include "daemon/config/control.h"
#include "daemon/doctor/doctor.h"
#include "daemon/front/closers.h"
#include "daemon/front/front.h"
#include "daemon/gpu/gpu.h"
#include "daemon/gpu/planner.h"
#include "daemon/granter/granter.h"
#include "daemon/granter/hand.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/privilege.h"
#include "daemon/supervisor/restart.h"
#include "daemon/supervisor/sandbox.h"
#include "daemon/supervisor/sockets.h"

/* The supervisor. It opens the sockets, gives up what it does not need, forks the four workers, and
 * replaces any of them that dies. A new granter, gpu process or planner is handed to the running
 * front. A new front needs new links, so the other workers are replaced with it. The supervisor
 * never reads a byte that a user sent. */

enum { STOP_TIMEOUT_S = 5 };

/* Each but the front has a link to the front. */
enum worker_id { WORKER_GRANTER, WORKER_GPU, WORKER_PLANNER, WORKER_FRONT, WORKERS };

static int start_granter_threads(void)
{
	int r = closer_start();

	return r < 0 ? r : hands_start();
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

struct supervisor {
	struct config config;
	int argc;
	char **argv;   /* read again by a reload */
	uid_t starter; /* the user whose settings count, beside root's */
	int listeners[FRONT_LISTENERS_MAX];
	size_t n_listeners;
	pid_t pids[WORKERS];
	int control;	  /* link to the front */
	int audit;	  /* the audit file; -1: none */
	struct jobs jobs; /* as the front told them */
	int signals;
	bool own_socket; /* the socket was bound by us and is removed at the end */
	bool has_perfmon;
	bool stopping;
	struct restart restarts[WORKERS];
	struct control_restarts replaced; /* so far */
	struct control_summary summary;	  /* as the front has last told; at first without trouble */
	bool is_ready; /* systemd was told that the daemon is ready, so it shows the status line */
};

/* --- workers --- */

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
	/* These may reach the whole group, by Ctrl-C for one. The supervisor tells us to stop. */
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

static int start_front(struct supervisor *s)
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
	/* When the front dies the other workers end too, and may be reaped before it: the front is
	 * reaped in a moment. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	return status;
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

/* The text comes from a process that talks to users: a newline in it would end the line for
 * systemd. */
static void make_plain(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (char *p = text; *p; p++) {
		*p = isprint((unsigned char)*p) ? *p : '?';
	}
}

static void tell_systemd(struct supervisor *s)
{
	const struct control_restarts *r = &s->replaced;
	struct control_summary *c = &s->summary;
	uint64_t replaced = r->front + r->granter + r->gpu + r->planner;
	char who[256] = "No GPU is held", restarts[64] = "";

	make_plain(c->holder, sizeof(c->holder));
	make_plain(c->trouble, sizeof(c->trouble));
	if (c->trouble[0]) {
		snprintf(who, sizeof(who), "Nothing can be measured: %s", c->trouble);
	} else if (c->holders > 1) {
		snprintf(who, sizeof(who), "GPUs are held by %s and %u more", c->holder,
			 c->holders - 1);
	} else if (c->holders == 1) {
		snprintf(who, sizeof(who), "GPUs are held by %s", c->holder);
	}
	if (replaced > 0) {
		snprintf(restarts, sizeof(restarts), ", %llu workers replaced",
			 (unsigned long long)replaced);
	}
	sd_notifyf(0, "STATUS=%s%s, %u waiting; %llu permissions granted, %llu records dropped%s.",
		   c->audit_fails ? "THE AUDIT LOG CANNOT BE WRITTEN, nothing is granted. " : "",
		   who, c->waiting, (unsigned long long)c->granted, (unsigned long long)c->dropped,
		   restarts);
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
		return start_front(s);
	}
	if (s->control < 0 || front_is_gone(s)) {
		return 0; /* it ended with its front, and the next front comes with new ones */
	}
	r = replace_linked(s, id);
	if (r == 0) {
		count_replaced(s, id);
		control_send_restarts(s->control, &s->replaced);
		if (s->is_ready) {
			tell_systemd(s);
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

/* Notes every worker that has ended before any is replaced, because a new front comes with new
 * workers. */
static void reap(struct supervisor *s)
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

/* Replaces the workers that are due. One that cannot be started now is tried again later. */
static void replace_workers(struct supervisor *s)
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

/* Milliseconds until the next worker is due, for poll(); -1: none is. */
static int next_restart_ms(const struct supervisor *s)
{
	uint64_t now = clock_now_ns(), next = UINT64_MAX;

	for (enum worker_id id = 0; id < WORKERS; id++) {
		uint64_t due = s->restarts[id].due_ns;

		next = due != 0 && due < next ? due : next;
	}
	if (next == UINT64_MAX) {
		return -1;
	}
	return next <= now ? 0 : (int)((next - now) / CLOCK_NS_PER_MS) + 1;
}

/* --- loop --- */

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void begin_stop(struct supervisor *s)
{
	s->stopping = true;
	sd_notify(0, "STOPPING=1");
	control_send(s->control, CONTROL_STOP, -1);
}

static void open_audit(struct supervisor *s)
{
	if (s->audit >= 0) {
		close(s->audit);
	}
	s->audit = s->config.audit_file[0] ? audit_open(s->config.audit_file) : -1;
}

/* Reads the settings again. Wrong ones leave the present ones in force. The socket and the user
 * stay as they are, because changing them needs what was given up at the start. 0: the front was
 * told, and will answer. */
static int reload(struct supervisor *s)
{
	struct config config;
	int r;

	config_init(&config);
	if (options_parse(&config, s->argc, s->argv, s->starter) < 0) {
		log_error("the settings are not taken over: see above");
		return -EINVAL;
	}
	snprintf(config.socket, sizeof(config.socket), "%s", s->config.socket);
	s->config = config;
	log_init("supervisor", config.log_level);
	open_audit(s);
	r = control_send_reload(s->control, &s->config, s->audit);
	if (r < 0) {
		log_error("the front does not take the settings (%s): its successor will have them",
			  strerror(-r));
		return r;
	}
	log_notice("settings read again%s", s->config.audit_file[0] && s->audit < 0
						    ? ", but the audit file cannot be opened"
						    : "");
	return 0;
}

/* To systemd a reload lasts until the settings hold, or until it is clear that they will not. So a
 * caller that waits for the reload finds the new settings in force. */
static void begin_reload(struct supervisor *s)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		   (unsigned long long)(clock_now_ns() / 1000));
	if (reload(s) < 0) {
		sd_notify(0, "READY=1");
	}
}

static void handle_signals(struct supervisor *s)
{
	struct signalfd_siginfo i;

	while (read(s->signals, &i, sizeof(i)) == (ssize_t)sizeof(i)) {
		if (i.ssi_signo == SIGCHLD) {
			reap(s);
		} else if (i.ssi_signo == SIGTERM || i.ssi_signo == SIGINT) {
			begin_stop(s);
		} else if (i.ssi_signo == SIGHUP) {
			begin_reload(s);
		}
	}
}

/* Kills a worker that hangs; it is then reaped and replaced like any other. */
static void kill_hung(struct supervisor *s, enum worker_id id)
{
	log_error("%s (pid %d) does not answer: killed", workers[id].name, (int)s->pids[id]);
	if (s->pids[id] > 0) {
		kill(s->pids[id], SIGKILL);
	}
}

/* Keeps the jobs for the next front. They come from a process that talks to users, so names are
 * terminated here. */
static void keep_jobs(struct supervisor *s, const struct jobs *jobs)
{
	s->jobs = *jobs;
	for (size_t i = 0; i < JOBS_MAX; i++) {
		s->jobs.slots[i].name[JOB_NAME_BYTES - 1] = '\0';
	}
}

static void handle_control(struct supervisor *s)
{
	struct control_message m;
	int fd;

	while (control_receive(s->control, &m, &fd) == 1) {
		if (fd >= 0) {
			close(fd);
		}
		if (m.op == CONTROL_READY) {
			log_notice("listening on %s",
				   s->own_socket ? s->config.socket : "the sockets of systemd");
			sd_notify(0, "READY=1\nSTATUS=Waiting for captures.");
			s->is_ready = true;
		} else if (m.op == CONTROL_RELOADED) {
			sd_notify(0, "READY=1");
		} else if (m.op == CONTROL_ALIVE) {
			sd_notify(0, "WATCHDOG=1");
		} else if (m.op == CONTROL_HUNG_GRANTER) {
			kill_hung(s, WORKER_GRANTER);
		} else if (m.op == CONTROL_HUNG_GPU) {
			kill_hung(s, WORKER_GPU);
		} else if (m.op == CONTROL_HUNG_PLANNER) {
			kill_hung(s, WORKER_PLANNER);
		} else if (m.op == CONTROL_SUMMARY) {
			s->summary = m.summary;
			tell_systemd(s);
		} else if (m.op == CONTROL_JOBS) {
			keep_jobs(s, &m.jobs);
		}
	}
}

static void run(struct supervisor *s)
{
	uint64_t stop_by = 0;

	while (!(s->stopping && s->pids[WORKER_FRONT] == 0)) {
		struct pollfd fds[] = { { s->signals, POLLIN, 0 }, { s->control, POLLIN, 0 } };

		if (s->stopping && stop_by == 0) {
			stop_by = clock_now_ns() + STOP_TIMEOUT_S * CLOCK_NS_PER_S;
		}
		if (s->stopping && clock_now_ns() >= stop_by) {
			break;
		}
		poll(fds, 2, s->stopping ? 100 : next_restart_ms(s));
		if (fds[1].revents != 0) {
			handle_control(s);
			if ((fds[1].revents & POLLHUP) != 0) {
				poll(NULL, 0,
				     1); /* the signal that tells the cause is on its way */
			}
		}
		handle_signals(s);
		replace_workers(s);
	}
}

/* The first entry opens the journal's socket, which the front's filter forbids. */
static void tell_journal(void)
{
	struct journal_entry e;

	if (!journal_is_used()) {
		return;
	}
	journal_begin(&e);
	journal_add(&e, "MESSAGE=gpucountd %s starts", GPUCTR_VERSION);
	journal_add(&e, "MESSAGE_ID=18b379ec275549f29d26e1f25b10ea56");
	journal_add(&e, "PRIORITY=%d", LOG_NOTICE);
	journal_add(&e, "SYSLOG_IDENTIFIER=gpucountd");
	journal_send(&e);
}

static int serve(struct supervisor *s)
{
	int r;

	s->has_perfmon = privilege_has_perfmon();
	s->signals = open_signals();
	s->control = -1;
	open_audit(s);
	tell_journal();
	r = s->signals < 0 ? -errno : start_front(s);
	if (r == 0) {
		run(s);
	}
	if (s->pids[WORKER_FRONT] > 0) {
		kill(s->pids[WORKER_FRONT], SIGKILL);
		wait_for(s->pids[WORKER_FRONT]);
	}
	end_linked(s);
	if (s->own_socket) {
		unlink(s->config.socket); /* may fail once we have left root; the next start removes
					     it */
	}
	return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct supervisor s;
	int r;

	s.audit = -1;
	s.argc = argc;
	s.argv = argv;
	s.starter = geteuid();
	config_init(&s.config);
	r = options_parse(&s.config, argc, argv, s.starter);
	if (options_ask_for_doctor(argc, argv)) {
		return doctor_run(&(struct doctor_case){ &s.config, r >= 0, privilege_leave_root,
							 privilege_has_perfmon });
	}
	if (r <= 0) {
		return r < 0 ? 2 : 0;
	}
	log_init("supervisor", s.config.log_level);
	if (sockets_open(s.config.socket, s.listeners, ARRAY_SIZE(s.listeners), &s.n_listeners,
			 &s.own_socket) < 0) {
		return 1;
	}
	if (privilege_leave_root(s.config.user) < 0) {
		return 1;
	}
	return serve(&s);
}
