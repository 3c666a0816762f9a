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

/* One table of keys. A row's function reads the text into the member at the row's offset; limit is
 * the largest number, or the member's size in bytes. */

struct value {
	const char *text;
	void *member;
	unsigned long limit;
	char *error;
	size_t size; /* size of error */
};

struct key {
	const char *name;
	int (*set)(const struct value *v);
	size_t offset;
	unsigned long limit;
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

static int set_text(const struct value *v)
{
	if (strlen(v->text) >= v->limit) {
		snprintf(v->error, v->size, "'%.100s' is too long: at most %lu bytes", v->text,
			 v->limit - 1);
		return -EINVAL;
	}
	memcpy(v->member, v->text, strlen(v->text) + 1);
	return 0;
}

static int set_path(const struct value *v)
{
	if (*v->text != '\0' && *v->text != '/') {
		snprintf(v->error, v->size, "'%.100s' is not a path that begins with /", v->text);
		return -EINVAL;
	}
	return set_text(v);
}

static int set_number(const struct value *v)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(v->text, &end, 10);
	if (errno != 0 || end == v->text || *end != '\0' || n == 0 || n > v->limit) {
		snprintf(v->error, v->size, "'%s' is not a number from 1 to %lu", v->text,
			 v->limit);
		return -EINVAL;
	}
	*(unsigned *)v->member = (unsigned)n;
	return 0;
}

enum { CONFIG_E_UNIT = NAMES_E_NOBODY + 1 }; /* taken as seconds, with a warning in error */

/* "90", "90s", "10min", "1h" */
static int set_time(const struct value *v)
{
	static const struct {
		const char *suffix;
		unsigned seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "min", 60 }, { "m", 60 }, { "h", 3600 } };
	char *end;
	unsigned long n = strtoul(v->text, &end, 10);

	for (size_t i = 0; end != v->text && i < ARRAY_SIZE(units); i++) {
		if (strcmp(end, units[i].suffix) == 0 && n > 0 && n <= 3600 / units[i].seconds) {
			*(uint64_t *)v->member = n * units[i].seconds * CLOCK_NS_PER_S;
			if (i > 0) {
				return 0;
			}
			snprintf(v->error, v->size,
				 "'%s' has no unit and is taken for seconds; write %lus, or %lumin "
				 "for minutes",
				 v->text, n, n);
			return CONFIG_E_UNIT;
		}
	}
	snprintf(v->error, v->size, "'%s' is not a time from 1s to 1h, such as 600s or 10min",
		 v->text);
	return -EINVAL;
}

/* The index of v->text among words, which are separated by '|'. */
static int find_word(const struct value *v, const char *words)
{
	char copy[128], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", words);
	for (int i = 0; (word = strsep(&rest, "|")) != NULL; i++) {
		if (strcmp(word, v->text) == 0) {
			return i;
		}
	}
	snprintf(v->error, v->size, "'%s' is not one of %s", v->text, words);
	return -EINVAL;
}

static int set_bool(const struct value *v, const char *words)
{
	int r = find_word(v, words);

	if (r >= 0) {
		*(bool *)v->member = r == 1;
	}
	return r < 0 ? r : 0;
}

static int set_switch(const struct value *v)
{
	return set_bool(v, "no|yes");
}

static int set_sharing(const struct value *v)
{
	return set_bool(v, "exclusive|shared");
}

static int set_level(const struct value *v)
{
	int r = find_word(v, "error|warning|notice|info|debug");

	if (r >= 0) {
		*(int *)v->member = LOG_ERR + r;
	}
	return r < 0 ? r : 0;
}

/* Sets the names that exported metrics may contain. */
static int set_labels(const struct value *v)
{
	int r = find_word(v, "none|user|job|user, job|user,job|job, user|job,user");

	if (r >= 0) {
		*(struct config_labels *)v->member = (struct config_labels){
			.users = r == 1 || r > 2,
			.jobs = r >= 2,
		};
	}
	return r < 0 ? r : 0;
}

static int set_users(const struct value *v)
{
	return names_add_users(v->member, v->text, v->error, v->size);
}

static int set_groups(const struct value *v)
{
	return names_add_groups(v->member, v->text, NULL, v->error, v->size);
}

/* Sets the admitted groups, which refusals also name. */
static int set_allow_groups(const struct value *v)
{
	struct policy *p = v->member;

	return names_add_groups(&p->allow, v->text, p->groups_text, v->error, v->size);
}

static int set_group_gpus(const struct value *v)
{
	return names_add_rule(v->member, v->text, v->error, v->size);
}

enum { COUNT_MAX = 65536 };

#define MEMBER(m) offsetof(struct config, m)
#define TEXT(m) MEMBER(m), sizeof(((struct config *)NULL)->m)

static const struct key keys[] = {
	{ "socket", set_text, TEXT(socket) },
	{ "user", set_text, TEXT(user) },
	{ "allow-users", set_users, MEMBER(policy.allow) },
	{ "allow-groups", set_allow_groups, MEMBER(policy) },
	{ "group-gpus", set_group_gpus, MEMBER(policy) },
	{ "device-users", set_users, MEMBER(policy.device) },
	{ "device-groups", set_groups, MEMBER(policy.device) },
	{ "operator-captures", set_switch, MEMBER(policy.operator_captures) },
	{ "operator-groups", set_groups, MEMBER(policy.operators) },
	{ "monitor-users", set_users, MEMBER(policy.monitor) },
	{ "metric-labels", set_labels, MEMBER(labels) },
	{ "job-owners", set_switch, MEMBER(policy.job_owners) },
	{ "sharing", set_sharing, MEMBER(shared) },
	{ "lease-max", set_time, MEMBER(lease_max_ns) },
	{ "queue", set_number, MEMBER(queue_max), COUNT_MAX },
	{ "connections", set_number, MEMBER(connections_max), COUNT_MAX },
	{ "connections-per-user", set_number, MEMBER(connections_per_user), COUNT_MAX },
	{ "captures-per-user", set_number, MEMBER(captures_per_user), COUNT_MAX },
	{ "registered", set_number, MEMBER(registered_max), COUNT_MAX },
	{ "registered-per-user", set_number, MEMBER(registered_per_user), COUNT_MAX },
	{ "captures-per-minute", set_number, MEMBER(captures_per_minute), CONFIG_RATE_MAX },
	{ "permissions-per-minute", set_number, MEMBER(permissions_per_minute), CONFIG_RATE_MAX },
	{ "questions-per-minute", set_number, MEMBER(questions_per_minute), CONFIG_RATE_MAX },
	{ "audit-file", set_path, TEXT(audit_file) },
	{ "log-level", set_level, MEMBER(log_level) },
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

/* Returns as names_add_*(): positive if names were left out; also CONFIG_E_UNIT. */
static int set(struct config *c, const char *key, const char *value, char *error, size_t size)
{
	error[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, key) == 0) {
			return keys[i].set(&(struct value){ value, (char *)c + keys[i].offset,
							    keys[i].limit, error, size });
		}
	}
	return refuse_unknown(key, error, size);
}

/* Logs a warning for a positive result. Unknown names only cause a warning: if the daemon did not
 * start because of one name, the other users could not measure. */
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
	/* After a read error the defaults must not be used, because they may allow more than the
	 * file. */
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
