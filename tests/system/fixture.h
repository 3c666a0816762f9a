/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SYSTEM_FIXTURE_H
#define TESTS_SYSTEM_FIXTURE_H

/* A daemon, its users' programs and the fakes they run on, in a folder of their own.
 *
 * Every test begins with fixture_setup() and ends with fixture_teardown(), which ends everything
 * that is left, and fails the test when a process reported a sanitizer's finding or a violation of
 * the vendor's rules. A test that hangs is ended by its time limit. The folder is kept when
 * GPUCTR_TEST_KEEP is set.
 *
 * Programs run as users without privileges when the test runs as root, and as its own user
 * otherwise. In the latter case the fake driver restricts nothing, and tests of the restriction
 * skip. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "proto/base/clean.h"
#include "tests/system/built.h"

enum {
	USER_ANN = 1234,
	USER_BOB = 1235,
	USER_SELF = -1, /* as the test */

	PATIENCE_MS = 20000, /* for what must happen at all */
	PROGRAMS_MAX = 64,
};

struct program {
	pid_t pid;  /* 0: has ended */
	int status; /* of waitpid(), once it has */
	char out[160], err[160];
};

struct fixture {
	char folder[64];
	char socket[96];
	struct program *daemon; /* NULL: none */
	struct program programs[PROGRAMS_MAX];
	size_t n_programs;
	bool preloads_failures; /* libfakefail.so, in what is started from now on */
	bool violations_expected;
	bool daemon_ends_badly; /* it was killed */
};

/* For cmocka. The limit begins anew with each test. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

#define SYSTEM_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

/* All of them, or those whose names match $GPUCTR_TEST_FILTER ("the_*"). */
#define SYSTEM_RUN(tests)                                      \
	(cmocka_set_test_filter(getenv("GPUCTR_TEST_FILTER")), \
	 cmocka_run_group_tests(tests, built_setup, built_teardown))

/* Skips the test with a reason. */
void fixture_skip(const char *reason) __attribute__((noreturn));
void fixture_need_root(void);
void fixture_need_two_users(void);
void fixture_need_root_to_look(void); /* at what the daemon's processes have open */

/* --- processes --- */

/* Starts a daemon that lets everybody in, at any rate, with further options, and waits until it
 * listens. */
void fixture_start_daemon(struct fixture *f, ...) __attribute__((sentinel));
void fixture_start_strict_daemon(struct fixture *f, ...)
	__attribute__((sentinel)); /* default deny */

/* As systemd does it: the socket is somebody else's, and stays when the daemon ends. */
int fixture_open_socket(struct fixture *f);
void fixture_start_activated_daemon(struct fixture *f, int socket);

void fixture_stop_daemon(struct fixture *f);
void fixture_kill_daemon(struct fixture *f);

/* Starts argv as uid; environment is what fixture_setup() made. The result is f's. */
struct program *fixture_run(struct fixture *f, int uid, const char *path, ...)
	__attribute__((sentinel));
struct program *fixture_runv(struct fixture *f, int uid, const char *const *argv);

/* Whom programs of uid run as, by name or as "uid N", as the daemon tells it, and the text; ours.
 */
const char *fixture_user(int uid, const char *text);

/* gpuctr-client with these arguments. */
struct program *fixture_client(struct fixture *f, int uid, ...) __attribute__((sentinel));

/* Pid of the daemon's worker: "front", "granter", "gpu", "planner". */
pid_t fixture_worker(const struct fixture *f, const char *name);

/* The one child of p that there is, waited for; for the program of a client. */
pid_t fixture_child(const struct program *p);

/* The first child with this name, or any when it is NULL; 0: there is none. */
pid_t process_child(pid_t parent, const char *name);

size_t process_children(pid_t pid);
size_t process_descriptors(pid_t pid); /* open ones; 0: it is gone, or not ours to see */

/* Does the process sleep, waiting for something, and not just for a moment? */
bool process_is_asleep(pid_t pid);

/* The programs from number first on have all ended, without a sanitizer's finding: their files and
 * places are used again. For tests that run more than PROGRAMS_MAX of them. */
void fixture_forget_programs(struct fixture *f, size_t first);

/* The limit of the present test, from now on, instead of a minute. */
void fixture_limit(unsigned seconds);

/* --- the fake driver, and programs that wait ("fakeapp --hold") --- */

void fixture_set_knob(struct fixture *f, const char *name, unsigned value);
int fixture_knob(struct fixture *f, const char *name);
uint64_t fixture_counter(struct fixture *f, const char *name);

/* Lines with this text of "owners" or "objects". */
size_t fixture_count(struct fixture *f, const char *verb, const char *text);

/* Waits until n programs wait at their places; lets them go. */
void fixture_wait_held(struct fixture *f, size_t n);
void fixture_release(struct fixture *f);

/* A file of the test's folder, by name. */
const char *fixture_path(const struct fixture *f, const char *name);

void program_wait(struct program *p);
bool program_is_running(struct program *p);

/* Waits until the daemon is the only child of the test: what a dead client leaves behind comes to
 * it, and is given to on_orphan, which may be NULL. */
void fixture_wait_for_orphans(struct fixture *f, void (*on_orphan)(pid_t pid, int status));
void program_kill(struct program *p, int signo);

/* With all that is in it. */
void remove_folder(const char *path);

/* Contents; free them. */
char *read_file(const char *path);
size_t count_text(const char *path, const char *text);

/* Waits until the file holds the text. */
void expect_text_soon(const char *path, const char *text);

/* --- what is expected --- */

/* The program ends, by itself, with this status. */
void expect_exit(struct program *p, int status);
void expect_signal(struct program *p, int signo);

void expect_output(struct program *p, const char *text);  /* exactly */
void expect_message(struct program *p, const char *text); /* on stderr, among others */
void expect_no_message(struct program *p, const char *text);
void expect_running(struct program *p);

/* The fake driver's state: nobody owns a GPU, nothing is allocated, within a second. */
void expect_no_owner(struct fixture *f);
void expect_no_objects(struct fixture *f);

/* A fresh client measures some kernels within ms, at its first try. */
void expect_service(struct fixture *f, unsigned within_ms);

/* Where a part of the daemon has just ended: clients may be refused, which is shown, until one is
 * served. */
void expect_service_soon(struct fixture *f, unsigned within_ms);

/* --- time --- */

uint64_t now_ms(void);

/* A bound on time: as it is when GPUCTR_TEST_FULL is set, for a machine that does nothing else; ten
 * times as long on one that others use as well. What was reached is printed. */
unsigned fixture_time(unsigned ms);
void sleep_ms(unsigned ms);

#endif
