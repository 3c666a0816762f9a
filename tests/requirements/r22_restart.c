/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R22: a restart keeps promises. Ten users measure on ten GPUs when the daemon ends. Their programs
 * are stopped first, so that none can let go by itself, as a hostile one would not: the daemon's
 * own end takes everything back. Then they run on to their own end, and the next daemon serves all
 * ten GPUs. A listening socket that is systemd's loses nobody across a restart. */

enum {
	GPUS = 10,
	REVOKED_MS = 2000, /* a daemon that stops gives its agents a second */
	ASKERS = 4,
};

static struct {
	struct program *client;
	pid_t program;
} users[GPUS];

/* Several can be connected to a daemon that may have as little as one uid to run them as. */
static void start_daemon(struct fixture *f)
{
	fixture_start_daemon(f, "--set", "captures-per-user=16", NULL);
}

static void hold_leases(struct fixture *f)
{
	setenv("GPUCTR_FAKE_GPUS", "10", 1);
	start_daemon(f);
	for (int i = 0; i < GPUS; i++) {
		char gpu[4];

		snprintf(gpu, sizeof(gpu), "%d", i);
		setenv("CUDA_VISIBLE_DEVICES", gpu, 1);
		users[i].client = fixture_client(f, USER_ANN + i, "--metrics", "memory",
						 "--devices", gpu, "--", FAKEAPP, "--kernels",
						 "400", "--hold", "middle", "--exit", "7", NULL);
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
	fixture_wait_held(f, GPUS);
	for (int i = 0; i < GPUS; i++) {
		users[i].program = fixture_child(users[i].client);
	}
}

static void signal_programs(int signo)
{
	for (int i = 0; i < GPUS; i++) {
		assert_int_equal(kill(users[i].program, signo), 0);
	}
}

/* Returns how long it took until no user had any counter. */
static unsigned wait_until_revoked(struct fixture *f, uint64_t since)
{
	while (fixture_count(f, "owners", "") > 0 || fixture_count(f, "objects", " 0xb2cc ") > 0) {
		if (now_ms() - since > PATIENCE_MS) {
			fail_msg("%zu GPUs are owned, %zu profiler objects are left",
				 fixture_count(f, "owners", ""),
				 fixture_count(f, "objects", " 0xb2cc "));
		}
	}
	return (unsigned)(now_ms() - since);
}

static void expect_all_ran_on(struct fixture *f)
{
	fixture_release(f);
	for (int i = 0; i < GPUS; i++) {
		expect_exit(users[i].client, 7);
		expect_output(users[i].client, "done 400\n");
	}
	expect_no_owner(f);
	expect_no_objects(f);
}

static void expect_ends(struct fixture *f, const char *how, void (*end)(struct fixture *f))
{
	uint64_t begin;
	unsigned ms;

	f->violations_expected = true;
	hold_leases(f);
	assert_int_equal(fixture_count(f, "owners", ""), GPUS);
	signal_programs(SIGSTOP);
	begin = now_ms();
	end(f);
	ms = wait_until_revoked(f, begin);
	start_daemon(f);
	expect_service_soon(f, PATIENCE_MS);
	signal_programs(SIGCONT);
	expect_all_ran_on(f);
	expect_service_soon(f, PATIENCE_MS);
	requirement_figure("R22",
			   "%d leases held by programs that stand still, %s: taken back "
			   "after %u ms, the programs run on",
			   GPUS, how, ms);
	assert_true(!requirement_times_hold() || ms <= REVOKED_MS);
}

SYSTEM_TEST(a_stop_takes_every_lease_back)
{
	expect_ends(*state, "the daemon is told to stop", fixture_stop_daemon);
}

SYSTEM_TEST(a_kill_takes_every_lease_back)
{
	expect_ends(*state, "the supervisor is killed", fixture_kill_daemon);
}

static void kill_front_and_stop(struct fixture *f)
{
	assert_int_equal(kill(fixture_worker(f, "front"), SIGKILL), 0);
	fixture_stop_daemon(f);
}

SYSTEM_TEST(a_stop_amid_a_replacement_takes_every_lease_back)
{
	expect_ends(*state, "the front is killed and the daemon told to stop", kill_front_and_stop);
}

/* --- a slow driver --- */

enum {
	BUSY = 2,    /* programs on as many GPUs */
	MANY = 200,  /* objects that a busy program has had; few of them count */
	CALL_MS = 5, /* of a driver that is slow; all of them take more than a second */
	SLOWER_MS = 20,
};

static void start_busy(struct fixture *f)
{
	pid_t granter;

	fixture_need_root_to_look();
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	start_daemon(f);
	granter = fixture_worker(f, "granter");
	for (int i = 0; i < BUSY; i++) {
		char gpu[4];

		snprintf(gpu, sizeof(gpu), "%d", i);
		setenv("CUDA_VISIBLE_DEVICES", gpu, 1);
		users[i].client = fixture_client(f, USER_ANN + i, "--metrics", "memory",
						 "--devices", gpu, "--", FAKEAPP, "--contexts", "4",
						 "--kernels", "1000000", "--sleep-us", "200", NULL);
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
	for (int i = 0; i < BUSY; i++) {
		users[i].program = fixture_child(users[i].client);
	}
	/* Each object costs the granter a descriptor. */
	for (int i = 0; i < PATIENCE_MS && process_descriptors(granter) < BUSY * MANY; i++) {
		sleep_ms(1);
	}
	assert_true(process_descriptors(granter) >= BUSY * MANY);
}

/* The driver is slow, the programs stand still, and the daemon, or its front, ends: nothing that
 * counts is left when the next user gets the GPU. */
static void expect_slow_ends(struct fixture *f, const char *how, unsigned call_ms,
			     void (*end)(struct fixture *f))
{
	uint64_t begin;

	f->violations_expected = true;
	start_busy(f);
	for (int i = 0; i < BUSY; i++) {
		assert_int_equal(kill(users[i].program, SIGSTOP), 0);
	}
	fixture_set_knob(f, "ioctl_delay_ms", call_ms);
	begin = now_ms();
	end(f);
	requirement_figure("R22", "a driver of %u ms a call, %s: taken back after %u ms", call_ms,
			   how, wait_until_revoked(f, begin));
	fixture_set_knob(f, "ioctl_delay_ms", 0);
	for (int i = 0; i < BUSY; i++) {
		kill(users[i].program, SIGCONT);
		kill(users[i].program, SIGTERM);
	}
}

static void kill_front(struct fixture *f)
{
	assert_int_equal(kill(fixture_worker(f, "front"), SIGKILL), 0);
}

SYSTEM_TEST(a_front_that_dies_leaves_nothing_with_a_slow_driver)
{
	expect_slow_ends(*state, "the front is killed", CALL_MS, kill_front);
	expect_service_soon(*state, PATIENCE_MS);
}

SYSTEM_TEST(a_stop_leaves_nothing_with_a_slow_driver)
{
	expect_slow_ends(*state, "the daemon is told to stop", SLOWER_MS, fixture_stop_daemon);
}

/* --- socket activation --- */

SYSTEM_TEST(who_comes_while_it_is_down_is_served)
{
	struct fixture *f = *state;
	int socket = fixture_open_socket(f);
	struct program *waiting[ASKERS];

	fixture_start_activated_daemon(f, socket);
	expect_service_soon(f, PATIENCE_MS);
	fixture_stop_daemon(f);
	for (int i = 0; i < ASKERS; i++) {
		waiting[i] = i % 2 == 0 ? fixture_client(f, USER_ANN, "status", NULL)
					: fixture_client(f, USER_BOB, "--metrics", "memory", "--",
							 FAKEAPP, "--exit", "7", NULL);
	}
	sleep_ms(100);
	fixture_start_activated_daemon(f, socket);
	for (int i = 0; i < ASKERS; i++) {
		expect_exit(waiting[i], i % 2 == 0 ? 0 : 7);
	}
	close(socket);
}

struct asker {
	pthread_t thread;
	const char *path;
	_Atomic bool *over;
	uint64_t connected, lost;
	char why[256];
};

static void *ask_again_and_again(void *argument)
{
	struct asker *a = argument;

	while (!atomic_load(a->over)) {
		struct gpuctr *g;

		if (gpuctr_connect(a->path, "asker", &g) == 0) {
			a->connected++;
		} else {
			snprintf(a->why, sizeof(a->why), "%s", gpuctr_last_error(g)->message);
			a->lost++;
		}
		gpuctr_disconnect(g);
	}
	return NULL;
}

/* Connections come all the time, also to a daemon that has just accepted them and ends. */
SYSTEM_TEST(restarts_lose_no_connection)
{
	struct fixture *f = *state;
	size_t restarts = requirement_amount(20, 500);
	int socket = fixture_open_socket(f);
	_Atomic bool over = false;
	struct asker askers[ASKERS];
	uint64_t connected = 0, lost = 0;

	fixture_limit(getenv("GPUCTR_TEST_FULL") ? 3600 : 60);
	fixture_start_activated_daemon(f, socket);
	for (int i = 0; i < ASKERS; i++) {
		askers[i] = (struct asker){ .path = f->socket, .over = &over };
		pthread_create(&askers[i].thread, NULL, ask_again_and_again, &askers[i]);
	}
	for (size_t i = 0; i < restarts; i++) {
		sleep_ms(20);
		if (i % 2 == 0) {
			fixture_stop_daemon(f);
		} else {
			fixture_kill_daemon(f);
		}
		fixture_forget_programs(f, 0);
		fixture_start_activated_daemon(f, socket);
	}
	atomic_store(&over, true);
	for (int i = 0; i < ASKERS; i++) {
		pthread_join(askers[i].thread, NULL);
		connected += askers[i].connected;
		lost += askers[i].lost;
		if (askers[i].lost > 0) {
			print_error("lost: %s\n", askers[i].why);
		}
	}
	requirement_figure("R22",
			   "%zu restarts under a socket that stays: %llu connections, %llu "
			   "lost",
			   restarts, (unsigned long long)connected, (unsigned long long)lost);
	assert_true(connected > restarts);
	assert_int_equal(lost, 0);
	close(socket);
}
