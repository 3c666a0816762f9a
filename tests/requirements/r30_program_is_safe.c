/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/requirements/requirement.h"
#include "tests/system/fixture.h"

/* R30: the user's program is safe. Whatever becomes of the daemon or of CUPTI, each program prints
 * what it prints unmeasured and ends as it ends unmeasured: with its status, or by its signal. */

enum { ARGUMENTS_MAX = 12, OUTPUT_MAX = 65536 };

struct outcome {
	int status; /* as a shell tells it */
	char out[OUTPUT_MAX];
};

static const struct kind {
	const char *name;
	const char *arguments[ARGUMENTS_MAX];
	bool can_hold; /* in the middle, as one process */
} kinds[] = {
	{ "kernels", { "--kernels", "60", "--print", "--exit", "3" }, true },
	{ "NVTX, streams and graphs",
	  { "--kernels", "60", "--print", "--nvtx", "--streams", "3", "--mixed", "--graph",
	    "--capture" },
	  true },
	{ "two contexts left open",
	  { "--kernels", "60", "--print", "--contexts", "2", "--keep-contexts" },
	  true },
	{ "200 threads", { "--threads", "200", "--kernels", "20", "--exit", "5" }, true },
	{ "fork without exec", { "--kernels", "40", "--print", "--fork", "--exit", "4" }, true },
	{ "exit from a signal handler",
	  { "--kernels", "40", "--print", "--exit-in-signal", "--exit", "6" },
	  true },
	{ "crash", { "--kernels", "40", "--crash-after", "30" }, true },
	{ "children", { "--kernels", "20", "--children", "3", "--exit", "7" }, false },
	{ "own profiler", { "--kernels", "40", "--print", "--own-cupti" }, true },
	{ "no CUDA", { "--no-cuda", "--exit", "8" }, false },
};

/* --- running one --- */

static size_t append(const char **argv, size_t n, const char *const *more)
{
	for (; *more; more++) {
		argv[n++] = *more;
	}
	return n;
}

/* Beyond what all tests wait: the client waits longer for a daemon that may be slow. */
static void wait_long(struct program *p)
{
	uint64_t by = now_ms() + 3 * PATIENCE_MS;

	while (waitpid(p->pid, &p->status, WNOHANG) == 0) {
		assert_true(now_ms() < by);
		sleep_ms(10);
	}
	p->pid = 0;
}

static struct outcome outcome_of(struct program *p)
{
	struct outcome o = { 0 };
	CLEAN_FREE char *out = NULL;

	program_wait(p);
	out = read_file(p->out);
	o.status = WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status);
	snprintf(o.out, sizeof(o.out), "%s", out);
	return o;
}

static struct program *start_plain(struct fixture *f, const struct kind *k)
{
	const char *argv[ARGUMENTS_MAX + 2] = { FAKEAPP };

	append(argv, 1, k->arguments);
	return fixture_runv(f, USER_ANN, argv);
}

static bool permits; /* in place of captures */
static const char *chosen = "--metrics=memory";

static struct program *start_measured(struct fixture *f, const struct kind *k, bool hold)
{
	const char *const capture[] = { CLIENT, chosen, "--quiet", "--", FAKEAPP, NULL };
	const char *const permit[] = { CLIENT, "permit", "--", FAKEAPP, NULL };
	const char *argv[ARGUMENTS_MAX + 12] = { NULL };
	size_t n = append(argv, append(argv, 0, permits ? permit : capture), k->arguments);

	if (hold) {
		argv[n++] = "--hold";
		argv[n++] = "middle";
	}
	return fixture_runv(f, USER_ANN, argv);
}

static struct program *start_measured_on(struct fixture *f, const struct kind *k, const char *gpu)
{
	const char *argv[ARGUMENTS_MAX + 16] = { CLIENT,      "--metrics", "memory", "--quiet",
						 "--devices", gpu,	   "--",     FAKEAPP };
	size_t n = append(argv, 8, k->arguments);

	argv[n++] = "--hold";
	argv[n++] = "middle";
	return fixture_runv(f, USER_ANN, argv);
}

/* A child of a measured program whose capture is over: an agent, and a token of nothing. */
static struct outcome run_by_hand(struct fixture *f, const struct kind *k)
{
	struct outcome o;

	setenv("CUDA_INJECTION64_PATH", TEST_AGENT, 1);
	setenv("NVTX_INJECTION64_PATH", TEST_AGENT, 1);
	setenv("GPUCTR_TOKEN", "0123456789abcdef0123456789abcdef", 1);
	o = outcome_of(start_plain(f, k));
	unsetenv("CUDA_INJECTION64_PATH");
	unsetenv("NVTX_INJECTION64_PATH");
	unsetenv("GPUCTR_TOKEN");
	return o;
}

/* Something happens while the program stands in its middle. */
static struct outcome run_while(struct fixture *f, const struct kind *k,
				void (*act)(struct fixture *f))
{
	struct program *client = start_measured(f, k, true);

	fixture_wait_held(f, 1);
	act(f);
	fixture_release(f);
	return outcome_of(client);
}

/* --- what happens --- */

static void start(struct fixture *f)
{
	fixture_start_daemon(f, "--set", "sharing=shared", NULL);
}

static struct outcome measured(struct fixture *f, const struct kind *k)
{
	return outcome_of(start_measured(f, k, false));
}

static struct outcome without_daemon(struct fixture *f, const struct kind *k)
{
	return run_by_hand(f, k);
}

static struct outcome with_wrong_token(struct fixture *f, const struct kind *k)
{
	return run_by_hand(f, k);
}

static struct outcome daemon_killed(struct fixture *f, const struct kind *k)
{
	start(f);
	return run_while(f, k, fixture_kill_daemon);
}

static void kill_front(struct fixture *f)
{
	assert_int_equal(kill(fixture_worker(f, "front"), SIGKILL), 0);
}

static struct outcome front_killed(struct fixture *f, const struct kind *k)
{
	return run_while(f, k, kill_front);
}

/* The agent is one connection too many. */
static struct outcome daemon_full(struct fixture *f, const struct kind *k)
{
	struct outcome o;

	fixture_start_daemon(f, "--set", "connections-per-user=1", "--set", "sharing=shared", NULL);
	o = outcome_of(start_measured(f, k, false));
	fixture_stop_daemon(f);
	return o;
}

static struct outcome older_cupti(struct fixture *f, const struct kind *k)
{
	struct outcome o;

	setenv("GPUCTR_FAKE_CUPTI_VERSION", "120400", 1);
	o = outcome_of(start_measured(f, k, false));
	unsetenv("GPUCTR_FAKE_CUPTI_VERSION");
	return o;
}

/* A folder with one library of the fakes, by another's name. */
static const char *make_folder(struct fixture *f, const char *name, const char *library,
			       const char *as)
{
	char from[256], to[256];

	snprintf(from, sizeof(from), "%s/%s", TEST_FAKE_LIBRARIES, library);
	snprintf(to, sizeof(to), "%s/%s/%s", f->folder, name, as);
	mkdir(fixture_path(f, name), 0777);
	if (symlink(from, to) < 0) {
		assert_int_equal(errno, EEXIST);
	}
	return fixture_path(f, name);
}

/* In front of the fakes, a library of CUPTI's name that has none of its functions. */
static struct outcome other_cupti(struct fixture *f, const struct kind *k)
{
	const char *folder = make_folder(f, "other", "libnvidia-ml.so.1", "libcupti.so.13");
	char path[512];
	struct outcome o;

	snprintf(path, sizeof(path), "%s:%s", folder, TEST_FAKE_LIBRARIES);
	setenv("LD_LIBRARY_PATH", path, 1);
	o = outcome_of(start_measured(f, k, false));
	setenv("LD_LIBRARY_PATH", TEST_FAKE_LIBRARIES, 1);
	return o;
}

/* The machine may have a toolkit, where CUPTI is looked for as well. Root can hide it, in a mount
 * namespace; elsewhere it is NVIDIA's CUPTI on a driver that it has never seen. */
static struct program *start_without_toolkit(struct fixture *f, const struct kind *k)
{
	static const char script[] =
		"for d in /usr/local/cuda /opt/cuda; do"
		" [ ! -d $d ] || mount -t tmpfs none $(realpath $d) || exit 99; done; "
		"exec setpriv --reuid 1234 --regid 1234 --clear-groups \"$@\"";
	const char *argv[ARGUMENTS_MAX + 16] = {
		"/usr/bin/unshare", "-m",     "/bin/sh", "-c", script,	"sh", CLIENT,
		"--metrics",	    "memory", "--quiet", "--", FAKEAPP,
	};

	append(argv, 12, k->arguments);
	return fixture_runv(f, USER_SELF, argv);
}

static bool can_hide_toolkit(void)
{
	static int can = -1;

	if (can < 0) {
		can = geteuid() == 0 && system("unshare -m true 2>/dev/null") == 0;
	}
	return can;
}

static struct outcome no_cupti(struct fixture *f, const struct kind *k)
{
	struct program *client;
	struct outcome o;

	setenv("LD_LIBRARY_PATH", make_folder(f, "bare", "libcuda.so.1", "libcuda.so.1"), 1);
	if (can_hide_toolkit()) {
		client = start_without_toolkit(f, k);
		o = outcome_of(client);
		if (!permits && strcmp(k->arguments[0], "--no-cuda") != 0) {
			expect_message(client, "libcupti.so was not found");
		}
	} else {
		o = outcome_of(start_measured(f, k, false));
	}
	setenv("LD_LIBRARY_PATH", TEST_FAKE_LIBRARIES, 1);
	return o;
}

static const struct {
	const char *name;
	struct outcome (*run)(struct fixture *f, const struct kind *k);
	bool in_the_middle;
	bool one_daemon; /* for all kinds of programs */
} situations[] = {
	{ "measured", measured, false, true },
	{ "without a daemon", without_daemon, false, false },
	{ "with a wrong token", with_wrong_token, false, true },
	{ "with a full daemon", daemon_full, false, false },
	{ "with an older CUPTI", older_cupti, false, true },
	{ "with another CUPTI", other_cupti, false, true },
	{ "without CUPTI", no_cupti, false, true },
	{ "daemon killed", daemon_killed, true, false },
	{ "front killed", front_killed, true, true },
};

/* --- and it is as without us --- */

static void compare(const struct outcome *got, const struct outcome *plain, const struct kind *k,
		    const char *situation)
{
	if (got->status != plain->status || strcmp(got->out, plain->out) != 0) {
		fail_msg("%s, %s: status %d instead of %d, printed\n%s\ninstead of\n%s", k->name,
			 situation, got->status, plain->status, got->out, plain->out);
	}
}

/* Measured, under a permit, or traced. */
enum { MODES = 3 };

static size_t mode(void)
{
	return permits ? 1 : strcmp(chosen, "--mode=trace") == 0 ? 2 : 0;
}

SYSTEM_TEST(programs_do_as_unmeasured)
{
	static struct outcome plain[ARRAY_SIZE(kinds)];
	struct fixture *f = *state;
	size_t runs = 0;

	fixture_limit(600);
	f->violations_expected = true; /* daemons that die take objects from under CUPTI */
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		plain[k] = outcome_of(start_plain(f, &kinds[k]));
	}
	for (size_t s = 0; s < ARRAY_SIZE(situations); s++) {
		if (situations[s].one_daemon) {
			start(f);
		}
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			struct outcome got;

			/* Under a sanitizer each pair is run in one of the modes. */
			if (!requirement_cell(s + k + mode(), MODES) ||
			    (situations[s].in_the_middle && !kinds[k].can_hold)) {
				continue;
			}
			got = situations[s].run(f, &kinds[k]);
			compare(&got, &plain[k], &kinds[k], situations[s].name);
			runs++;
		}
		if (situations[s].one_daemon) {
			fixture_stop_daemon(f);
		}
		fixture_forget_programs(f, 0);
	}
	requirement_figure("R30",
			   "%zu kinds of programs %sin %zu situations, %zu runs: output and status "
			   "are those of an unmeasured run",
			   ARRAY_SIZE(kinds),
			   ((const char *const[MODES]){ "", "under a permit ", "traced " })[mode()],
			   ARRAY_SIZE(situations), runs);
}

SYSTEM_TEST(programs_do_as_without_a_permit)
{
	permits = true;
	programs_do_as_unmeasured(state);
	permits = false;
}

SYSTEM_TEST(programs_do_as_untraced)
{
	chosen = "--mode=trace";
	programs_do_as_unmeasured(state);
	chosen = "--metrics=memory";
}

/* --- a daemon that hangs --- */

static void stop_front(struct fixture *f)
{
	assert_int_equal(kill(fixture_worker(f, "front"), SIGSTOP), 0);
}

static void wake_front(struct fixture *f)
{
	assert_int_equal(kill(fixture_worker(f, "front"), SIGCONT), 0);
}

/* All kinds that can wait in their middle, at once: a client gives up after a while, and each has a
 * GPU of its own. */
static size_t start_all(struct fixture *f, struct program *ret[ARRAY_SIZE(kinds)])
{
	static const char *const gpus[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };
	size_t n = 0;

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		ret[k] = NULL;
		if (kinds[k].can_hold) {
			setenv("CUDA_VISIBLE_DEVICES", gpus[n], 1);
			ret[k] = start_measured_on(f, &kinds[k], gpus[n]);
			fixture_wait_held(f, ++n);
		}
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
	return n;
}

/* Where the driver restricts nobody, its own answer follows each silence of the daemon, and each of
 * a context's questions is 15 s of silence: a program with several contexts ends, but far later
 * than this test waits. */
SYSTEM_TEST(a_daemon_that_hangs_keeps_no_program)
{
	struct program *clients[ARRAY_SIZE(kinds)];
	struct fixture *f = *state;
	uint64_t begin;
	size_t n;

	fixture_need_perfmon();
	fixture_limit(200);
	setenv("GPUCTR_FAKE_GPUS", "10", 1);
	start(f);
	n = start_all(f, clients);
	stop_front(f);
	begin = now_ms();
	fixture_release(f);
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		if (clients[k]) {
			struct outcome got, plain;

			wait_long(clients[k]);
			got = outcome_of(clients[k]);
			plain = outcome_of(start_plain(f, &kinds[k]));
			compare(&got, &plain, &kinds[k], "daemon hangs");
		}
	}
	begin = now_ms() - begin;
	wake_front(f);
	expect_service(f, PATIENCE_MS);
	requirement_figure("R30",
			   "%zu programs under a daemon that hangs: clients are over after %.1f s",
			   n, (double)begin / 1e3);
}

SYSTEM_TEST(a_daemon_that_hangs_at_the_start)
{
	struct fixture *f = *state;
	struct outcome plain, got;
	uint64_t begin;

	start(f);
	stop_front(f);
	begin = now_ms();
	got = run_by_hand(f, &kinds[0]);
	begin = now_ms() - begin;
	wake_front(f);
	plain = outcome_of(start_plain(f, &kinds[0]));
	compare(&got, &plain, &kinds[0], "daemon hangs from the start");
	requirement_figure("R30", "a daemon that hangs keeps a program that starts for %.1f s",
			   (double)begin / 1e3);
	expect_service(f, PATIENCE_MS);
}
