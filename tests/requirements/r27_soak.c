/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/requirements/requirement.h"
#include "tests/system/footprint.h"
#include "tests/system/lines.h"
#include "tests/system/raw.h"

/* R27: everything at once, for long. Rounds follow each other: in each, users of four names measure
 * programs of all kinds on two GPUs, some clients read slowly, hostile sockets say nonsense, and
 * one process after the other is killed. When a round is over, everything that ran has its own
 * output and status, the totals add up, the daemon serves the next one, and nothing has been left
 * behind.
 *
 * All choices come from one seed, which is printed; GPUCTR_TEST_SEED repeats them (but not the
 * scheduling of the machine). */

enum {
	JOBS = 6,
	USERS = 4,
	ROUND_MS = 1500,
	WORKER_DEATH_EVERY_MS = 8000, /* from the eleventh on a worker comes back later */
};

struct job {
	struct program *client;
	char records[96];
	char output[32]; /* of the program, if nobody kills it */
	bool client_killed, program_killed;
};

static struct {
	uint64_t seed, random;
	uint64_t next_worker_death_ms;
	unsigned rounds, captures, refused, hostile, program_kills, client_kills, worker_kills,
		stops;
	uint64_t seen, measured, lost, dropped, filtered, unready, failed;
} soak;

/* xorshift64 */
static unsigned choose(unsigned n)
{
	soak.random ^= soak.random << 13;
	soak.random ^= soak.random >> 7;
	soak.random ^= soak.random << 17;
	return (unsigned)((soak.random >> 11) % n);
}

static bool one_in(unsigned n)
{
	return choose(n) == 0;
}

/* --- users --- */

static void start_job(struct fixture *f, struct job *j, unsigned number)
{
	static const char *const metrics[] = { "dram__bytes_read.sum", "memory",
					       "sm__inst_executed.sum", "dram__bytes.sum" };
	const char *argv[40] = { CLIENT };
	unsigned kernels = 50 + choose(800);
	char text[4][16];
	size_t n = 1;

	*j = (struct job){ 0 };
	snprintf(j->records, sizeof(j->records), "%s/records.%u", f->folder, number);
	unlink(j->records);
	snprintf(text[0], sizeof(text[0]), "%u", kernels);
	snprintf(text[1], sizeof(text[1]), "%u", choose(2) * choose(1500));
	snprintf(text[2], sizeof(text[2]), "%u", choose(2));
	snprintf(text[3], sizeof(text[3]), "%u", choose(40));
	snprintf(j->output, sizeof(j->output), "done %u\n", kernels);
	argv[n++] = "--metrics";
	argv[n++] = metrics[choose(ARRAY_SIZE(metrics))];
	argv[n++] = "-f";
	argv[n++] = stream_to(j->records);
	if (one_in(2)) {
		argv[n++] = "--devices";
		argv[n++] = text[2];
	}
	if (one_in(4)) {
		argv[n++] = "--kernel";
		argv[n++] = "regex:k[1-3]";
	}
	if (one_in(4)) {
		argv[n++] = "--skip";
		argv[n++] = text[3];
	}
	if (one_in(6)) {
		argv[n++] = "--wait";
		argv[n++] = "0";
	}
	argv[n++] = "--";
	argv[n++] = FAKEAPP;
	argv[n++] = "--kernels";
	argv[n++] = text[0];
	argv[n++] = "--sleep-us";
	argv[n++] = text[1];
	argv[n++] = "--exit";
	argv[n++] = "7";
	if (one_in(3)) {
		argv[n++] = "--nvtx";
	}
	if (one_in(4)) {
		argv[n++] = "--mixed";
	}
	if (one_in(2)) {
		argv[n++] = "--devices"; /* contexts on both, in turn */
		argv[n++] = "2";
	}
	if (one_in(4)) {
		argv[n++] = "--fork";
	}
	j->client = fixture_runv(f, USER_ANN + (int)choose(USERS), argv);
}

/* --- trouble --- */

/* Says something, whole or in part, and goes. */
static void say_nonsense(struct fixture *f)
{
	uint8_t data[512];
	int fd = raw_connect(f, USER_ANN + (int)choose(USERS));

	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)choose(256);
	}
	switch (choose(5)) {
	case 0:
		raw_send_bytes(fd, data, choose(sizeof(data)), -1);
		break;
	case 1:
		raw_send_header(fd, choose(64), (uint16_t)(10 + choose(60)), 0);
		raw_send_bytes(fd, data, choose(64), -1);
		break;
	case 2:
		raw_send_header(fd, UINT32_MAX, WIRE_HELLO, 0);
		break;
	case 3:
		raw_send_descriptors(fd, data, 1 + choose(16), STDIN_FILENO, 1 + choose(20));
		break;
	default:
		shutdown(fd, one_in(2) ? SHUT_WR : SHUT_RD);
		break;
	}
	close(fd);
	soak.hostile++;
}

static struct job *choose_running(struct job jobs[JOBS])
{
	struct job *j = &jobs[choose(JOBS)];

	return j->client && program_is_running(j->client) ? j : NULL;
}

static void kill_worker_of(struct fixture *f)
{
	static const char *const workers[] = { "front", "granter", "gpu", "planner" };

	if (now_ms() < soak.next_worker_death_ms) {
		return;
	}
	soak.next_worker_death_ms = now_ms() + WORKER_DEATH_EVERY_MS;
	kill(fixture_worker(f, workers[choose(ARRAY_SIZE(workers))]), SIGKILL);
	soak.worker_kills++;
}

/* A slow reader, until the next action. */
static void stop_client(struct job *j)
{
	kill(j->client->pid, SIGSTOP);
	sleep_ms(choose(300));
	kill(j->client->pid, SIGCONT);
	soak.stops++;
}

static void kill_program(struct job *j)
{
	pid_t pid = process_child(j->client->pid, NULL);

	if (pid > 0) {
		j->program_killed = true;
		kill(pid, SIGKILL);
		soak.program_kills++;
	}
}

static void kill_client(struct job *j)
{
	j->client_killed = true;
	kill(j->client->pid, SIGKILL);
	soak.client_kills++;
}

static void act(struct fixture *f, struct job jobs[JOBS])
{
	struct job *j = choose_running(jobs);

	switch (choose(12)) {
	case 0:
	case 1:
	case 2:
	case 3:
		say_nonsense(f);
		break;
	case 4:
		kill_worker_of(f);
		break;
	case 5:
		if (j && one_in(2)) {
			kill_program(j);
		}
		break;
	case 6:
		if (j && one_in(3)) {
			kill_client(j);
		}
		break;
	case 7:
		if (j) {
			stop_client(j);
		}
		break;
	default:
		sleep_ms(choose(40));
		break;
	}
}

/* --- what must be true after a round --- */

/* Programs whose client was killed, and the forked children of killed programs, which exit with 0.
 */
static void on_orphan(pid_t pid, int status)
{
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

	if (!killed &&
	    (!WIFEXITED(status) || (WEXITSTATUS(status) != 7 && WEXITSTATUS(status) != 0))) {
		fail_msg("pid %d, left by a client, ended with %x", (int)pid, (unsigned)status);
	}
}

static void expect_own_end(struct job *j)
{
	CLEAN_FREE char *out = read_file(j->client->out);

	if (out[0] != '\0') {
		assert_string_equal(out, j->output);
	}
	if (j->client_killed) {
		return;
	}
	if (j->program_killed && WIFEXITED(j->client->status) &&
	    WEXITSTATUS(j->client->status) == 128 + SIGKILL) {
		return;
	}
	if (out[0] == '\0') {
		expect_exit(j->client, 125);
		expect_message(j->client, "gpuctr-client: error[");
		soak.refused++;
		return;
	}
	expect_exit(j->client, 7);
}

static void expect_totals(const struct job *j)
{
	static const char *const parts[] = { "measured", "filtered", "capturing", "unready",
					     "failed",	 "dropped",  "lost" };
	uint64_t sum = 0, measured;
	struct lines l;
	const char *line;

	if (j->client_killed || access(j->records, F_OK) < 0) {
		return;
	}
	lines_load(&l, j->records);
	line = lines_at(&l, "totals", 0);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		sum += (uint64_t)line_number(line, parts[i]);
	}
	measured = (uint64_t)line_number(line, "measured");
	if (sum != (uint64_t)line_number(line, "seen") || measured != lines_count(&l, "kernel")) {
		fail_msg("%s: %zu records, %s", j->records, lines_count(&l, "kernel"), line);
	}
	soak.captures++;
	soak.seen += (uint64_t)line_number(line, "seen");
	soak.measured += measured;
	soak.lost += (uint64_t)line_number(line, "lost");
	soak.dropped += (uint64_t)line_number(line, "dropped");
	soak.filtered += (uint64_t)line_number(line, "filtered");
	soak.unready += (uint64_t)line_number(line, "unready");
	soak.failed += (uint64_t)line_number(line, "failed");
	lines_deinit(&l);
}

static void expect_no_captures(struct fixture *f)
{
	for (int i = 0; i < USERS; i++) {
		struct gpuctr_capture_info info;

		wait_until(raw_captures(f, USER_ANN + i, &info) == 0);
	}
}

static void run_round(struct fixture *f)
{
	uint64_t end = now_ms() + ROUND_MS;
	struct job jobs[JOBS] = { 0 };
	unsigned started = 0;

	while (started < JOBS || now_ms() < end) {
		if (started < JOBS && one_in(2)) {
			start_job(f, &jobs[started], started);
			started++;
		}
		act(f, jobs);
	}
	for (unsigned i = 0; i < JOBS; i++) {
		program_wait(jobs[i].client);
	}
	fixture_wait_for_orphans(f, on_orphan);
	for (unsigned i = 0; i < JOBS; i++) {
		expect_own_end(&jobs[i]);
		expect_totals(&jobs[i]);
	}
	expect_service_soon(f, PATIENCE_MS);
	expect_no_captures(f);
	fixture_forget_programs(f, 1); /* all but the daemon */
	soak.rounds++;
}

SYSTEM_TEST(everything_at_once)
{
	struct fixture *f = *state;
	size_t seconds = requirement_amount(45, 3600);
	const char *seed = getenv("GPUCTR_TEST_SEED");
	uint64_t end = now_ms() + seconds * 1000, middle = now_ms() + seconds * 500;
	struct footprint before;
	long growth = 0, half = 0;

	soak.seed = soak.random = seed ? strtoull(seed, NULL, 10) : now_ms() + 1;
	print_message("GPUCTR_TEST_SEED=%llu\n", (unsigned long long)soak.seed);
	fixture_limit((unsigned)seconds + 120);
	f->violations_expected = true;
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	/* It crashes over the agent's thread if that ends as it begins. */
	fixture_check_leaks(false);
	run_round(f);
	footprint_take(f, &before);
	while (now_ms() < end) {
		run_round(f);
		growth = expect_no_leak(f, &before);
		half = now_ms() < middle ? growth : half;
	}
	requirement_figure("R27",
			   "%zu s, seed %llu: %u rounds, %u captures, %u refused, %u hostile "
			   "connections, %u slow readers, %u programs, %u clients and %u "
			   "workers killed",
			   seconds, (unsigned long long)soak.seed, soak.rounds, soak.captures,
			   soak.refused, soak.hostile, soak.stops, soak.program_kills,
			   soak.client_kills, soak.worker_kills);
	requirement_figure("R27",
			   "%llu kernels seen = %llu measured + %llu filtered + %llu unready + "
			   "%llu failed + %llu dropped + %llu lost; memory grew by %ld KiB, %ld of "
			   "them in the second half",
			   (unsigned long long)soak.seen, (unsigned long long)soak.measured,
			   (unsigned long long)soak.filtered, (unsigned long long)soak.unready,
			   (unsigned long long)soak.failed, (unsigned long long)soak.dropped,
			   (unsigned long long)soak.lost, growth, growth - half);
}
