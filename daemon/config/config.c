/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/near.h"
#include "daemon/base/log.h"
#include "daemon/base/trust.h"
#include "daemon/config/names.h"

/* One table of keys. A row reads its value into the member at its offset; 0: it knows the member.
 */

struct key {
	const char *name;
	int (*set)(struct config *c, const char *value, size_t offset, char *error, size_t size);
	size_t offset;
};

void config_init(struct config *c)
{
	*c = (struct config){
		.socket = GPUCTR_DEFAULT_SOCKET,
		.lease_max_ns = 3600 * CLOCK_NS_PER_S,
		.queue_max = 32,
		.connections_max = 1024,
		.connections_per_user = 64,
		.captures_per_user = 8,
		.registered_max = 12288,
		.registered_per_user = 4096,
		.captures_per_minute = 120,
		.permissions_per_minute = 6000,
		.questions_per_minute = 600,
		.log_level = LOG_INFO,
	};
}

static int copy_text(char *text, size_t room, const char *value, char *error, size_t size)
{
	if (strlen(value) >= room) {
		snprintf(error, size, "'%s' is too long: at most %zu bytes", value, room - 1);
		return -EINVAL;
	}
	memcpy(text, value, strlen(value) + 1);
	return 0;
}

static int set_socket(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	return copy_text(c->socket, sizeof(c->socket), value, error, size);
}

static int set_user(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	return copy_text(c->user, sizeof(c->user), value, error, size);
}

static int set_number(struct config *c, const char *value, size_t offset, unsigned long max,
		      char *error, size_t size)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || n == 0 || n > max) {
		snprintf(error, size, "'%s' is not a number from 1 to %lu", value, max);
		return -EINVAL;
	}
	*(unsigned *)((char *)c + offset) = (unsigned)n;
	return 0;
}

static int set_count(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	return set_number(c, value, offset, 65536, error, size);
}

static int set_rate(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	return set_number(c, value, offset, CONFIG_RATE_MAX, error, size);
}

enum { CONFIG_E_UNIT = NAMES_E_NOBODY + 1 }; /* taken for seconds, with that in error */

/* "90", "90s", "10min", "1h" */
static int set_time(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	static const struct {
		const char *suffix;
		unsigned seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "min", 60 }, { "m", 60 }, { "h", 3600 } };
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	for (size_t i = 0; end != value && i < ARRAY_SIZE(units); i++) {
		if (strcmp(end, units[i].suffix) == 0 && n > 0 && n <= 3600 / units[i].seconds) {
			*(uint64_t *)((char *)c + offset) = n * units[i].seconds * CLOCK_NS_PER_S;
			if (i > 0) {
				return 0;
			}
			snprintf(error, size,
				 "'%s' has no unit and is taken for seconds; write %lus, or %lumin "
				 "for minutes",
				 value, n, n);
			return CONFIG_E_UNIT;
		}
	}
	snprintf(error, size, "'%s' is not a time from 1s to 1h, such as 600s or 10min", value);
	return -EINVAL;
}

static int set_level(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	static const char *const names[] = { "error", "warning", "notice", "info", "debug" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]) == 0) {
			c->log_level = LOG_ERR + (int)i;
			return 0;
		}
	}
	snprintf(error, size, "'%s' is not one of error, warning, notice, info, debug", value);
	return -EINVAL;
}

static int set_users(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	return names_add_users((struct policy_names *)((char *)c + offset), value, error, size);
}

static int set_allow_groups(struct config *c, const char *value, size_t offset, char *error,
			    size_t size)
{
	return names_add_groups(&c->policy.allow, value, c->policy.groups_text,
				sizeof(c->policy.groups_text), error, size);
}

/* Groups that refusals do not name. */
static int set_groups(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	return names_add_groups((struct policy_names *)((char *)c + offset), value, NULL, 0, error,
				size);
}

static int set_group_gpus(struct config *c, const char *value, size_t offset, char *error,
			  size_t size)
{
	return names_add_rule(&c->policy, value, error, size);
}

static int set_switch(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0) {
		snprintf(error, size, "'%s' is neither yes nor no", value);
		return -EINVAL;
	}
	*(bool *)((char *)c + offset) = strcmp(value, "yes") == 0;
	return 0;
}

/* "none", or the names that metrics may carry: "user", "job", or both. */
static int set_labels(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	static const struct {
		const char *text;
		bool users, jobs;
	} known[] = {
		{ "none", false, false },   { "user", true, false },
		{ "job", false, true },	    { "user, job", true, true },
		{ "user,job", true, true }, { "job, user", true, true },
		{ "job,user", true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(value, known[i].text) == 0) {
			c->label_users = known[i].users;
			c->label_jobs = known[i].jobs;
			return 0;
		}
	}
	snprintf(error, size, "'%s' is not one of none, user, job, and 'user, job'", value);
	return -EINVAL;
}

static int set_path(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	if (strlen(value) >= sizeof(c->audit_file) || (*value != '\0' && *value != '/')) {
		snprintf(error, size,
			 "'%.100s' is not a path that begins with / and has at most %zu bytes",
			 value, sizeof(c->audit_file) - 1);
		return -EINVAL;
	}
	memcpy(c->audit_file, value, strlen(value) + 1);
	return 0;
}

static int set_sharing(struct config *c, const char *value, size_t offset, char *error, size_t size)
{
	if (strcmp(value, "exclusive") != 0 && strcmp(value, "shared") != 0) {
		snprintf(error, size, "'%s' is neither exclusive nor shared", value);
		return -EINVAL;
	}
	c->shared = strcmp(value, "shared") == 0;
	return 0;
}

static const struct key keys[] = {
	{ "socket", set_socket, 0 },
	{ "user", set_user, 0 },
	{ "allow-users", set_users, offsetof(struct config, policy.allow) },
	{ "allow-groups", set_allow_groups, 0 },
	{ "group-gpus", set_group_gpus, 0 },
	{ "device-users", set_users, offsetof(struct config, policy.device) },
	{ "device-groups", set_groups, offsetof(struct config, policy.device) },
	{ "operator-captures", set_switch, offsetof(struct config, policy.operator_captures) },
	{ "operator-groups", set_groups, offsetof(struct config, policy.operators) },
	{ "monitor-users", set_users, offsetof(struct config, policy.monitor) },
	{ "metric-labels", set_labels, 0 },
	{ "job-owners", set_switch, offsetof(struct config, policy.job_owners) },
	{ "sharing", set_sharing, 0 },
	{ "lease-max", set_time, offsetof(struct config, lease_max_ns) },
	{ "queue", set_count, offsetof(struct config, queue_max) },
	{ "connections", set_count, offsetof(struct config, connections_max) },
	{ "connections-per-user", set_count, offsetof(struct config, connections_per_user) },
	{ "captures-per-user", set_count, offsetof(struct config, captures_per_user) },
	{ "registered", set_count, offsetof(struct config, registered_max) },
	{ "registered-per-user", set_count, offsetof(struct config, registered_per_user) },
	{ "captures-per-minute", set_rate, offsetof(struct config, captures_per_minute) },
	{ "permissions-per-minute", set_rate, offsetof(struct config, permissions_per_minute) },
	{ "questions-per-minute", set_rate, offsetof(struct config, questions_per_minute) },
	{ "audit-file", set_path, 0 },
	{ "log-level", set_level, 0 },
};

static int refuse_unknown(const char *key, char *error, size_t error_size)
{
	char known[640] = "";
	const char *meant;
	struct near near;

	near_init(&near, key, strlen(key));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		near_offer(&near, keys[i].name);
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", keys[i].name);
	}
	meant = near_best(&near);
	if (meant) {
		snprintf(error, error_size, "unknown key '%s'; did you mean '%s'?", key, meant);
	} else {
		snprintf(error, error_size, "unknown key '%s': known are %s", key, known);
	}
	return -EINVAL;
}

/* As names_add_*(): what it leaves out is a positive result, and so is CONFIG_E_UNIT. */
static int set(struct config *c, const char *key, const char *value, char *error, size_t size)
{
	error[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, key) == 0) {
			return keys[i].set(c, value, keys[i].offset, error, size);
		}
	}
	return refuse_unknown(key, error, size);
}

/* Says what a positive result means. Names that nobody has are left out and reported: if the daemon
 * did not start because of one name, the other users could not measure. */
static void warn(const char *where, const char *key, int result, const char *why)
{
	log_warning("%s%s: %s%s", where, key, why,
		    result == NAMES_E_NOBODY
			    ? ": left out; create it, name it by number, or take it out"
			    : "");
}

int config_set(struct config *c, const char *key, const char *value, char *error, size_t error_size)
{
	int r = set(c, key, value, error, error_size);

	if (r <= 0) {
		return r;
	}
	warn("", key, r, error);
	error[0] = '\0';
	return 0;
}

static char *trim(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s)) {
		s++;
	}
	for (n = strlen(s); n > 0 && isspace((unsigned char)s[n - 1]); n--) {
		s[n - 1] = '\0';
	}
	return s;
}

static int load_line(struct config *c, char *line, const char *where, char *error, size_t size)
{
	char *text = trim(line), *equals = strchr(text, '='), *key;
	char why[768];
	int r;

	if (*text == '\0' || *text == '#') {
		return 0;
	}
	if (!equals) {
		snprintf(error, size, "%s'%s' is not 'key = value'", where, text);
		return -EINVAL;
	}
	*equals = '\0';
	key = trim(text);
	r = set(c, key, trim(equals + 1), why, sizeof(why));
	if (r < 0) {
		snprintf(error, size, "%s%s: %s", where, key, why);
	} else if (r > 0) {
		warn(where, key, r, why);
	}
	return r < 0 ? r : 0;
}

static int load_lines(struct config *c, FILE *f, const char *path, char *error, size_t error_size)
{
	CLEAN_FREE char *line = NULL;
	char where[PATH_MAX + 16];
	size_t room = 0;
	int r = 0;

	for (unsigned n = 1; r == 0 && getline(&line, &room, f) >= 0; n++) {
		snprintf(where, sizeof(where), "%s:%u: ", path, n);
		r = load_line(c, line, where, error, error_size);
	}
	/* A file that could not be read must not be replaced by defaults, which may allow more than
	 * the administrator wrote. */
	if (r == 0 && !feof(f)) {
		r = -errno;
		snprintf(error, error_size, "%s cannot be read: %s", path, strerror(errno));
	}
	return r;
}

int config_load(struct config *c, const char *path, uid_t owner, char *error, size_t error_size)
{
	CLEAN_FILE FILE *f = fopen(path, "re");
	int r;

	if (!f) {
		r = -errno;
		snprintf(error, error_size, "%s: %s", path, strerror(errno));
		return r;
	}
	r = trust_check_file(fileno(f), path, owner, error, error_size);
	return r < 0 ? r : load_lines(c, f, path, error, error_size);
}
