/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/slurm/follower.h"
#include "client/slurm/settings.h"

/* The plugin of Slurm without Slurm: its words and options, and tasks that share a client, for
 * which a script stands. */

TEST(words_of_the_administrator)
{
	struct settings s;

	settings_init(&s);
	assert_int_equal(s.mode, SETTINGS_OFF);
	assert_null(settings_take_word(&s, "default=standby"));
	assert_int_equal(s.mode, SETTINGS_STANDBY);
	assert_null(settings_take_word(&s, "socket=/run/other/socket"));
	assert_string_equal(s.socket, "/run/other/socket");
	assert_null(settings_take_word(&s, "wait=5"));
	assert_null(settings_take_word(&s, "drain=0"));
	assert_int_equal(s.wait_s, 5);
	assert_int_equal(s.drain_s, 0);
	assert_non_null(settings_take_word(&s, "socket=relative"));
	assert_non_null(settings_take_word(&s, "wait=-1"));
	assert_non_null(settings_take_word(&s, "wait=1s"));
	assert_non_null(settings_take_word(&s, "default=measure"));
	assert_non_null(settings_take_word(&s, "sockets=/a"));
	assert_string_equal(s.socket, "/run/other/socket");
}

TEST(options_of_the_user)
{
	struct settings s;

	settings_init(&s);
	assert_null(settings_take_option(&s, SETTINGS_GPUCTR, "memory,sm__cycles_active.avg"));
	assert_int_equal(s.mode, SETTINGS_MEASURE);
	assert_null(settings_take_option(&s, SETTINGS_GPUCTR, "memory")); /* Slurm says it twice */
	assert_string_equal(s.metrics, "memory");
	assert_null(settings_take_option(&s, SETTINGS_OUTPUT, "%h%u%j%J%n%t%r%p%%"));
	assert_non_null(settings_take_option(&s, SETTINGS_OUTPUT, "%x"));
	assert_non_null(settings_take_option(&s, SETTINGS_OUTPUT, "%"));
	assert_non_null(settings_take_option(&s, SETTINGS_OUTPUT, ""));
	assert_non_null(settings_take_option(&s, SETTINGS_FILTER, NULL));
	assert_null(settings_take_option(&s, SETTINGS_GPUCTR, "off"));
	assert_int_equal(s.mode, SETTINGS_OFF);
	free(s.metrics);
	free(s.output);
}

/* --- tasks and their client ------------------------------------------------------------------ */

enum { TASKS = 8 };

static char folder[] = "/tmp/gpuctr-unit.XXXXXX", client[128];

/* ready=$3 until=$5, as the plugin's command line has them. */
static void write_client(const char *body)
{
	FILE *f = fopen(client, "w");

	assert_non_null(f);
	fprintf(f, "#!/bin/bash\nready=$3 until=$5\n%s\n", body);
	fclose(f);
	assert_int_equal(chmod(client, 0755), 0);
}

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder)) {
		return -1;
	}
	snprintf(client, sizeof(client), "%s/client", folder);
	return setenv("FOLDER", folder, 1);
}

static int remove_folder(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static size_t lines_of(const char *name)
{
	char path[256];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "r");
	for (int c; f && (c = fgetc(f)) != EOF;) {
		n += c == '\n';
	}
	if (f) {
		fclose(f);
	}
	return n;
}

/* What joining gave the tasks: how many had each result. */
struct outcome {
	unsigned results[FOLLOWER_FAILED + 1], firsts;
	bool drained;
};

static void be_task(struct follower *f, const struct settings *s, unsigned number, unsigned lists)
{
	char *argv[] = { (char *)"program", NULL };
	char gpus[16];
	struct follower_task task = { s, gpus, argv, environ };
	const char *variables = "";
	enum follower_result result;
	bool first;

	snprintf(gpus, sizeof(gpus), "%u", number % lists);
	result = follower_join(f, &task, &variables, &first);
	if (result == FOLLOWER_JOINED && strcmp(variables, "TOKEN=1") != 0) {
		_exit(100);
	}
	_exit((int)result * 2 + first);
}

static struct outcome run_tasks(const struct settings *s, unsigned lists)
{
	struct outcome o = { .firsts = 0 };
	struct follower *f = follower_open();
	int status;

	assert_non_null(f);
	for (unsigned i = 0; i < TASKS; i++) {
		if (fork() == 0) {
			be_task(f, s, i, lists);
		}
	}
	for (unsigned i = 0; i < TASKS; i++) {
		assert_true(wait(&status) > 0);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2 * (FOLLOWER_FAILED + 1));
		o.results[WEXITSTATUS(status) / 2]++;
		o.firsts += WEXITSTATUS(status) % 2;
	}
	o.drained = follower_close(f, s->drain_s);
	return o;
}

static struct settings test_settings(void)
{
	struct settings s;

	settings_init(&s);
	s.client = client;
	s.metrics = (char *)"memory";
	s.wait_s = 20;
	s.drain_s = 20;
	return s;
}

static const char serve[] = "echo start >>$FOLDER/log\n"
			    "printf 'TOKEN=1\\0' >&$ready\n"
			    "eval \"exec $ready>&-\"\n"
			    "cat <&$until\n"
			    "sleep 0.2\n"
			    "echo end >>$FOLDER/ended";

TEST(tasks_with_the_same_gpus_share_a_client)
{
	struct settings s = test_settings();
	struct outcome o;

	write_client(serve);
	o = run_tasks(&s, 1);
	assert_int_equal(o.results[FOLLOWER_JOINED], TASKS);
	assert_int_equal(o.firsts, 1);
	assert_int_equal(lines_of("log"), 1);
	assert_true(o.drained);
	assert_int_equal(lines_of("ended"), 1); /* and not sooner */
	o = run_tasks(&s, 4);
	assert_int_equal(o.results[FOLLOWER_JOINED], TASKS);
	assert_int_equal(o.firsts, 4);
	assert_int_equal(lines_of("log"), 5);
	assert_int_equal(lines_of("ended"), 5);
}

TEST(a_refusal_is_everybodys)
{
	struct settings s = test_settings();
	struct outcome o;

	write_client("exit 125");
	o = run_tasks(&s, 1);
	assert_int_equal(o.results[FOLLOWER_REFUSED], TASKS);
	assert_int_equal(o.firsts, 1);
	assert_true(o.drained);
}

TEST(nobody_waits_longer_than_asked)
{
	struct settings s = test_settings();
	struct outcome o;

	write_client("exec sleep 60");
	s.wait_s = 1;
	s.drain_s = 0;
	o = run_tasks(&s, 1);
	assert_int_equal(o.results[FOLLOWER_LATE], TASKS);
	assert_false(o.drained); /* and the client is told of as being there still */
}

/* A thread of slurmstepd that opens files while the captures are drained. */
struct opener {
	atomic_bool over;
	int fds[1000];
	size_t n;
};

static void *open_files(void *userdata)
{
	struct opener *o = userdata;

	while (!atomic_load(&o->over) && o->n < ARRAY_SIZE(o->fds)) {
		o->fds[o->n++] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		usleep(1000);
	}
	return NULL;
}

/* The number of a pipe that is closed is somebody else's from then on. */
TEST(no_file_of_others_is_closed)
{
	struct settings s = test_settings();
	struct opener o = { .n = 0 };
	struct follower *f = follower_open();
	pthread_t thread;
	int status;

	write_client(serve);
	assert_non_null(f);
	if (fork() == 0) {
		be_task(f, &s, 0, 1);
	}
	assert_true(wait(&status) > 0);
	assert_int_equal(pthread_create(&thread, NULL, open_files, &o), 0);
	assert_true(follower_close(f, s.drain_s));
	atomic_store(&o.over, true);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < o.n; i++) {
		assert_int_equal(close(o.fds[i]), 0); /* each once, so no number is there twice */
	}
}

TEST_GROUP(make_folder, remove_folder)
