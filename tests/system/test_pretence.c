/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/standby.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/raw.h"

/* Programs in standby that pretend: what they say of themselves harms nobody who reads it, chooses
 * nothing that is another's, and who says nothing at all holds nobody up. */

#define OPERATOR "operator-captures=yes", "--set", "sharing=shared"

static const char evil_name[] = "\x1b]0;owned\x07\x1b[2J\r\n{\"pid\":1}\t\"<b>%n\xe2\x80\xae";

static struct standby_agent register_as(struct fixture *f, int uid, const char *program, size_t n,
					const char *const *claims)
{
	const struct wire_message hello = {
		.type = WIRE_AGENT_HELLO,
		.agent_hello = { .version = PROTO_VERSION,
				 .program = program,
				 .claims = { n, claims } },
	};
	struct standby_agent a = { .fd = raw_connect(f, uid) };
	struct wire_message m;

	assert_true(raw_send(a.fd, &hello, -1));
	m = standby_receive(a.fd);
	assert_int_equal(m.type, WIRE_AGENT_REGISTERED);
	a.id = m.agent_registered.process;
	return a;
}

static struct standby_agent register_evil(struct fixture *f, int uid)
{
	static const char *const claims[] = { "SLURM_JOB_ID=47\x1b[2J\n11",
					      "SLURM_STEP_ID=\x7f",
					      "RANK=../../../tmp/rank",
					      "PID=1",
					      "no equals sign",
					      "=\n",
					      "" };

	return register_as(f, uid, evil_name, ARRAY_SIZE(claims), claims);
}

/* No text of ours has any of what moves a cursor or begins a line that is not ours. */
static void expect_harmless(const char *path)
{
	char *text = read_file(path);

	assert_non_null(text);
	for (const char *p = text; *p; p++) {
		if ((unsigned char)*p < ' ' && *p != '\n') {
			fail_msg("byte %d in %s", *p, path);
		}
	}
	assert_null(strstr(text, "\xe2\x80\xae")); /* it would turn the rest of the line around */
	assert_null(strstr(text, "\n{\"pid\":1}"));
	free(text);
}

static struct program *expect_harmless_run(struct program *p, int status)
{
	expect_exit(p, status);
	expect_harmless(p->out);
	expect_harmless(p->err);
	return p;
}

#define FIXTURE_TEST(f) TEST_WITH(f, standby_setup, standby_teardown)

FIXTURE_TEST(what_they_say_is_shown_as_text)
{
	static const char parse[] = "import json, sys; "
				    "l = json.load(open(sys.argv[1]))['processes']; "
				    "assert len(l) == 1; "
				    "assert l[0]['claims']['RANK'] == '../../../tmp/rank', l; "
				    "assert l[0]['program'][0] == "
				    "'\\x1b'";
	struct fixture *f = *state;
	struct standby_agent a;
	struct program *p;
	char *text, *line;

	fixture_need_no_thread_sanitizer(FOREIGN_PROGRAMS);
	fixture_start_daemon(f, "--set", OPERATOR, NULL);
	a = register_evil(f, USER_ANN);
	p = expect_harmless_run(fixture_client(f, USER_SELF, "status", NULL), 0);
	text = read_file(p->out);
	line = strstr(text, "\nprograms in standby\n");
	for (int i = 0; i < 4; i++) { /* a title, a head and a line */
		assert_non_null(line);
		line = strchr(line + 1, '\n');
	}
	assert_null(line);
	free(text);
	p = fixture_client(f, USER_SELF, "status", "--json", NULL);
	expect_harmless_run(p, 0);
	expect_exit(fixture_run(f, USER_SELF, "/usr/bin/python3", "-c", parse, p->out, NULL), 0);
	close(a.fd);
}

/* The file that an operator writes lies where the operator said. */
FIXTURE_TEST(what_they_say_leads_to_no_other_file)
{
	struct fixture *f = *state;
	struct standby_agent a;
	struct program *c;

	fixture_start_daemon(f, "--set", OPERATOR, NULL);
	a = register_evil(f, USER_ANN);
	c = fixture_client(f, USER_SELF, "capture", "--program", "*owned*", "--duration", "0.2",
			   "-o", fixture_path(f, "out/%j.%t.%r.gpuctr"), NULL);
	standby_expect_welcome(&a);
	close(a.fd);
	expect_harmless_run(c, 0);
	assert_int_equal(
		access(fixture_path(f, "out/47__2J_11._._.._.._tmp_rank._._.._.._tmp_rank.gpuctr"),
		       F_OK),
		0);
}

static void expect_kept(const char *path, const char *text)
{
	char *kept = read_file(path);

	assert_non_null(kept);
	assert_string_equal(kept, text);
	free(kept);
}

/* -f is the operator's, and the name another user's. Of the operator's own programs it holds. */
FIXTURE_TEST(another_users_rank_replaces_no_file)
{
	static const char *const ranks[] = { "RANK=8", "RANK=9" };
	struct fixture *f = *state;
	const char *theirs = fixture_path(f, "ranks/9.gpuctr");
	struct standby_agent agents[2];
	struct program *c;
	int fd;

	fixture_need_two_users();
	fixture_start_daemon(f, "--set", OPERATOR, NULL);
	assert_int_equal(mkdir(fixture_path(f, "ranks"), 0777), 0);
	fd = open(theirs, O_WRONLY | O_CREAT | O_EXCL, 0666);
	assert_int_equal(write(fd, "another's", 9), 9);
	close(fd);
	for (int own = 0; own < 2; own++) {
		for (int i = 0; i < 2; i++) {
			agents[i] =
				register_as(f, own ? USER_SELF : USER_ANN, "train", 1, &ranks[i]);
		}
		c = fixture_client(f, USER_SELF, "capture", "--program", "train", "-f", "-o",
				   fixture_path(f, "ranks/%r.gpuctr"), NULL);
		for (int i = 0; i < 2; i++) {
			standby_expect_welcome(&agents[i]);
			standby_goodbye(&agents[i], 0);
			close(agents[i].fd);
		}
		expect_harmless_run(c, own ? 0 : 125);
		assert_int_equal(access(fixture_path(f, "ranks/8.gpuctr"), F_OK), 0);
		if (own) {
			assert_int_equal(count_text(theirs, "SQLite format 3"), 1);
		} else {
			expect_message(c, "a process of another user chose that name");
			expect_kept(theirs, "another's");
			assert_int_equal(unlink(fixture_path(f, "ranks/8.gpuctr")), 0);
		}
	}
}

/* As two components of a heterogeneous job on one node: by their environment alone, without Slurm.
 */
FIXTURE_TEST(components_of_one_job_are_captured_together)
{
	static const char *const first[] = { "SLURM_JOB_ID=90", "SLURM_HET_JOB_ID=90",
					     "SLURM_PROCID=0" },
				 *const second[] = { "SLURM_JOB_ID=91", "SLURM_HET_JOB_ID=90",
						     "SLURM_PROCID=0" };
	struct fixture *f = *state;
	struct standby_agent a, b;
	struct program *c;

	fixture_start_daemon(f, "--set", "sharing=shared", NULL);
	a = register_as(f, USER_ANN, "first", ARRAY_SIZE(first), first);
	b = register_as(f, USER_ANN, "second", ARRAY_SIZE(second), second);
	c = fixture_client(f, USER_ANN, "capture", "--here", "--job", "90", "--duration", "0.2",
			   "-o", fixture_path(f, "het/%j.%t.gpuctr"), NULL);
	standby_expect_welcome(&a);
	standby_expect_welcome(&b);
	close(a.fd);
	close(b.fd);
	expect_exit(c, 0);
	assert_int_equal(access(fixture_path(f, "het/90.0.gpuctr"), F_OK), 0);
	assert_int_equal(access(fixture_path(f, "het/91.0.gpuctr"), F_OK), 0);
}

/* Logs and metrics are read by programs, and by administrators on terminals. */
FIXTURE_TEST(what_they_say_is_one_line_in_the_log)
{
	struct fixture *f = *state;
	struct standby_agent more;
	const struct wire_message hello = { .type = WIRE_AGENT_HELLO,
					    .agent_hello = { .version = PROTO_VERSION,
							     .program = evil_name } };
	const char *log = fixture_path(f, "audit.log");
	char setting[160];

	snprintf(setting, sizeof(setting), "audit-file=%s", log);
	fixture_need_root();
	fixture_start_daemon(f, "--set", "registered-per-user=1", "--set", setting, NULL);
	standby_register(f, USER_ANN);
	more.fd = raw_connect(f, USER_ANN);
	assert_true(raw_send(more.fd, &hello, -1));
	raw_expect_refused(more.fd, GPUCTR_E_QUOTA);
	expect_text_soon(log, "owned");
	expect_harmless(log);
	expect_text_soon(f->daemon->err, "owned");
	expect_harmless(f->daemon->err);
}

/* It has registered, and answers nothing. */
FIXTURE_TEST(who_never_answers_is_named_and_not_waited_for)
{
	struct fixture *f = *state;
	struct standby_agent a;
	struct program *c;

	fixture_start_daemon(f, "--set", "sharing=shared", NULL);
	a = standby_register(f, USER_ANN);
	c = fixture_client(f, USER_ANN, "capture", "--all", "--mode", "range", NULL);
	standby_expect_welcome(&a);
	expect_text_soon(c->err, "has not answered for 10 s");
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	expect_message(c, "Nothing was measured: no process answered.");
	raw_expect_closed(a.fd);
}
