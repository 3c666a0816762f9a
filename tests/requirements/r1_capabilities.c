/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <signal.h>

#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"

/* R1: no capability in the user's processes; granter and gpu hold exactly CAP_PERFMON, front and
 * planner none; no-new-privileges and seccomp are on. Looked at in /proc, for every thread of every
 * process, after each of a thousand grants. */

#define PERFMON (1ULL << 38)

enum { SECCOMP_FILTER = 2 };

struct powers {
	unsigned long long effective, permitted, inheritable, ambient;
	unsigned uid, no_new_privileges, seccomp;
};

struct expected {
	const char *name;
	pid_t pid;
	unsigned long long capabilities;
	int uid; /* -1: any but root */
	bool is_daemons, has_filter;
};

static unsigned long long field(const char *text, const char *name, int base)
{
	const char *at = strstr(text, name);

	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, base);
}

static struct powers read_powers(const char *path)
{
	CLEAN_FREE char *text = read_file(path);

	return (struct powers){
		.effective = field(text, "\nCapEff:", 16),
		.permitted = field(text, "\nCapPrm:", 16),
		.inheritable = field(text, "\nCapInh:", 16),
		.ambient = field(text, "\nCapAmb:", 16),
		.uid = (unsigned)field(text, "\nUid:", 10),
		.no_new_privileges = (unsigned)field(text, "\nNoNewPrivs:", 10),
		.seccomp = (unsigned)field(text, "\nSeccomp:", 10),
	};
}

static void expect_powers(const struct expected *e, const struct powers *p)
{
	bool right = p->effective == e->capabilities && p->permitted == e->capabilities &&
		     p->inheritable == 0 && p->ambient == 0;

	right = right && (e->uid < 0 ? p->uid != 0 : p->uid == (unsigned)e->uid);
	right = right && (!e->is_daemons || p->no_new_privileges == 1);
	/* A sanitizer needs more system calls than the filters give. */
	right = right &&
		(!e->has_filter || !requirement_times_count() || p->seccomp == SECCOMP_FILTER);
	if (!right) {
		fail_msg("%s: uid %u effective %llx permitted %llx inheritable %llx ambient %llx "
			 "no-new-privileges %u seccomp %u",
			 e->name, p->uid, p->effective, p->permitted, p->inheritable, p->ambient,
			 p->no_new_privileges, p->seccomp);
	}
}

/* How many threads were looked at. */
static size_t look_at(const struct expected *e)
{
	char path[64], status[400];
	struct dirent *entry;
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)e->pid);
	d = opendir(path);
	assert_non_null(d);
	while ((entry = readdir(d)) != NULL) {
		struct powers p;

		snprintf(status, sizeof(status), "%s/%s/status", path, entry->d_name);
		if (entry->d_name[0] != '.') {
			p = read_powers(status);
			expect_powers(e, &p);
			n++;
		}
	}
	closedir(d);
	return n;
}

/* Of this variable, "NAME=". */
static void read_token(pid_t pid, const char *name, char *token, size_t size)
{
	char path[64], *entry = NULL;
	size_t room = 0;
	CLEAN_FILE FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	token[0] = '\0';
	while (getdelim(&entry, &room, '\0', f) > 0) {
		if (strncmp(entry, name, strlen(name)) == 0) {
			snprintf(token, size, "%s", entry + strlen(name));
		}
	}
	free(entry);
	assert_true(token[0] != '\0');
}

/* Grants to the client's program, and a look at all processes after each. Returns how many looks.
 */
static size_t look_at_grants(struct fixture *f, struct program *client, const char *token,
			     size_t grants)
{
	CLEAN_FD int device = raw_control_device();
	pid_t program = fixture_child(client);
	size_t looks = 0;
	const struct expected all[] = {
		{ "supervisor", f->daemon->pid, PERFMON, -1, true, false },
		{ "granter", fixture_worker(f, "granter"), PERFMON, -1, true, true },
		{ "gpu", fixture_worker(f, "gpu"), PERFMON, -1, true, true },
		{ "planner", fixture_worker(f, "planner"), 0, -1, true, true },
		{ "front", fixture_worker(f, "front"), 0, -1, true, true },
		{ "client", client->pid, 0, USER_ANN, false, false },
		{ "program", program, 0, USER_ANN, false, false },
	};
	for (size_t i = 0; i < grants; i++) {
		const struct wire_message ask =
			raw_permission(token, 0xc1d00001, 0x5c100000 + (uint32_t)i);

		assert_true(raw_ask_patiently(f, USER_ANN, &ask, device).granted);
		for (size_t k = 0; k < ARRAY_SIZE(all); k++) {
			looks += look_at(&all[k]);
		}
	}
	return looks;
}

SYSTEM_TEST(every_process_may_only_what_it_must)
{
	size_t grants = requirement_amount(1000, 1000), looks;
	struct fixture *f = *state;
	struct program *client;
	char token[64];

	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--hold",
				"middle", "--exit", "7", NULL);
	fixture_wait_held(f, 1);
	read_token(fixture_child(client), "GPUCTR_TOKEN=", token, sizeof(token));
	looks = look_at_grants(f, client, token, grants);
	f->violations_expected = true; /* so many objects cost the program its own */
	fixture_release(f);
	expect_exit(client, 7);
	expect_output(client, "done 10\n");
	requirement_figure("R1",
			   "%zu grants, %zu looks at threads of 7 processes: none holds more "
			   "than it must",
			   grants, looks);
}

/* The profiler is the user's, and so are its powers. */
SYSTEM_TEST(under_a_permit_too)
{
	size_t grants = requirement_amount(200, 1000), looks;
	struct fixture *f = *state;
	struct program *client;
	char token[64];

	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "permit", "--", TEST_FAKEPROFILER, NULL);
	expect_text_soon(client->out, "counters\n");
	read_token(fixture_child(client), "GPUCTR_PERMIT=", token, sizeof(token));
	looks = look_at_grants(f, client, token, grants);
	f->violations_expected = true;
	kill(fixture_child(client), SIGTERM);
	expect_exit(client, 7);
	requirement_figure("R1",
			   "a permit, %zu grants, %zu looks at threads of 7 processes: none holds "
			   "more than it must",
			   grants, looks);
}
