/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/audit/audit.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/standard.h"
#include "daemon/base/log.h"
#include "daemon/config/control.h"
#include "daemon/gpu/gpu.h"
#include "daemon/supervisor/privilege.h"
#include "daemon/supervisor/supervisor.h"

/* The supervisor. It opens the sockets, drops the privileges that it does not need, starts the four
 * workers, and replaces those that die (workers.c). It never reads a byte that a user sent. */

enum { STOP_TIMEOUT_S = 5, TURN_AWAY_MS = 2000 };

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
	control_send(s->control, CONTROL_STOP);
}

/* With a journal, decisions are its entries and no file is opened. */
static void open_audit(struct supervisor *s)
{
	if (s->front.audit >= 0) {
		close(s->front.audit);
	}
	if (s->front.config.audit_file[0] && log_is_journal()) {
		log_warning("audit-file %s is not written: decisions are entries of the journal",
			    s->front.config.audit_file);
		s->front.config.audit_file[0] = '\0';
	}
	s->front.audit =
		s->front.config.audit_file[0] ? audit_open(s->front.config.audit_file) : -1;
}

/* Reads the settings again. If they are wrong, the present ones stay in force. The socket and the
 * user stay as they are, because changing them needs the privileges dropped at the start. 0: the
 * front has the settings, and will answer. */
static int reload(struct supervisor *s)
{
	struct control_message m = { .op = CONTROL_RELOAD };
	int r;

	config_init(&m.config);
	if (options_parse(&m.config, s->argc, s->argv, s->starter) < 0) {
		log_error("the settings are not taken over: see above");
		return -EINVAL;
	}
	snprintf(m.config.socket, sizeof(m.config.socket), "%s", s->front.config.socket);
	s->front.config = m.config;
	log_init("supervisor", s->front.config.log_level);
	open_audit(s);
	m.config = s->front.config;
	r = control_send_message(s->control, &m, s->front.audit);
	if (r < 0) {
		log_error("the front does not take the settings (%s): its successor will have them",
			  strerror(-r));
		return r;
	}
	log_notice("settings read again%s", s->front.config.audit_file[0] && s->front.audit < 0
						    ? ", but the audit file cannot be opened"
						    : "");
	return 0;
}

/* systemd is notified that the reload has ended when the settings are in force or have failed. So a
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
			workers_reap(s);
		} else if (i.ssi_signo == SIGTERM || i.ssi_signo == SIGINT) {
			begin_stop(s);
		} else if (i.ssi_signo == SIGHUP) {
			begin_reload(s);
		}
	}
}

/* Keeps the jobs for the next front. The front, which talks to users, has sent them, so names are
 * terminated here. */
static void keep_jobs(struct supervisor *s, const struct jobs *jobs)
{
	s->front.jobs = *jobs;
	for (size_t i = 0; i < JOBS_MAX; i++) {
		s->front.jobs.slots[i].name[JOB_NAME_BYTES - 1] = '\0';
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
			log_notice("listening on %s", s->own_socket ? s->front.config.socket
								    : "the sockets of systemd");
			sd_notify(0, "READY=1\nSTATUS=`gpuctr-client status` tells who measures, "
				     "or why nobody can.");
		} else if (m.op == CONTROL_RELOADED) {
			sd_notify(0, "READY=1");
		} else if (m.op == CONTROL_ALIVE) {
			sd_notify(0, "WATCHDOG=1");
		} else if (m.op == CONTROL_HUNG && m.worker < WORKER_FRONT) {
			workers_kill_hung(s, m.worker);
		} else if (m.op == CONTROL_JOBS) {
			keep_jobs(s, &m.jobs);
		} else if (m.op == CONTROL_WHO) {
			namer_ask(s, m.user.uid);
		}
	}
}

static void run(struct supervisor *s)
{
	uint64_t stop_by = 0;

	while (!(s->stopping && s->pids[WORKER_FRONT] == 0)) {
		struct pollfd fds[] = { { s->signals, POLLIN, 0 },
					{ s->control, POLLIN, 0 },
					{ s->namer_fd, POLLIN, 0 } };

		if (s->stopping && stop_by == 0) {
			stop_by = clock_now_ns() + STOP_TIMEOUT_S * CLOCK_NS_PER_S;
		}
		if (s->stopping && clock_now_ns() >= stop_by) {
			break;
		}
		poll(fds, 3, s->stopping ? 100 : workers_next_ms(s));
		if (fds[2].revents != 0) {
			namer_answer(s);
		}
		if (fds[1].revents != 0) {
			handle_control(s);
			if ((fds[1].revents & POLLHUP) != 0) {
				poll(NULL, 0,
				     1); /* the signal that tells the cause is on its way */
			}
		}
		handle_signals(s);
		workers_replace_due(s);
	}
}

static int serve(struct supervisor *s)
{
	int r;

	s->front.has_perfmon = privilege_has_perfmon();
	s->signals = open_signals();
	s->control = -1;
	open_audit(s);
	r = s->signals < 0 ? -errno : workers_start(s);
	if (r == 0) {
		run(s);
	}
	workers_end(s);
	if (s->own_socket) {
		unlink(s->front.config.socket); /* may fail without root's privileges; the next
						   start removes it */
	}
	return r < 0 ? 1 : 0;
}

/* A connection that nobody accepts makes systemd start the service again as soon as it has failed.
 * After ten starts in ten seconds systemd gives up the socket too, and refuses to start the daemon
 * even when the settings have been corrected. So the daemon takes two seconds to fail, and closes
 * waiting connections: clients then point at `systemctl status`. */
static void turn_away(void)
{
	uint64_t by = clock_now_ns() + TURN_AWAY_MS * CLOCK_NS_PER_MS, now;
	struct pollfd polled[FRONT_LISTENERS_MAX];
	int fds[FRONT_LISTENERS_MAX], fd;
	size_t n = sockets_take_passed(fds, ARRAY_SIZE(fds));

	if (n == 0 || privilege_enter(false) < 0) {
		return;
	}
	sd_notify(0, "STATUS=The settings are wrong: see gpucountd --check-config.");
	for (size_t i = 0; i < n; i++) {
		polled[i] = (struct pollfd){ fds[i], POLLIN, 0 };
	}
	while ((now = clock_now_ns()) < by) {
		poll(polled, n, (int)((by - now) / CLOCK_NS_PER_MS) + 1);
		for (size_t i = 0; i < n; i++) {
			fd = accept4(fds[i], NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0) {
				close(fd);
			}
		}
	}
}

int main(int argc, char **argv)
{
	static struct supervisor s;
	int r;

	if (argc == 2 && strcmp(argv[1], "--probe") == 0) {
		return probe_run();
	}
	if (worker_is_asked(argc, argv)) {
		return worker_main(argv[2]);
	}
	standard_hold();
	s.front.audit = s.namer_fd = -1;
	s.argc = argc;
	s.argv = argv;
	s.starter = geteuid();
	config_init(&s.front.config);
	r = options_parse(&s.front.config, argc, argv, s.starter);
	if (r < 0) {
		turn_away();
		return 2;
	}
	if (r == 0) {
		return 0;
	}
	log_init("supervisor", s.front.config.log_level);
	if (sockets_open(&s.front.config, s.front.listeners, ARRAY_SIZE(s.front.listeners),
			 &s.front.n_listeners, &s.own_socket) < 0) {
		return 1;
	}
	if (privilege_leave_root(s.front.config.user) < 0) {
		return 1;
	}
	return serve(&s);
}
