/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/supervisor.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/audit/audit.h"
#include "daemon/base/log.h"

static void print_help(void)
{
	puts("Usage: gpucountd [OPTION...]\n"
	     "\n"
	     "Owns the GPU performance counters of this machine and leases them to users' "
	     "programs.\n"
	     "\n"
	     "  -c, --config FILE    settings (default " GPUCTR_CONFIG_FILE ", if it is there)\n"
	     "  -s, --socket PATH    listen here (default " GPUCTR_DEFAULT_SOCKET ";\n"
	     "                       under systemd the sockets it passes are used)\n"
	     "  -u, --user NAME      become this user when started as root (gpucountd, else "
	     "nobody)\n"
	     "      --set KEY=VALUE  any setting of gpucountd.conf(5)\n"
	     "      --check-config   read the settings, say what is wrong, and exit\n"
	     "      --probe          alone: ask the driver for counters as a user's profiler does\n"
	     "  -v, --verbose        log more\n"
	     "  -V, --version\n"
	     "  -h, --help\n"
	     "\n"
	     "Measuring needs CAP_PERFMON, in this daemon alone: run it by its systemd unit, or "
	     "as\n"
	     "root, which it leaves at once. Without it, recordings can still be played.");
}

static int apply(struct config *c, const char *key, const char *value)
{
	char error[768];
	int r = config_set(c, key, value, error, sizeof(error));

	if (r < 0) {
		fprintf(stderr, "gpucountd: %s: %s\n", key, error);
	}
	return r;
}

static int apply_pair(struct config *c, const char *pair)
{
	const char *equals = strchr(pair, '=');
	char key[64];

	if (!equals || (size_t)(equals - pair) >= sizeof(key)) {
		fprintf(stderr, "gpucountd: --set wants KEY=VALUE, not '%s'\n", pair);
		return -EINVAL;
	}
	snprintf(key, sizeof(key), "%.*s", (int)(equals - pair), pair);
	return apply(c, key, equals + 1);
}

static int load(struct config *c, const char *path, uid_t starter, bool must_exist)
{
	char error[PATH_MAX + 1024];
	int r = config_load(c, path, starter, error, sizeof(error));

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
	{ "config", required_argument, NULL, 'c' },
	{ "socket", required_argument, NULL, 's' },
	{ "user", required_argument, NULL, 'u' },
	{ "set", required_argument, NULL, OPTION_SET },
	{ "check-config", no_argument, NULL, OPTION_CHECK },
	{ "verbose", no_argument, NULL, 'v' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char short_options[] = "c:s:u:vVh";

/* Looks at the whole command line before anything is read or opened, so that --help and --version
 * work with any other options. 1: go on, with the file's path or NULL; 0: answered; -errno: the
 * error was printed. */
static int look_ahead(int argc, char **argv, const char **ret_file)
{
	const char *file = NULL;
	int o;

	while ((o = getopt_long(argc, argv, short_options, options, NULL)) != -1) {
		if (o == '?') {
			fputs("gpucountd: see --help\n", stderr);
			return -EINVAL;
		}
		if (o == 'h') {
			print_help();
			return 0;
		}
		if (o == 'V') {
			puts("gpucountd " GPUCTR_VERSION);
			return 0;
		}
		file = o == 'c' ? optarg : file;
	}
	if (optind < argc) {
		fprintf(stderr, "gpucountd: unexpected argument '%s'; see --help\n", argv[optind]);
		return -EINVAL;
	}
	*ret_file = file;
	return 1;
}

static int read_settings(struct config *c, int argc, char **argv, bool *ret_check)
{
	int r = 0, o;

	optind = 1;
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
			*ret_check = true;
			break;
		case 'v':
			c->log_level = LOG_DEBUG;
			break;
		default:
			break;
		}
	}
	return r;
}

/* Prints values for gpucountd-doctor, even if other settings are wrong. gate is the gid of the only
 * group that the policy admits; -1: it admits nobody. */
static void print_effective(const struct config *c)
{
	gid_t gate = (gid_t)-1;

	printf("socket = %s\nuser = %s\n", c->socket, c->user);
	if (policy_is_one_group(&c->policy, &gate)) {
		printf("gate = %d\n", (int)gate);
	}
}

/* Checks with the rights of the calling user, which before a reload is the daemon's user. */
static int check_audit(const struct config *c)
{
	/* With a journal, lines go there, and the daemon does not use the file. */
	int r = c->audit_file[0] && !log_is_journal() ? audit_check(c->audit_file) : 0;

	if (r < 0) {
		fprintf(stderr,
			"gpucountd: audit-file %s: %s; make it and its folder writable for the "
			"daemon's user\n",
			c->audit_file, strerror(-r));
	}
	return r;
}

int options_parse(struct config *c, int argc, char **argv, uid_t starter)
{
	const char *file;
	bool check = false;
	int r, of_file;

	optind = 1; /* a reload parses again */
	r = look_ahead(argc, argv, &file);
	if (r <= 0) {
		return r;
	}
	/* The file is read before other options, wherever --config is on the command line. */
	of_file = load(c, file ? file : GPUCTR_CONFIG_FILE, starter, file != NULL);
	r = read_settings(c, argc, argv, &check);
	r = of_file < 0 ? of_file : r;
	if (check && c->log_level == LOG_DEBUG) {
		print_effective(c);
	}
	if (r < 0) {
		return r;
	}
	return check ? check_audit(c) : 1;
}
