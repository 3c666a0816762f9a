/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/mman.h>
#include <syslog.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "daemon/config/config.h"

static int set(struct config *c, const char *key, const char *value)
{
	char error[512] = "";
	int r = config_set(c, key, value, error, sizeof(error));

	assert_true((r < 0) == (error[0] != '\0'));
	return r;
}

/* Writes text to a file and loads it. */
static int load(struct config *c, const char *text, char *error, size_t size)
{
	char path[] = "/tmp/test_config.XXXXXX";
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	r = config_load(c, path, getuid(), error, size);
	unlink(path);
	return r;
}

TEST(defaults_are_safe)
{
	struct config c;

	config_init(&c);
	assert_false(c.shared);
	assert_false(c.policy.allow.everybody);
	assert_int_equal(c.policy.allow.n_uids + c.policy.allow.n_gids, 0);
	assert_int_equal(c.lease_max_ns, 3600 * CLOCK_NS_PER_S);
	assert_int_equal(c.connections_per_user, 64);
	assert_int_equal(c.connections_max, 1024);
	assert_int_equal(c.captures_per_user, 8);
	assert_true(c.registered_per_user < c.registered_max / 2);
	assert_false(c.policy.operator_captures);
	assert_false(c.policy.job_owners);
}

TEST(every_key_is_read)
{
	char error[512] = "";
	struct config c;

	config_init(&c);
	assert_int_equal(load(&c,
			      "# a comment\n"
			      "\n"
			      "  socket = /tmp/x.sock  \n"
			      "user=nobody\n"
			      "allow-users = root, 4711\t012\n"
			      "allow-groups = root 77\n"
			      "lease-max = 2min\n"
			      "sharing = shared\n"
			      "queue = 3\n"
			      "connections = 65536\n"
			      "connections-per-user = 5\n"
			      "captures-per-user = 6\n"
			      "captures-per-minute = 7\n"
			      "permissions-per-minute = 8\n"
			      "questions-per-minute = 9\n"
			      "group-gpus = root 0, 3 GPU-abc\n"
			      "group-gpus = 88 1\n"
			      "device-users = 4712\n"
			      "device-groups = 78 79\n"
			      "monitor-users = 4713\n"
			      "metric-labels = user, job\n"
			      "job-owners = yes\n"
			      "operator-captures = yes\n"
			      "operator-groups = 80, root\n"
			      "registered = 300\n"
			      "registered-per-user = 30\n"
			      "audit-file = /var/log/x\n"
			      "log-level = debug",
			      error, sizeof(error)),
			 0);
	assert_string_equal(error, "");
	assert_string_equal(c.socket, "/tmp/x.sock");
	assert_string_equal(c.user, "nobody");
	assert_int_equal(c.policy.allow.n_uids, 3);
	assert_int_equal(c.policy.allow.uids[0], 0);
	assert_int_equal(c.policy.allow.uids[1], 4711);
	assert_int_equal(c.policy.allow.uids[2], 12);
	assert_int_equal(c.policy.allow.n_gids, 2);
	assert_int_equal(c.policy.allow.gids[1], 77);
	assert_string_equal(c.policy.groups_text, "root or 77 or root or 88");
	assert_int_equal(c.policy.n_rules, 2);
	assert_int_equal(c.policy.rules[0].gid, 0);
	assert_int_equal(c.policy.rules[0].n_gpus, 3);
	assert_string_equal(c.policy.rules[0].gpus[1], "3");
	assert_string_equal(c.policy.rules[0].gpus[2], "GPU-abc");
	assert_int_equal(c.policy.rules[1].gid, 88);
	assert_int_equal(c.policy.device.uids[0], 4712);
	assert_int_equal(c.policy.device.gids[1], 79);
	assert_int_equal(c.policy.monitor.n_uids, 1);
	assert_int_equal(c.policy.monitor.uids[0], 4713);
	assert_true(c.labels.users);
	assert_true(c.labels.jobs);
	assert_true(c.policy.job_owners);
	assert_true(c.policy.operator_captures);
	assert_int_equal(c.policy.operators.n_gids, 2);
	assert_int_equal(c.policy.operators.gids[0], 80);
	assert_int_equal(c.policy.operators.gids[1], 0);
	assert_int_equal(c.policy.operators.n_uids, 0);
	assert_int_equal(c.registered_max, 300);
	assert_int_equal(c.registered_per_user, 30);
	assert_string_equal(c.audit_file, "/var/log/x");
	assert_int_equal(c.captures_per_minute, 7);
	assert_int_equal(c.permissions_per_minute, 8);
	assert_int_equal(c.questions_per_minute, 9);
	assert_int_equal(c.lease_max_ns, 120 * CLOCK_NS_PER_S);
	assert_true(c.shared);
	assert_int_equal(c.queue_max, 3);
	assert_int_equal(c.connections_max, 65536);
	assert_int_equal(c.connections_per_user, 5);
	assert_int_equal(c.captures_per_user, 6);
	assert_int_equal(c.log_level, LOG_DEBUG);
}

TEST(everybody_is_a_star)
{
	struct config c;

	config_init(&c);
	assert_int_equal(set(&c, "allow-users", "*"), 0);
	assert_true(c.policy.allow.everybody);
}

TEST(labels_are_named_one_by_one)
{
	static const struct {
		const char *value;
		bool users, jobs;
	} cases[] = { { "user", true, false },	{ "none", false, false },
		      { "job", false, true },	{ "job, user", true, true },
		      { "none", false, false }, { "user,job", true, true } };
	struct config c;

	config_init(&c);
	assert_false(c.labels.users || c.labels.jobs);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(set(&c, "metric-labels", cases[i].value), 0);
		assert_int_equal(c.labels.users, cases[i].users);
		assert_int_equal(c.labels.jobs, cases[i].jobs);
	}
}

TEST(wrong_values_are_refused)
{
	static const char *const wrong[][2] = {
		{ "lease-max", "0" },
		{ "lease-max", "" },
		{ "lease-max", "-1" },
		{ "lease-max", "10 min" },
		{ "lease-max", "61min" },
		{ "lease-max", "2h" },
		{ "lease-max", "3601" },
		{ "lease-max", "18446744073709551616" },
		{ "lease-max", "307445734561825861min" }, /* 44 s, were it to wrap */
		{ "lease-max", "1e3" },
		{ "lease-max", "ten" },
		{ "lease-max", "1d" },
		{ "queue", "0" },
		{ "queue", "-3" },
		{ "queue", "65537" },
		{ "queue", "3x" },
		{ "queue", "" },
		{ "connections", "99999999999999999999" },
		{ "connections-per-user", "many" },
		{ "captures-per-user", " " },
		{ "log-level", "loud" },
		{ "log-level", "" },
		{ "sharing", "yes" },
		{ "sharing", "" },
		{ "allow-users", "no-such-user-here, -1" },
		{ "allow-users", "-1" },
		{ "allow-users", "4294967295" }, /* nobody's, to the kernel */
		{ "allow-users", "4294967296" },
		{ "allow-users", "0x10" },
		{ "allow-groups", "-1" },
		{ "allow-groups", "4294967295" },
		{ "allow-groups", "4294967296" },
		{ "device-groups", "0x10" },
		{ "group-gpus", "" },
		{ "group-gpus", "root" },
		{ "group-gpus", "root gpu0" },
		{ "group-gpus", "root 64" },
		{ "group-gpus", "root 01" },
		{ "group-gpus", "root -1" },
		{ "group-gpus", "no-such-group-here gpu0" },
		{ "group-gpus", "root GPU-0123456789012345678901234567890123456789012345" },
		{ "monitor-users", "-1" },
		{ "metric-labels", "" },
		{ "metric-labels", "uid" },
		{ "job-owners", "maybe" },
		{ "operator-captures", "" },
		{ "operator-captures", "root" },
		{ "operator-groups", "*" },
		{ "registered", "0" },
		{ "registered-per-user", "65537" },
		{ "audit-file", "relative/path" },
		{ "captures-per-minute", "0" },
		{ "permissions-per-minute", "10000001" },
		{ "colour", "red" },
		{ "", "x" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct config c, untouched;

		config_init(&c);
		config_init(&untouched);
		if (set(&c, wrong[i][0], wrong[i][1]) != -EINVAL) {
			fail_msg("%s = '%s' was taken", wrong[i][0], wrong[i][1]);
		}
		assert_int_equal(c.lease_max_ns, untouched.lease_max_ns);
		assert_int_equal(c.queue_max, untouched.queue_max);
		assert_false(c.policy.allow.everybody);
	}
}

TEST(times_have_units)
{
	static const struct {
		const char *text;
		unsigned seconds;
	} times[] = { { "1", 1 },     { "90s", 90 },  { "10min", 600 },
		      { "10m", 600 }, { "1h", 3600 }, { "60min", 3600 } };

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct config c;

		config_init(&c);
		assert_int_equal(set(&c, "lease-max", times[i].text), 0);
		assert_int_equal(c.lease_max_ns, times[i].seconds * CLOCK_NS_PER_S);
	}
}

/* Sets key to value, and returns what was logged meanwhile. */
static const char *log_of(const char *key, const char *value)
{
	static char text[512];
	int before = dup(STDERR_FILENO), fd = memfd_create("log", 0);
	struct config c;
	ssize_t n;

	config_init(&c);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(set(&c, key, value), 0);
	dup2(before, STDERR_FILENO);
	close(before);
	n = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* Who means minutes and forgets to say so is told what was understood. */
TEST(a_time_without_a_unit_is_named)
{
	const char *text = log_of("lease-max", "10");

	assert_non_null(strstr(text, "lease-max"));
	assert_non_null(strstr(text, "'10' has no unit and is taken for seconds; write 10s, or "
				     "10min for minutes"));
	assert_null(strstr(text, "left out"));
	assert_string_equal(log_of("lease-max", "10s"), "");
	assert_string_equal(log_of("lease-max", "10min"), "");
	assert_string_equal(log_of("queue", "10"), "");
}

TEST(the_last_word_about_sharing_counts)
{
	struct config c;

	config_init(&c);
	assert_int_equal(set(&c, "sharing", "shared"), 0);
	assert_true(c.shared);
	assert_int_equal(set(&c, "sharing", "exclusive"), 0);
	assert_false(c.shared);
}

TEST(long_values_are_refused_not_cut)
{
	struct config c;
	char path[200];

	config_init(&c);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(set(&c, "socket", path), -EINVAL);
	path[sizeof(c.socket)] = '\0';
	assert_int_equal(set(&c, "socket", path), -EINVAL);
	path[sizeof(c.socket) - 1] = '\0';
	assert_int_equal(set(&c, "socket", path), 0);
	assert_string_equal(c.socket, path);
	path[sizeof(c.user)] = '\0';
	assert_int_equal(set(&c, "user", path), -EINVAL);
}

TEST(lists_have_a_limit)
{
	char list[POLICY_NAMES_MAX * 5 + 10] = "";
	struct config c;

	for (int i = 0; i <= POLICY_NAMES_MAX; i++) {
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%d ", 1000 + i);
	}
	config_init(&c);
	assert_int_equal(set(&c, "allow-users", list), -EINVAL);
	assert_int_equal(c.policy.allow.n_uids, POLICY_NAMES_MAX);
	assert_int_equal(set(&c, "allow-groups", list), -EINVAL);
	assert_int_equal(c.policy.allow.n_gids, POLICY_NAMES_MAX);
}

TEST(rules_have_a_limit)
{
	char rule[POLICY_RULE_GPUS_MAX * 3 + 16] = "7", uuid[8 + POLICY_GPU_BYTES];
	struct config c;

	config_init(&c);
	for (int i = 0; i < POLICY_RULE_GPUS_MAX; i++) {
		snprintf(rule + strlen(rule), sizeof(rule) - strlen(rule), " %d", i);
	}
	for (int i = 0; i < POLICY_RULES_MAX - 1; i++) {
		assert_int_equal(set(&c, "group-gpus", rule), 0);
	}
	assert_int_equal(c.policy.rules[0].n_gpus, POLICY_RULE_GPUS_MAX);
	snprintf(rule + strlen(rule), sizeof(rule) - strlen(rule), " %d", POLICY_RULE_GPUS_MAX);
	assert_int_equal(set(&c, "group-gpus", rule), -EINVAL);
	assert_int_equal(c.policy.n_rules, POLICY_RULES_MAX - 1);

	snprintf(uuid, sizeof(uuid), "7 GPU-%0*d", POLICY_GPU_BYTES - 4, 1);
	assert_int_equal(set(&c, "group-gpus", uuid), -EINVAL);
	uuid[strlen(uuid) - 1] = '\0'; /* as long as may be */
	assert_int_equal(set(&c, "group-gpus", uuid), 0);
	assert_string_equal(c.policy.rules[POLICY_RULES_MAX - 1].gpus[0], uuid + 2);
	assert_int_equal(set(&c, "group-gpus", "7 1"), -EINVAL);
	assert_int_equal(c.policy.n_rules, POLICY_RULES_MAX);
}

TEST(errors_name_line_and_key)
{
	static const struct {
		const char *text, *line, *what;
	} wrong[] = {
		{ "lease-max = 10\nqueue = none\n", ":2: ", "'none'" },
		{ "# first\n\ncolour = red\n", ":3: ", "colour" },
		{ "just words", ":1: ", "just words" },
		{ "allow-groups = no-such-group-here, 1x\n", ":1: ", "'1x'" },
		{ "log-level = loud\n", ":1: ", "loud" },
		{ "\n\n\nlease-max = never\n", ":4: ", "never" },
		{ "= 5\n", ":1: ", "unknown key ''" },
		{ "lease = 10min\n", ":1: ", "unknown key 'lease'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char error[768] = "";
		struct config c;

		config_init(&c);
		assert_int_equal(load(&c, wrong[i].text, error, sizeof(error)), -EINVAL);
		assert_non_null(strstr(error, "/tmp/test_config."));
		assert_non_null(strstr(error, wrong[i].line));
		assert_non_null(strstr(error, wrong[i].what));
	}
}

/* What the log says while text is loaded, which must be accepted. */
static char *heard_while_loading(struct config *c, const char *text)
{
	char error[768] = "", *said = calloc(1, 2048);
	int ends[2], before = dup(STDERR_FILENO);

	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	config_init(c);
	assert_int_equal(load(c, text, error, sizeof(error)), 0);
	dup2(before, STDERR_FILENO);
	close(before);
	close(ends[1]);
	assert_true(read(ends[0], said, 2047) >= 0);
	close(ends[0]);
	assert_string_equal(error, "");
	return said;
}

/* A user who has left takes nobody else's permission along, and gets none. */
TEST(names_that_nobody_has_are_left_out)
{
	static const char *const lists[] = { "allow-users",   "allow-groups",	 "device-users",
					     "device-groups", "operator-groups", "monitor-users" };
	struct config c;
	char text[128];

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		CLEAN_FREE char *said = NULL;

		snprintf(text, sizeof(text), "# first\n%s = 4711, no-such_one, 4712 nor_this\n",
			 lists[i]);
		said = heard_while_loading(&c, text);
		assert_non_null(strstr(said, ":2: "));
		assert_non_null(strstr(said, lists[i]));
		assert_non_null(strstr(said, "'no-such_one', 'nor_this'"));
		assert_int_equal(c.policy.allow.n_uids + c.policy.allow.n_gids +
					 c.policy.device.n_uids + c.policy.device.n_gids +
					 c.policy.operators.n_gids + c.policy.monitor.n_uids,
				 2);
	}
}

TEST(a_rule_of_a_group_that_is_gone_is_left_out)
{
	CLEAN_FREE char *said = NULL;
	struct config c;

	said = heard_while_loading(&c, "group-gpus = no-such-group 0\ngroup-gpus = 88 1\n");
	assert_non_null(strstr(said, ":1: group-gpus: there is no group 'no-such-group'"));
	assert_int_equal(c.policy.n_rules, 1);
	assert_int_equal(c.policy.rules[0].gid, 88);
	assert_string_equal(c.policy.groups_text, "88");
}

TEST(an_unknown_key_is_told_what_was_meant)
{
	static const char *const slips[][2] = {
		{ "alow-users", "allow-users" },
		{ "allow_groups", "allow-groups" },
		{ "lease-maximum", "lease-max" },
		{ "registred", "registered" },
		{ "Queue", "queue" },
	};
	struct config c;
	char error[1024], meant[64];

	config_init(&c);
	for (size_t i = 0; i < ARRAY_SIZE(slips); i++) {
		snprintf(meant, sizeof(meant), "did you mean '%s'?", slips[i][1]);
		assert_int_equal(config_set(&c, slips[i][0], "1", error, sizeof(error)), -EINVAL);
		assert_non_null(strstr(error, meant));
	}
	assert_int_equal(config_set(&c, "colour", "1", error, sizeof(error)), -EINVAL);
	assert_null(strstr(error, "did you mean"));
	assert_non_null(strstr(error, "known are socket, "));
}

TEST(a_missing_file_is_told_apart)
{
	char error[768];
	struct config c;

	config_init(&c);
	assert_int_equal(config_load(&c, "/nonexistent/gpucountd.conf", 0, error, sizeof(error)),
			 -ENOENT);
	assert_non_null(strstr(error, "/nonexistent/gpucountd.conf"));
}

TEST(a_file_that_cannot_be_read_is_not_an_empty_one)
{
	char error[768];
	struct config c;

	config_init(&c);
	assert_int_equal(config_load(&c, "/", getuid(), error, sizeof(error)), -EISDIR);
	assert_non_null(strstr(error, "/ cannot be read: "));
}
