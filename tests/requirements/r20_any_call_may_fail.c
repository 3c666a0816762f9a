/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/wait.h>

#include "tests/requirements/requirement.h"
#include "tests/system/footprint.h"

/* R20: any call may fail. In one process of a capture the n-th allocation, or the n-th system call,
 * fails, for n = 1, 2, ... until all of its calls have had their turn (in continuous integration,
 * some dozens of them at even distances). Each time the capture is refused or succeeds, the user's
 * program has its own output and exit status or was never started, the daemon lives, the next
 * capture works, and nothing is left behind. (Of the next capture there is one now and then where
 * the call is the client's or the agent's.)
 *
 * A worker of the daemon may end of it: the supervisor replaces it. The client may not crash. */

enum { ALL = 1000000000, DEATHS_PER_DAEMON = 7, SERVICE_EVERY = 8 };

enum kind { CLIENT_PROCESS = 1, AGENT, FRONT, GRANTER, GPU, PLANNER };

static const char *const kinds[] = { "",	"client",      "agent",	 "front",
				     "granter", "gpu process", "planner" };

struct sweep {
	struct fixture *f;
	enum kind kind;
	const char *knob;
	int error;   /* of system calls */
	bool permit; /* in place of a capture: the program is a profiler of its own */
	struct footprint before;
	unsigned runs, refused, measured, unmeasured, died;
};

static const char *capture_path(struct sweep *s)
{
	return fixture_path(s->f, "capture.gpuctr");
}

static struct program *start_client(struct sweep *s)
{
	if (s->permit) {
		return fixture_client(s->f, USER_ANN, "permit", "--", TEST_FAKEPROFILER, "--rounds",
				      "3", NULL);
	}
	return fixture_client(s->f, USER_ANN, "--metrics", "memory",
			      stream_to(fixture_path(s->f, "records")), "-f", "-o", capture_path(s),
			      "--", FAKEAPP, "--kernels", "200", "--nvtx", "--exit", "7", NULL);
}

static void expect_clean(struct sweep *s, struct program *client)
{
	bool ran;

	program_wait(client);
	fixture_wait_for_orphans(s->f, NULL);
	ran = count_text(client->out, "done ") == 1;
	if (!ran) {
		expect_output(client, "");
		if (!WIFEXITED(client->status) || WEXITSTATUS(client->status) != 126) {
			expect_exit(client, 125);
		}
		s->refused++; /* 126: it could not be started */
		return;
	}
	expect_exit(client, 7);
	if (!s->permit) {
		expect_output(client, "done 200\n");
	}
	if (s->permit ? count_text(client->out, "refused") == 0
		      : count_text(client->err, "200 measured") > 0) {
		s->measured++;
	} else {
		s->unmeasured++;
	}
}

static void start_daemon(struct sweep *s)
{
	fixture_start_daemon(s->f, NULL);
	/* The sanitizer's own look at a program's threads has ended by SIGSEGV here. */
	fixture_check_leaks(false);
	expect_service_soon(s->f, PATIENCE_MS);
	footprint_take(s->f, &s->before);
}

static void stop_daemon(struct sweep *s)
{
	expect_service_soon(s->f, PATIENCE_MS);
	expect_no_leak(s->f, &s->before);
	s->died += (unsigned)count_text(s->f->daemon->err, ": replaced");
	fixture_stop_daemon(s->f);
	fixture_forget_programs(s->f, 0);
}

/* The n-th call of a capture fails. Returns how many calls there were. */
static unsigned run_once(struct sweep *s, unsigned n)
{
	size_t programs = s->f->n_programs;
	struct program *client;
	int left;

	fixture_set_knob(s->f, s->knob, n);
	client = start_client(s);
	program_wait(client);
	left = fixture_knob(s->f, s->knob);
	fixture_set_knob(s->f, s->knob, 0);
	expect_clean(s, client);
	if (s->kind >= FRONT || ++s->runs % SERVICE_EVERY == 0) {
		expect_service_soon(s->f, PATIENCE_MS);
	}
	fixture_forget_programs(s->f, programs);
	return left > 0 ? n - (unsigned)left : n;
}

static void sweep(struct fixture *f, enum kind kind, const char *knob, int error, bool permit)
{
	struct sweep s = { f, kind, knob, error, permit };
	unsigned calls, steps = 0, wanted, by;

	f->violations_expected = true;
	f->preloads_failures = true;
	fixture_limit(getenv("GPUCTR_TEST_FULL") ? 3600 : 120);
	start_daemon(&s);
	fixture_set_knob(f, "fail_in", kind);
	fixture_set_knob(f, "fail_errno", (unsigned)error);
	calls = run_once(&s, ALL);
	assert_true(calls > 0 && calls < ALL && s.measured == 1);
	wanted = (unsigned)requirement_amount(requirement_times_count() ? 90 : 30, calls);
	by = (calls + wanted - 1) / wanted;
	for (unsigned n = 1; n <= calls; n += by, steps++) {
		if (getenv("GPUCTR_TEST_VERBOSE")) {
			fprintf(stderr, "n %u\n", n);
		}
		run_once(&s, n);
		if (count_text(f->daemon->err, ": replaced") >= DEATHS_PER_DAEMON) {
			stop_daemon(&s);
			start_daemon(&s);
		}
	}
	stop_daemon(&s);
	requirement_figure("R20",
			   "%s%s, %u of %u %s fail (%s): %u measured, %u in part or not, %u "
			   "refused, %u workers replaced",
			   permit ? "permit, " : "", kinds[kind], steps, calls,
			   error ? "system calls" : "allocations",
			   error ? strerrorname_np(error) : "ENOMEM", s.measured - 1, s.unmeasured,
			   s.refused, s.died);
}

#define SWEEP(name, kind, knob, error)                   \
	SYSTEM_TEST(name)                                \
	{                                                \
		sweep(*state, kind, knob, error, false); \
	}
#define PERMIT_SWEEP(name, kind, knob, error)           \
	SYSTEM_TEST(name)                               \
	{                                               \
		sweep(*state, kind, knob, error, true); \
	}

SWEEP(allocations_of_the_client, CLIENT_PROCESS, "fail_malloc", 0)
SWEEP(allocations_of_the_agent, AGENT, "fail_malloc", 0)
SWEEP(allocations_of_the_front, FRONT, "fail_malloc", 0)
SWEEP(allocations_of_the_gpu_process, GPU, "fail_malloc", 0)
SWEEP(allocations_of_the_planner, PLANNER, "fail_malloc", 0)
SWEEP(interrupted_calls_of_the_client, CLIENT_PROCESS, "fail_call", EINTR)
SWEEP(interrupted_calls_of_the_agent, AGENT, "fail_call", EINTR)
SWEEP(interrupted_calls_of_the_front, FRONT, "fail_call", EINTR)
SWEEP(interrupted_calls_of_the_granter, GRANTER, "fail_call", EINTR)
SWEEP(interrupted_calls_of_the_gpu_process, GPU, "fail_call", EINTR)
SWEEP(interrupted_calls_of_the_planner, PLANNER, "fail_call", EINTR)
SWEEP(calls_of_the_client_without_memory, CLIENT_PROCESS, "fail_call", ENOMEM)
SWEEP(calls_of_the_agent_without_memory, AGENT, "fail_call", ENOMEM)
SWEEP(calls_of_the_front_without_memory, FRONT, "fail_call", ENOMEM)
SWEEP(calls_of_the_granter_without_memory, GRANTER, "fail_call", ENOMEM)
SWEEP(calls_of_the_gpu_process_without_memory, GPU, "fail_call", ENOMEM)
SWEEP(calls_of_the_planner_without_memory, PLANNER, "fail_call", ENOMEM)
SWEEP(reads_and_writes_of_the_client, CLIENT_PROCESS, "fail_call", EIO)
SWEEP(reads_and_writes_of_the_agent, AGENT, "fail_call", EIO)
SWEEP(reads_and_writes_of_the_front, FRONT, "fail_call", EIO)
SWEEP(reads_and_writes_of_the_granter, GRANTER, "fail_call", EIO)
PERMIT_SWEEP(allocations_of_a_permits_client, CLIENT_PROCESS, "fail_malloc", 0)
PERMIT_SWEEP(interrupted_calls_of_a_permits_client, CLIENT_PROCESS, "fail_call", EINTR)
PERMIT_SWEEP(reads_and_writes_of_a_permits_client, CLIENT_PROCESS, "fail_call", EIO)
PERMIT_SWEEP(allocations_of_a_permits_library, AGENT, "fail_malloc", 0)
PERMIT_SWEEP(interrupted_calls_of_a_permits_library, AGENT, "fail_call", EINTR)
PERMIT_SWEEP(calls_of_a_permits_library_without_memory, AGENT, "fail_call", ENOMEM)
PERMIT_SWEEP(reads_and_writes_of_a_permits_library, AGENT, "fail_call", EIO)
PERMIT_SWEEP(allocations_of_the_front_for_a_permit, FRONT, "fail_malloc", 0)
PERMIT_SWEEP(calls_of_the_granter_for_a_permit, GRANTER, "fail_call", ENOMEM)
