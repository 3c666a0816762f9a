/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/clean.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/config.h"
#include "daemon/control.h"
#include "daemon/front/front.h"
#include "daemon/gpu/gpu.h"
#include "daemon/granter/granter.h"
#include "daemon/privilege.h"

/* The supervisor. It opens the sockets, gives up what it does not need, forks the three processes
 * that work, and replaces any of them that dies: a new granter or gpu process is handed to the
 * running front; a new front needs new links, so it takes the other two with it. It never reads a
 * byte that a user sent. */

enum { RESTARTS_MAX = 10, RESTARTS_WINDOW_S = 60, STOP_TIMEOUT_S = 5 };

enum worker_id { WORKER_GRANTER, WORKER_GPU, WORKER_FRONT, WORKERS };

static const char *const worker_names[WORKERS] = { "granter", "gpu", "front" };

struct supervisor {
	struct config config;
	int listeners[FRONT_LISTENERS_MAX];
	size_t n_listeners;
	pid_t pids[WORKERS];
	int control; /* to the front */
	int signals;
	bool own_socket; /* bound by us: removed at the end */
	bool stopping;
	uint64_t restarts_ns[RESTARTS_MAX];
	unsigned n_restarts;
};

static void print_help(void)
{
	puts("Usage: gpucountd [OPTION...]\n"
	     "\n"
	     "Owns the GPU performance counters of this machine and leases them to users' programs.\n"
	     "\n"
	     "  -c, --config FILE    settings (default " GPUCTR_CONFIG_FILE ", if it is there)\n"
	     "  -s, --socket PATH    listen here (default " GPUCTR_DEFAULT_SOCKET ";\n"
	     "                       under systemd the sockets it passes are used)\n"
	     "  -u, --user NAME      become this user when started as root (gpucountd, else nobody)\n"
	     "      --set KEY=VALUE  any setting of gpucountd.conf(5)\n"
	     "      --check-config   read the settings, say what is wrong, and exit\n"
	     "  -v, --verbose        log more\n"
	     "  -V, --version\n"
	     "  -h, --help\n"
	     "\n"
	     "Measuring needs CAP_PERFMON here, in nobody's program: run it by its systemd unit, or as\n"
	     "root, which it leaves at once. Without it, recordings can still be played.");
}

/* --- sockets --- */

static int bind_socket(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	CLEAN_FD int probe = -1;
	int fd;

	if (strlen(path) >= sizeof(a.sun_path)) {
		return -ENAMETOOLONG;
	}
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (probe >= 0 && connect(probe, (struct sockaddr *)&a, sizeof(a)) == 0) {
		return -EADDRINUSE;
	}
	unlink(path); /* left behind by one that was killed */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1024) < 0) {
		int r = -errno;

		if (fd >= 0) {
			close(fd);
		}
		return r;
	}
	/* Who may ask is decided by identity, with a reason, not by a mode. */
	chmod(path, 0666);
	return fd;
}

static void make_parent(const char *path)
{
	char folder[sizeof(((struct config *)NULL)->socket)];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash && slash != folder) {
		*slash = '\0';
		mkdir(folder, 0755);
	}
}

static int open_sockets(struct supervisor *s)
{
	int n = sd_listen_fds(1), fd;

	for (int i = 0; i < n && s->n_listeners < FRONT_LISTENERS_MAX; i++) {
		fd = SD_LISTEN_FDS_START + i;
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		s->listeners[s->n_listeners++] = fd;
	}
	if (s->n_listeners > 0) {
		return 0;
	}
	make_parent(s->config.socket);
	fd = bind_socket(s->config.socket);
	if (fd < 0) {
		log_error("cannot listen on %s: %s%s", s->config.socket, strerror(-fd),
			  fd == -EADDRINUSE ? " by another gpucountd; choose another --socket" : "");
		return fd;
	}
	s->own_socket = true;
	s->listeners[s->n_listeners++] = fd;
	return 0;
}

/* --- workers --- */

static int make_pair(int type, int pair[2])
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0) {
		log_error("no socket pair: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

/* In the child: names itself, keeps only what the process may have, and forgets our descriptors. */
static void enter_worker(struct supervisor *s, enum worker_id id)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN); /* of the terminal; the supervisor tells us */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, worker_names[id]);
	log_init(worker_names[id], s->config.log_level);
	close(s->signals);
	if (id != WORKER_FRONT) {
		for (size_t i = 0; i < s->n_listeners; i++) {
			close(s->listeners[i]);
		}
	}
	if (s->control >= 0 && id != WORKER_FRONT) {
		close(s->control);
	}
	if (privilege_enter(id != WORKER_FRONT) < 0) {
		log_error("cannot give up privileges");
		_exit(1);
	}
}

/* The parent's end of the link, or -errno. */
static int start_linked(struct supervisor *s, enum worker_id id)
{
	int pair[2], r = make_pair(id == WORKER_GRANTER ? SOCK_SEQPACKET : SOCK_STREAM, pair);
	pid_t pid;

	if (r < 0) {
		return r;
	}
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		enter_worker(s, id);
		_exit(id == WORKER_GRANTER ? granter_run(pair[1]) : gpu_run(pair[1]));
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -errno;
	}
	s->pids[id] = pid;
	return pair[0];
}

static int start_front(struct supervisor *s)
{
	CLEAN_FD int granter = start_linked(s, WORKER_GRANTER);
	CLEAN_FD int gpu = granter < 0 ? -1 : start_linked(s, WORKER_GPU);
	int pair[2];
	pid_t pid;

	if (granter < 0 || gpu < 0 || make_pair(SOCK_SEQPACKET, pair) < 0) {
		return -ECHILD;
	}
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		enter_worker(s, WORKER_FRONT);
		_exit(front_run(&s->config, s->listeners, s->n_listeners, pair[1], TAKE_FD(granter), TAKE_FD(gpu)));
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -errno;
	}
	s->pids[WORKER_FRONT] = pid;
	s->control = pair[0];
	return 0;
}

static int replace_linked(struct supervisor *s, enum worker_id id)
{
	CLEAN_FD int fd = start_linked(s, id);

	if (fd < 0) {
		return fd;
	}
	return control_send(s->control, id == WORKER_GRANTER ? CONTROL_NEW_GRANTER : CONTROL_NEW_GPU, fd);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	return status;
}

/* The granter and gpu processes of a front that died: the end of their link ends them, freeing every
 * object; one that hangs in the driver is killed. */
static void end_linked(struct supervisor *s)
{
	for (enum worker_id id = WORKER_GRANTER; id <= WORKER_GPU; id++) {
		int status;

		for (int i = 0; s->pids[id] > 0 && i < 100; i++) {
			if (waitpid(s->pids[id], &status, WNOHANG) != 0) {
				s->pids[id] = 0;
				break;
			}
			poll(NULL, 0, 10);
		}
		if (s->pids[id] > 0) {
			kill(s->pids[id], SIGKILL);
			wait_for(s->pids[id]);
			s->pids[id] = 0;
		}
	}
}

static bool restarts_too_often(struct supervisor *s)
{
	uint64_t now = clock_now_ns();
	uint64_t *oldest = &s->restarts_ns[s->n_restarts++ % RESTARTS_MAX];
	bool often = *oldest != 0 && now - *oldest < RESTARTS_WINDOW_S * CLOCK_NS_PER_S;

	*oldest = now;
	return often;
}

static int replace_worker(struct supervisor *s, enum worker_id id)
{
	if (restarts_too_often(s)) {
		log_error("processes die again and again: giving up");
		return -ECHILD;
	}
	if (id != WORKER_FRONT) {
		return replace_linked(s, id);
	}
	close(s->control);
	s->control = -1;
	end_linked(s);
	return start_front(s);
}

static int reap(struct supervisor *s)
{
	int status, r = 0;
	pid_t pid;

	while (r >= 0 && (pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (enum worker_id id = 0; id < WORKERS; id++) {
			if (s->pids[id] != pid) {
				continue;
			}
			s->pids[id] = 0;
			if (s->stopping) {
				break;
			}
			log_warning("%s (pid %d) ended (%s %d): replaced", worker_names[id], (int)pid,
				    WIFSIGNALED(status) ? "signal" : "status",
				    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			r = replace_worker(s, id);
			break;
		}
	}
	return r;
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

static int handle_signals(struct supervisor *s)
{
	struct signalfd_siginfo i;
	int r = 0;

	while (r >= 0 && read(s->signals, &i, sizeof(i)) == (ssize_t)sizeof(i)) {
		if (i.ssi_signo == SIGCHLD) {
			r = reap(s);
		} else if (i.ssi_signo == SIGTERM || i.ssi_signo == SIGINT) {
			begin_stop(s);
		}
	}
	return r;
}

static void handle_control(struct supervisor *s)
{
	enum control_op op;
	int fd;

	while (control_receive(s->control, &op, &fd) == 1) {
		if (fd >= 0) {
			close(fd);
		}
		if (op == CONTROL_READY) {
			log_notice("listening on %s", s->own_socket ? s->config.socket : "the sockets of systemd");
			sd_notify(0, "READY=1\nSTATUS=Waiting for captures.");
		} else if (op == CONTROL_ALIVE) {
			sd_notify(0, "WATCHDOG=1");
		}
	}
}

static int run(struct supervisor *s)
{
	uint64_t stop_by = 0;
	int r = 0;

	while (r >= 0 && !(s->stopping && s->pids[WORKER_FRONT] == 0)) {
		struct pollfd fds[] = { { s->signals, POLLIN, 0 }, { s->control, POLLIN, 0 } };

		if (s->stopping && stop_by == 0) {
			stop_by = clock_now_ns() + STOP_TIMEOUT_S * CLOCK_NS_PER_S;
		}
		if (s->stopping && clock_now_ns() >= stop_by) {
			break;
		}
		poll(fds, 2, s->stopping ? 100 : -1);
		if (fds[1].revents != 0) {
			handle_control(s);
			if ((fds[1].revents & POLLHUP) != 0) {
				poll(NULL, 0, 1); /* the signal that says why is on its way */
			}
		}
		r = handle_signals(s);
	}
	return r;
}

static int serve(struct supervisor *s)
{
	int r;

	s->signals = open_signals();
	s->control = -1;
	r = s->signals < 0 ? -errno : start_front(s);
	if (r == 0) {
		r = run(s);
	}
	if (s->pids[WORKER_FRONT] > 0) {
		kill(s->pids[WORKER_FRONT], SIGKILL);
		wait_for(s->pids[WORKER_FRONT]);
	}
	end_linked(s);
	if (s->own_socket) {
		unlink(s->config.socket); /* may fail once we left root: the next start cleans it */
	}
	return r < 0 ? 1 : 0;
}

/* --- arguments --- */

static int apply(struct config *c, const char *key, const char *value)
{
	char error[512];
	int r = config_set(c, key, value, error, sizeof(error));

	if (r < 0) {
		fprintf(stderr, "gpucountd: %s: %s\n", key, error);
	}
	return r;
}

static int apply_pair(struct config *c, char *pair)
{
	char *equals = strchr(pair, '=');

	if (!equals) {
		fprintf(stderr, "gpucountd: --set wants KEY=VALUE, not '%s'\n", pair);
		return -EINVAL;
	}
	*equals = '\0';
	return apply(c, pair, equals + 1);
}

static int load(struct config *c, const char *path, bool must_exist)
{
	char error[768];
	int r = config_load(c, path, error, sizeof(error));

	if (r == -ENOENT && !must_exist) {
		return 0;
	}
	if (r < 0) {
		fprintf(stderr, "gpucountd: %s\n", error);
	}
	return r;
}

enum { OPTION_SET = 256, OPTION_CHECK };

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' }, { "socket", required_argument, NULL, 's' },
	{ "user", required_argument, NULL, 'u' },   { "set", required_argument, NULL, OPTION_SET },
	{ "check-config", no_argument, NULL, OPTION_CHECK }, { "verbose", no_argument, NULL, 'v' },
	{ "version", no_argument, NULL, 'V' },	    { "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char short_options[] = "c:s:u:vVh";

/* The file comes first wherever it stands on the command line. */
static int load_file(struct config *c, int argc, char **argv)
{
	const char *path = NULL;
	int o;

	while ((o = getopt_long(argc, argv, short_options, options, NULL)) != -1) {
		path = o == 'c' ? optarg : path;
		if (o == '?') {
			return -EINVAL;
		}
	}
	optind = 1;
	return load(c, path ? path : GPUCTR_CONFIG_FILE, path != NULL);
}

/* 1: go on; 0: done; -errno. */
static int parse_arguments(struct config *c, int argc, char **argv)
{
	bool check = false;
	int o, r = load_file(c, argc, argv);

	while (r == 0 && (o = getopt_long(argc, argv, short_options, options, NULL)) != -1) {
		switch (o) {
		case 's':
			r = apply(c, "socket", optarg);
			break;
		case 'u':
			r = apply(c, "user", optarg);
			break;
		case OPTION_SET:
			r = apply_pair(c, optarg);
			break;
		case OPTION_CHECK:
			check = true;
			break;
		case 'v':
			c->log_level = LOG_DEBUG;
			break;
		case 'V':
			puts("gpucountd " GPUCTR_VERSION);
			return 0;
		case 'h':
			print_help();
			return 0;
		default:
			break;
		}
	}
	if (r < 0) {
		return r;
	}
	if (optind < argc) {
		fprintf(stderr, "gpucountd: unexpected argument '%s'; see --help\n", argv[optind]);
		return -EINVAL;
	}
	return check ? 0 : 1;
}

int main(int argc, char **argv)
{
	static struct supervisor s;
	int r;

	config_init(&s.config);
	r = parse_arguments(&s.config, argc, argv);
	if (r <= 0) {
		return r < 0 ? 2 : 0;
	}
	log_init("supervisor", s.config.log_level);
	if (open_sockets(&s) < 0) {
		return 1;
	}
	if (privilege_leave_root(s.config.user) < 0) {
		return 1;
	}
	return serve(&s);
}
