/* SPDX-License-Identifier: Apache-2.0 */

/* gpuctr-exporter: the state and the counts of gpucountd for a monitoring system, by HTTP. It is an
 * ordinary client of the daemon, run by a user whom the settings name as a monitor. It holds no
 * capability and asks for nothing but the status. */

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "client/exporter/listen.h"
#include "client/exporter/server.h"
#include "proto/base/standard.h"

#define DEFAULT_LISTEN "/run/gpucountd/metrics.sock"

enum { OPTION_TCP = 256, EXIT_WRONG = 2 };

struct exporter {
	struct server server;
	struct scrape scrape;
	const char *listen, *tcp; /* NULL: none */
	const char *bound;	  /* a socket of ours, removed at the end */
};

static void print_help(void)
{
	puts("Usage: gpuctr-exporter [OPTION...]\n"
	     "\n"
	     "Serves the state and the counts of gpucountd as OpenMetrics text, by HTTP.\n"
	     "\n"
	     "  -l, --listen PATH       Unix socket (default " DEFAULT_LISTEN ";\n"
	     "                          under systemd the sockets it passes are used)\n"
	     "      --tcp ADDRESS:PORT  also, or instead without --listen, at this address; "
	     "whoever\n"
	     "                          reaches it can read the metrics\n"
	     "  -s, --socket PATH       of the daemon (default $GPUCTR_SOCKET, or "
	     "the installed one)\n"
	     "  -V, --version\n"
	     "  -h, --help");
}

/* 1: go on; 0: answered; -1: wrong, and the error was printed. */
static int parse(struct exporter *e, int argc, char **argv)
{
	static const struct option options[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "tcp", required_argument, NULL, OPTION_TCP },
		{ "socket", required_argument, NULL, 's' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "l:s:Vh", options, NULL)) != -1) {
		switch (o) {
		case 'l':
			e->listen = optarg;
			break;
		case OPTION_TCP:
			e->tcp = optarg;
			break;
		case 's':
			e->scrape.socket = optarg;
			break;
		case 'V':
			puts("gpuctr-exporter " GPUCTR_VERSION);
			return 0;
		case 'h':
			print_help();
			return 0;
		default:
			fputs("gpuctr-exporter: see --help\n", stderr);
			return -1;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "gpuctr-exporter: unexpected argument '%s'; see --help\n",
			argv[optind]);
		return -1;
	}
	return 1;
}

static int add(struct exporter *e, int fd)
{
	return fd < 0 ? -1 : server_add(&e->server, fd);
}

static int open_unix(struct exporter *e, const char *path)
{
	int fd = listen_unix(path);

	e->bound = fd < 0 ? NULL : path;
	return add(e, fd);
}

/* Sockets that systemd passes come first; the default socket is used only when nothing else is
 * asked for. */
static int open_sockets(struct exporter *e)
{
	int fds[SERVER_SOCKETS], r = 0;
	size_t n = listen_passed(fds, SERVER_SOCKETS);

	for (size_t i = 0; i < n; i++) {
		r = add(e, fds[i]) < 0 ? -1 : r;
	}
	if (r == 0 && e->listen) {
		r = open_unix(e, e->listen);
	} else if (r == 0 && n == 0 && !e->tcp) {
		r = open_unix(e, DEFAULT_LISTEN);
	}
	return r == 0 && e->tcp ? add(e, listen_tcp(e->tcp)) : r;
}

static int open_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

int main(int argc, char **argv)
{
	static struct exporter e;
	int r, signals;

	standard_hold();
	r = parse(&e, argc, argv);

	if (r <= 0) {
		return r < 0 ? EXIT_WRONG : 0;
	}
	e.server.scrape = &e.scrape;
	signals = open_signals();
	r = signals < 0 ? -1 : open_sockets(&e);
	if (r == 0) {
		sd_notify(0, "READY=1");
		server_run(&e.server, signals);
	}
	server_stop(&e.server);
	scrape_deinit(&e.scrape);
	if (e.bound) {
		unlink(e.bound);
	}
	return r < 0 ? 1 : 0;
}
