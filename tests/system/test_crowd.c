/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/standby.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "tests/system/raw.h"

/* Programs in standby that crowd the registry: they cost others no more than their share. */

enum { CROWD = 1500, SUBORDINATE_UID = 100000 };

static void open_many(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max < 4 * CROWD || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		fixture_skip("not as many descriptors may be open");
	}
}

/* It says as much of its job as it may. */
static struct standby_agent register_talkative(struct fixture *f, int uid)
{
	char text[201];
	const char *claims[] = { text, text, text, text, text };
	const struct wire_message hello = {
		.type = WIRE_AGENT_HELLO,
		.agent_hello = { .version = PROTO_VERSION,
				 .program = "python3",
				 .claims = { ARRAY_SIZE(claims), claims } },
	};
	struct standby_agent a = { .fd = raw_connect(f, uid) };
	struct wire_message m;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	text[3] = '=';
	assert_true(raw_send(a.fd, &hello, -1));
	m = standby_receive(a.fd);
	assert_int_equal(m.type, WIRE_AGENT_REGISTERED);
	a.id = m.agent_registered.process;
	return a;
}

static void wait_for_file(struct fixture *f, const char *name)
{
	wait_until(access(fixture_path(f, name), F_OK) == 0);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* The quickest of several, which no neighbour has slowed. */
static uint64_t quickest_list_us(int client, size_t expected)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t begin = now_us(), took;

		assert_int_equal(standby_count(client), expected);
		took = now_us() - begin;
		best = took < best ? took : best;
	}
	return best;
}

#define FIXTURE_TEST(f) TEST_WITH(f, standby_setup, standby_teardown)

/* A container has as many uids as it likes, and names stand in a file. */
FIXTURE_TEST(many_users_are_listed_as_quickly_as_one)
{
	static struct standby_agent a[2 * CROWD];
	struct fixture *f = *state;
	uint64_t one, many;
	int root;

	fixture_need_two_users();
	open_many();
	fixture_start_daemon(f, NULL);
	root = raw_client(f, USER_SELF);
	for (size_t i = 0; i < CROWD; i++) {
		a[i] = standby_register(f, USER_ANN);
	}
	one = quickest_list_us(root, CROWD);
	for (size_t i = 0; i < CROWD; i++) {
		close(a[i].fd);
		a[CROWD + i] = standby_register(f, SUBORDINATE_UID + (int)i);
	}
	wait_until(standby_count(root) == CROWD);
	many = quickest_list_us(root, CROWD);
	for (int i = 0; i < 5 && many >= 10 * one; i++) {
		many = quickest_list_us(root, CROWD);
	}
	print_message("%d programs of one user %llu us, of as many users %llu us\n", CROWD,
		      (unsigned long long)one, (unsigned long long)many);
	assert_true(many < 10 * one);
	for (size_t i = 0; i < CROWD; i++) {
		close(a[CROWD + i].fd);
	}
	close(root);
}

/* A list of mine is long, and I ask on many connections and read none. */
static pid_t ask_without_reading(struct fixture *f, int uid)
{
	const struct wire_message q = { .type = WIRE_PROCESSES_REQUEST,
					.processes_request = { 9, 0 } };
	pid_t pid = fork();
	int asking[32];

	if (pid != 0) {
		return pid;
	}
	closefrom(3); /* the programs are the parent's */
	for (size_t i = 0; i < ARRAY_SIZE(asking); i++) {
		asking[i] = raw_client(f, uid);
		assert_true(raw_send(asking[i], &q, -1));
		assert_true(raw_send(asking[i], &q, -1));
	}
	assert_int_equal(access(fixture_path(f, "asked"), F_OK), -1);
	close(open(fixture_path(f, "asked"), O_WRONLY | O_CREAT, 0666));
	for (;;) {
		pause();
	}
}

/* The whole of a long list is far more than a user may have waiting in so many places. */
FIXTURE_TEST(lists_that_nobody_reads_hold_little)
{
	static struct standby_agent a[CROWD];
	struct fixture *f = *state;
	struct gpuctr_registered_process p;
	int client, other;
	pid_t pid;

	open_many();
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < CROWD; i++) {
		a[i] = register_talkative(f, USER_ANN);
	}
	pid = ask_without_reading(f, USER_ANN);
	wait_for_file(f, "asked");
	client = raw_client(f, USER_ANN);
	other = raw_client(f, USER_BOB);
	assert_int_equal(standby_list(client, &p), CROWD);
	assert_int_equal(p.process, a[CROWD - 1].id);
	standby_count(other);
	for (size_t i = 0; i < CROWD; i += 2) {
		close(a[i].fd);
	}
	wait_until(standby_count(client) == CROWD / 2);
	assert_int_equal(kill(pid, 0), 0); /* nobody was cut off */
	assert_int_equal(count_text(f->daemon->err, "cut off"), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (size_t i = 1; i < CROWD; i += 2) {
		close(a[i].fd);
	}
	close(client);
	close(other);
}
