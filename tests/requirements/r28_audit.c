/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/requirement.h"
#include "tests/system/fixture.h"

#include <signal.h>

/* R28: the audit log is complete. A load of captures, refusals and killed processes; then its lines
 * are read as a story, which must be possible, and compared with what the fake driver saw. */

enum { CAPTURES_MAX = 100000 };

struct story {
	bool open[CAPTURES_MAX]; /* leases */
	size_t granted, ended, permissions, refused_permissions, refusals, starts;
	size_t nonsense; /* lines that cannot be true after those before */
};

static bool has(const char *line, const char *text)
{
	return strstr(line, text) != NULL;
}

static size_t capture_of(const char *line)
{
	const char *at = strstr(line, "\"capture\":");
	size_t id = at ? strtoul(at + strlen("\"capture\":"), NULL, 10) : 0;

	return id < CAPTURES_MAX ? id : 0;
}

static void begin_anew(struct story *s)
{
	memset(s->open, 0, sizeof(s->open));
	s->starts++;
}

static void read_line(struct story *s, const char *line)
{
	size_t id = capture_of(line);

	if (has(line, "\"event\":\"started\"")) {
		begin_anew(s);
	} else if (has(line, "\"event\":\"lease-granted\"")) {
		s->nonsense += id == 0 || s->open[id];
		s->open[id] = true;
		s->granted++;
	} else if (has(line, "\"event\":\"lease-ended\"") ||
		   has(line, "\"event\":\"lease-expired\"") ||
		   has(line, "\"event\":\"lease-revoked\"")) {
		s->nonsense += !s->open[id];
		s->open[id] = false;
		s->ended++;
	} else if (has(line, "\"event\":\"permission-granted\"")) {
		s->nonsense += !s->open[id];
		s->permissions++;
	} else if (has(line, "\"event\":\"permission-refused\"")) {
		s->refused_permissions++;
	} else if (has(line, "\"event\":\"refused\"")) {
		s->refusals++;
	} else {
		s->nonsense++;
	}
}

static void read_story(struct story *s, const char *path)
{
	CLEAN_FREE char *text = read_file(path);
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")) != NULL) {
		if (*line) {
			read_line(s, line);
		}
	}
	for (size_t i = 0; i < CAPTURES_MAX; i++) {
		s->nonsense += s->open[i];
	}
}

static struct program *measure(struct fixture *f, int uid, const char *kernels)
{
	return fixture_client(f, uid, "--metrics", "memory", "--", FAKEAPP, "--kernels", kernels,
			      "--sleep-us", "300", NULL);
}

/* One of each kind, and a permit. */
static void play_round(struct fixture *f, size_t round)
{
	static const char *const victims[] = { "front", "granter", "gpu", "planner" };
	struct program *a = measure(f, USER_ANN, "40"), *b = measure(f, USER_BOB, "40");
	struct program *c = fixture_client(f, round % 3 == 0 ? USER_ANN : USER_BOB, "permit", "--",
					   TEST_FAKEPROFILER, "--rounds", "3", NULL);

	expect_exit(fixture_client(f, USER_ANN, "--metrics", "no_such__metric.sum", "--", FAKEAPP,
				   NULL),
		    125);
	if (round % 2 == 1) {
		kill(fixture_worker(f, victims[round / 2 % ARRAY_SIZE(victims)]), SIGKILL);
	} else if (round % 4 == 2) {
		program_kill(a, SIGKILL); /* the client; its program runs on */
	}
	program_wait(a);
	program_wait(b);
	program_wait(c);
	fixture_forget_programs(f, 1); /* but the daemon's */
	expect_service_soon(f, PATIENCE_MS);
}

SYSTEM_TEST(the_audit_log_tells_all_that_the_driver_did)
{
	struct fixture *f = *state;
	size_t rounds = requirement_amount(12, 600), kills = 0, grants;
	static struct story s;
	char setting[160], path[96];

	fixture_need_root();
	f->violations_expected = true; /* objects go under CUPTI's feet */
	snprintf(path, sizeof(path), "%s", fixture_path(f, "audit"));
	snprintf(setting, sizeof(setting), "audit-file=%s", path);
	fixture_start_daemon(f, "--set", setting, NULL);
	for (size_t i = 0; i < rounds; i++) {
		play_round(f, i);
		kills += i % 2 == 1;
		/* Ten replacements within a minute end the daemon; CI's are fewer. */
		sleep_ms(i % 2 == 1 ? (unsigned)requirement_amount(100, 6500) : 0);
	}
	expect_no_owner(f);
	fixture_stop_daemon(f);
	read_story(&s, path);
	grants = fixture_counter(f, "profiler_granted");

	requirement_figure("R28",
			   "%zu rounds, %zu processes of the daemon killed: %zu leases granted, "
			   "%zu ended, %zu starts; the driver made %zu objects, the log has %zu "
			   "permissions of which %zu refused; %zu lines that cannot be true",
			   rounds, kills, s.granted, s.ended, s.starts, grants, s.permissions,
			   s.refused_permissions, s.nonsense);
	assert_int_equal(s.nonsense, 0);
	assert_true(s.granted > rounds);
	assert_true(s.refusals >= rounds);
	/* A line is written before the driver is asked, so a kill between leaves one too many. */
	assert_in_range(s.permissions, grants, grants + s.refused_permissions + 2 * kills);
}
