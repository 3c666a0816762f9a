/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A daemon, its users' programs and the fakes that they run on, in a folder of their own.
 *
 * Every test begins with fixture_setup() and ends with fixture_teardown(), which ends everything
 * that is left, and fails the test when a process has reported a sanitizer's finding or a violation
 * of the vendor's rules. A test that hangs is ended by its time limit. The folder is kept when
 * GPUCTR_TEST_KEEP is set.
 *
 * When the test runs as root, programs run as users without privileges; otherwise they run as the
 * test's own user. Without root, and where root has no CAP_PERFMON, as in most containers, the fake
 * driver restricts nothing, and tests of the restriction skip. */

#include <sys/types.h>

#include "tests/unit/unit.h"

#include "proto/base/clean.h"
#include "tests/system/built.h"

enum {
	USER_ANN = 1234,
	USER_BOB = 1235,
	USER_SELF = -1, /* as the test */

	PATIENCE_MS = 120000, /* for what must happen, however slowly */
	PROGRAMS_MAX = 64,
};

struct program {
	pid_t pid;  /* 0: has ended */
	int status; /* of waitpid(), when it has ended */
	char out[160], err[160];
};

struct fixture {
	char folder[64];
	char socket[96];
	struct program *daemon; /* NULL: none */
	struct program programs[PROGRAMS_MAX];
	size_t n_programs;
	bool preloads_failures; /* preloads libfakefail.so into what is started from now on */
	bool violations_expected;
	bool daemon_ends_badly; /* the test kills the daemon */
};

/* For cmocka. The time limit begins anew with each test. */
int fixture_setup(void **state);
int fixture_setup_sampling(void **state); /* with the sampler of this build */
int fixture_teardown(void **state);

#define SYSTEM_TEST(f) TEST_WITH(f, fixture_setup, fixture_teardown)
#define SAMPLING_TEST(f) TEST_WITH(f, fixture_setup_sampling, fixture_teardown)

/* Skips the test with a reason. */
void fixture_skip(const char *reason) __attribute__((noreturn));
void fixture_need_root(void);
void fixture_need_perfmon(void); /* and root: the driver's restriction is tested */
void fixture_need_two_users(void);
#define FOREIGN_PROGRAMS \
	"programs that it does not know end at once where the thread sanitizer is loaded"
void fixture_need_no_thread_sanitizer(const char *reason);
void fixture_need_root_to_look(void);	     /* to look at what the daemon's processes have open */
bool fixture_has_capability(int capability); /* is the test root, and has root this one here? */

/* Switches the check for leaks on or off for what is started from now on; returns how it was.
 * LeakSanitizer cannot check a program in a pid namespace of its own, because it seeks the process
 * in /proc by a number that means another process there, nor a program that may open no files, and
 * crashes, with status 1, over a thread that ends as it begins. Each test begins with true. */
bool fixture_check_leaks(bool on);

/* --- processes --- */

/* Starts a daemon that lets everybody in, at any rate, with further options, and waits until it
 * listens. */
void fixture_start_daemon(struct fixture *f, ...) __attribute__((sentinel));
void fixture_start_strict_daemon(struct fixture *f, ...)
	__attribute__((sentinel)); /* default deny */

/* As systemd does it: sockets belong to somebody else and stay when a program ends. */
int fixture_open_socket(struct fixture *f); /* the daemon's */
int fixture_open_socket_at(const char *path);
void fixture_start_activated_daemon(struct fixture *f, int socket);
struct program *fixture_activate_daemon(struct fixture *f, int socket, const char *setting);
struct program *fixture_activate(struct fixture *f, int uid, const int *sockets, size_t n,
				 const char *path, ...) __attribute__((sentinel));

void fixture_stop_daemon(struct fixture *f);
void fixture_kill_daemon(struct fixture *f);

/* Starts argv as uid, with the environment that fixture_setup() has made. The result is f's. */
struct program *fixture_run(struct fixture *f, int uid, const char *path, ...)
	__attribute__((sentinel));
struct program *fixture_runv(struct fixture *f, int uid, const char *const *argv);

/* The name of the user as whom programs of uid run, as the daemon writes it ("uid N" without a
 * name), followed by text. The result is ours. */
const char *fixture_user(int uid, const char *text);

/* Starts gpuctr-client with these arguments. */
struct program *fixture_client(struct fixture *f, int uid, ...) __attribute__((sentinel));

/* Pid of the daemon's worker: "front", "granter", "gpu", "planner". */
pid_t fixture_worker(const struct fixture *f, const char *name);

/* Waits for the one child of p: the program of a client. */
pid_t fixture_child(const struct program *p);

/* The first child with this name, or any child when name is NULL; 0: there is none. */
pid_t process_child(pid_t parent, const char *name);

size_t process_children(pid_t pid);
size_t process_descriptors(pid_t pid); /* open ones; 0: it has ended, or is not ours to see */

long process_resident_kib(pid_t pid); /* private memory; 0: as above */

/* Does the process wait for something, and not just for a moment? */
bool process_is_asleep(pid_t pid);

/* All programs from number first on have ended, without a sanitizer's finding: their files and
 * places are used again. For tests that run more than PROGRAMS_MAX programs. */
void fixture_forget_programs(struct fixture *f, size_t first);

/* Sets the time limit of this test from now on, in place of six minutes, which are the least. */
void fixture_limit(unsigned seconds);

/* --- the fake driver, and programs that wait ("fakeapp --hold") --- */

void fixture_set_knob(struct fixture *f, const char *name, unsigned value);
int fixture_knob(struct fixture *f, const char *name);
uint64_t fixture_counter(struct fixture *f, const char *name);

/* Counts the lines of "owners" or "objects" that have this text. */
size_t fixture_count(struct fixture *f, const char *verb, const char *text);

/* Waits until n programs wait at their places; the next function lets them go on. */
void fixture_wait_held(struct fixture *f, size_t n);
void fixture_release(struct fixture *f);

/* What NVML tells from now on: this process is on the GPU; 0: nobody is anywhere. */
void fixture_set_process(const struct fixture *f, int gpu, pid_t pid);

/* The path of a file in the test's folder. */
const char *fixture_path(const struct fixture *f, const char *name);
/* The option of the client that writes a stream of records to this path; used again after 64. */
const char *stream_to(const char *path);
/* The file has this text from one moment to the next. Returns its path. */
const char *fixture_write(const struct fixture *f, const char *name, const char *text);
/* What clients start as gpuctr-sampler from now on: a script. */
void fixture_use_sampler(struct fixture *f, const char *text);
void fixture_kill_sampler(const struct program *client, int signo);

void program_wait(struct program *p);
bool program_is_running(struct program *p);

/* Waits until the daemon is the only child of the test. What a dead client leaves behind becomes
 * the test's child; when it ends it is given to on_orphan, which may be NULL. */
void fixture_wait_for_orphans(struct fixture *f, void (*on_orphan)(pid_t pid, int status));
void program_kill(struct program *p, int signo);

/* Removes the folder with all that is in it. */
void remove_folder(const char *path);

/* The contents of the file; the caller frees them. */
char *read_file(const char *path);
/* How often the file holds the text. */
size_t count_text(const char *path, const char *text);
/* A line may be broken where the text has a space: the client wraps what it says below tables. */
size_t count_message(const char *path, const char *text);

/* Waits until the file holds the text. */
void expect_text_soon(const char *path, const char *text);

/* --- what is expected --- */

/* The program ends by itself, with this status. */
void expect_exit(struct program *p, int status);
void expect_signal(struct program *p, int signo);

void expect_output(struct program *p, const char *text); /* the whole output */
void expect_in_output(struct program *p, const char *text);
void expect_message(struct program *p, const char *text); /* somewhere on stderr */
/* The number in front of the words on stderr, with its commas; 0: they are not there. */
uint64_t message_number(struct program *p, const char *words);
void expect_no_message(struct program *p, const char *text);
void expect_running(struct program *p);

/* The fake driver's state: soon nobody owns a GPU and nothing is allocated. */
void expect_no_owner(struct fixture *f);
void expect_no_objects(struct fixture *f);

/* A new client measures some kernels within ms, at its first try. */
void expect_service(struct fixture *f, unsigned within_ms);

/* For when a part of the daemon has just ended: clients may be refused, which is printed, until one
 * is served. */
void expect_service_soon(struct fixture *f, unsigned within_ms);

/* --- time --- */

uint64_t now_ms(void);

/* Waits until the condition holds, or fails the test. */
#define wait_until(condition)                                                              \
	do {                                                                               \
		for (uint64_t by_ms = now_ms() + PATIENCE_MS; !(condition); sleep_ms(2)) { \
			assert_true(now_ms() < by_ms);                                     \
		}                                                                          \
	} while (0)

/* A bound on time: ms when GPUCTR_TEST_FULL is set, for a machine that does nothing else; the
 * patience of all tests otherwise. */
unsigned fixture_time(unsigned ms);
void sleep_ms(unsigned ms);
