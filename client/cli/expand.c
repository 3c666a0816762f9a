/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/expand.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/buf.h"

static const char letters_known[] = "hujJntrp%";

char expand_wrong(const char *pattern)
{
	for (const char *p = strchr(pattern, '%'); p; p = strchr(p + 2, '%')) {
		if (p[1] == '\0') {
			return '%';
		}
		if (!strchr(letters_known, p[1])) {
			return p[1];
		}
	}
	return 0;
}

size_t expand_before(const char *pattern, const char *letters)
{
	for (const char *p = strchr(pattern, '%'); p && p[1]; p = strchr(p + 2, '%')) {
		if (strchr(letters, p[1])) {
			return (size_t)(p - pattern);
		}
	}
	return strlen(pattern);
}

bool expand_has(const char *pattern, const char *letters)
{
	return pattern[expand_before(pattern, letters)] != '\0';
}

static bool is_safe(char c)
{
	return isalnum((unsigned char)c) || (c && strchr(".-_", c));
}

static void add_safe(struct buf *b, const char *value)
{
	for (const char *p = value; *p; p++) {
		bool leads = p == value && *p == '.';

		buf_char(b, !leads && is_safe(*p) ? *p : '_');
	}
}

const char *expand_node(void)
{
	static char name[HOST_NAME_MAX + 1];
	const char *node = getenv("SLURMD_NODENAME");
	char host[HOST_NAME_MAX + 1] = "none";
	CLEAN_BUF struct buf b = { 0 };

	gethostname(host, sizeof(host) - 1);
	add_safe(&b, node && *node ? node : host);
	snprintf(name, sizeof(name), "%s", buf_string(&b));
	return name;
}

static void add_user(struct buf *b)
{
	const struct passwd *pw = getpwuid(geteuid());

	if (pw) {
		add_safe(b, pw->pw_name);
	} else {
		buf_printf(b, "%u", (unsigned)geteuid());
	}
}

static void add_job(struct buf *b, const struct claims *claims, bool with_step)
{
	const char *again = claims_find(claims, "SLURM_RESTART_COUNT");
	const char *step = claims_step(claims);
	char job[256];
	bool known = claims_job_text(claims, job, sizeof(job));

	add_safe(b, known ? job : "none");
	/* If Slurm has requeued the job, earlier runs may have left files: the restart's number
	 * keeps the names apart. */
	if (known && again && strcmp(again, "0") != 0) {
		buf_char(b, 'r');
		add_safe(b, again);
	}
	if (with_step) {
		buf_char(b, '.');
		add_safe(b, step ? step : known ? "batch" : "none");
	}
}

static void add_known(struct buf *b, const char *value)
{
	add_safe(b, value ? value : "none");
}

static void add(struct buf *b, char letter, const struct claims *claims, pid_t pid)
{
	switch (letter) {
	case 'h':
		buf_text(b, expand_node());
		break;
	case 'u':
		add_user(b);
		break;
	case 'j':
	case 'J':
		add_job(b, claims, letter == 'J');
		break;
	case 'n':
		add_known(b, claims_find(claims, "SLURM_NODEID"));
		break;
	case 't':
		add_known(b, claims_task(claims));
		break;
	case 'r':
		add_known(b, claims_rank(claims));
		break;
	case 'p':
		buf_printf(b, "%d", (int)pid);
		break;
	default:
		buf_char(b, letter);
		break;
	}
}

char *expand_pattern(const char *pattern, const struct claims *claims, pid_t pid)
{
	CLEAN_BUF struct buf b = { 0 };

	for (const char *p = pattern; *p; p++) {
		if (*p == '%' && p[1]) {
			add(&b, *++p, claims, pid);
		} else {
			buf_char(&b, *p);
		}
	}
	return buf_take(&b);
}

int expand_make_folders(const char *path)
{
	char folder[PATH_MAX];

	if (strlen(path) >= sizeof(folder)) {
		return -ENAMETOOLONG;
	}
	snprintf(folder, sizeof(folder), "%s", path);
	for (char *slash = strchr(folder + 1, '/'); *folder && slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(folder, 0777) < 0 && errno != EEXIST) {
			return -errno;
		}
		*slash = '/';
	}
	return 0;
}
