/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/settings.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static void write_file(const struct settings *s, const char *text)
{
	FILE *file = fopen(s->path, "w");

	assert_non_null(file);
	assert_int_equal(fchmod(fileno(file), 0644), 0); /* nobody else may write settings */
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void wait_for(const struct settings *s, const char *line)
{
	struct pollfd p = { s->notify, POLLIN, 0 };
	char text[1024];

	do {
		ssize_t n;

		if (poll(&p, 1, PATIENCE_MS) != 1) {
			fail_msg("the daemon does not say %s", line);
		}
		n = recv(s->notify, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
	} while (!strstr(text, line));
}

void settings_start_daemon(struct settings *s, struct fixture *f, const char *text)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	*s = (struct settings){ .f = f };
	snprintf(s->path, sizeof(s->path), "%s", fixture_path(f, "settings"));
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/notify", f->folder);
	s->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->notify, (struct sockaddr *)&a, sizeof(a)), 0);
	setenv("NOTIFY_SOCKET", a.sun_path, 1);
	write_file(s, text);
	fixture_start_strict_daemon(f, "--config", s->path, NULL);
	unsetenv("NOTIFY_SOCKET");
	wait_for(s, "READY=1");
}

void settings_reload(struct settings *s, const char *text)
{
	write_file(s, text);
	program_kill(s->f->daemon, SIGHUP);
	wait_for(s, "RELOADING=1");
	wait_for(s, "READY=1");
}
