/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/requirements/requirement.h"
#include "tests/system/query.h"
#include "tests/system/raw.h"
#include "tests/system/scripted.h"
#include "tests/system/standby.h"

/* R34: what a captured program says costs its capturer a bounded amount. Kernels that never ran,
 * made up to keep the client busy: time and memory are compared with those of an honest program of
 * as many kernels, the lease and the capture end on time, and Ctrl-C keeps what came. */

enum {
	KERNELS = 300000,
	KERNEL_NS = 16000,
	FRAME = 2000,
	STEP = 50,
	AT_ONCE = 60,
	/* Live, values are calculated when ten seconds of samples have come. */
	LIVE_S = 11,
	SHORT_S = 5, /* the program sends its kernels within this time, on a busy machine too */
	LATE_MS = 4000,
	SOON_MS = 20000,
};

/* Each metric is calculated by itself. A sanitizer takes minutes for one. */
#ifdef __SANITIZE_ADDRESS__
#define METRICS 1
#define METRIC_NAMES "dram__bytes_read.sum"
#define BOUND "too many at once" /* met before that of the work, which grows with metrics */
#else
#define METRICS 4
#define METRIC_NAMES "dram__bytes_read.sum,dram__bytes_write.sum,dram__bytes.sum,lts__t_bytes.sum"
#define BOUND "too much to calculate"
#endif

/* Made-up kernels take 12 times as long and 1.7 times as much memory. */
#define TIMES_SLOWER 30
#define TIMES_LARGER 4

static int setup(void **state)
{
	int r = standby_setup(state);

	fixture_limit(550);
	return r;
}

/* --- a program --- */

struct made {
	uint32_t zero[FRAME], function[FRAME], grid[3 * FRAME], block[3 * FRAME], gpu_clock[FRAME];
	uint64_t stream[FRAME], duration_ns[FRAME];
	int64_t step_ns[FRAME]; /* since the kernel before */
	double values[METRICS * FRAME];
};

static uint32_t random_below(uint32_t n)
{
	static uint64_t seed = 11;

	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((seed >> 33) % n);
}

typedef void make_kernel(struct made *m, size_t at, uint32_t i);

static void make_honest(struct made *m, size_t at, uint32_t i)
{
	m->grid[3 * at] = 1 + i % STEP;
	m->stream[at] = 7;
	m->duration_ns[at] = KERNEL_NS - 2000 - i % STEP * 100;
}

/* Each of a shape and a stream of its own, and sixty of them at any time. */
static void make_crowd(struct made *m, size_t at, uint32_t i)
{
	m->grid[3 * at] = 1 + i;
	m->stream[at] = i;
	m->duration_ns[at] = KERNEL_NS * AT_ONCE / 2 + random_below(KERNEL_NS * AT_ONCE);
}

static void send_columns(const struct standby_agent *a, const struct wire_record_columns *c,
			 uint64_t first, uint32_t count)
{
	struct wire_message inner = { .type = WIRE_RECORD_COLUMNS, .record_columns = *c },
			    m = { .type = WIRE_RECORDS };
	struct buffer payload = { 0 };
	struct arena arena;

	arena_init(&arena, LIMIT_UNPACKED_BYTES);
	assert_true(wire_encode_payload(&arena, &payload, &inner) >= 0);
	m.records = (struct wire_records){
		a->capture, a->number, first, count, { buffer_length(&payload), payload.data }
	};
	assert_true(raw_send(a->fd, &m, -1));
	buffer_deinit(&payload);
	arena_deinit(&arena);
}

static void send_kernels(const struct standby_agent *a, make_kernel *make, int64_t begin_ns)
{
	static struct made made;
	static const char *const names[] = { "_Z6kernelv" };
	static const uint32_t one = 1, none = 0;
	const struct wire_record_columns definitions = { .first_string = 1,
							 .strings = { 1, names },
							 .first_function = 1,
							 .function_name = { 1, &one },
							 .function_static_shared = { 1, &none },
							 .function_registers = { 1, &none } };

	send_columns(a, &definitions, 0, 0);
	for (uint32_t i = 0; i < KERNELS; i += FRAME) {
		struct wire_record_columns c = {
			.kind = { FRAME, made.zero },
			.function = { FRAME, made.function },
			.grid = { 3 * (size_t)FRAME, made.grid },
			.block = { 3 * (size_t)FRAME, made.block },
			.dynamic_shared = { FRAME, made.zero },
			.device = { FRAME, made.zero },
			.context = { FRAME, made.zero },
			.stream = { FRAME, made.stream },
			.correlation = { FRAME, made.zero },
			.thread = { FRAME, made.zero },
			.start_ns = { FRAME, made.step_ns },
			.site = { FRAME, made.zero },
			.opened = { FRAME, made.zero },
			.payload_type = { FRAME, made.zero },
			.payload = { FRAME, made.stream },
			.number_bytes = { FRAME, made.zero },
			.range_set = { FRAME, made.zero },
			.values = { METRICS * (size_t)FRAME, made.values },
			.clock = { FRAME, made.gpu_clock },
			.duration_ns = { FRAME, made.duration_ns },
		};

		for (uint32_t k = 0; k < FRAME; k++) {
			made.function[k] = 1;
			made.grid[3 * k + 1] = made.grid[3 * k + 2] = 1;
			made.block[3 * k] = made.block[3 * k + 1] = made.block[3 * k + 2] = 1;
			made.gpu_clock[k] = GPUCTR_CLOCK_GPU;
			made.step_ns[k] = k == 0 ? begin_ns + (int64_t)i * KERNEL_NS : KERNEL_NS;
			make(&made, k, i + k);
		}
		send_columns(a, &c, i, FRAME);
	}
}

/* The GPU that is sampled. */
static char *read_gpu(struct fixture *f)
{
	wait_until(access(fixture_path(f, "gpu"), R_OK) >= 0);
	return read_file(fixture_path(f, "gpu"));
}

static void send_process(struct fixture *f, const struct standby_agent *a)
{
	CLEAN_FREE char *uuid = read_gpu(f);
	const struct gpuctr_device device = { .uuid = uuid, .name = "GPU", .chip = "GH100" };
	const struct wire_message m = { .type = WIRE_PROCESS,
					.process = { .capture = a->capture,
						     .process = a->number,
						     .program = "python3",
						     .devices = { 1, &device } } };

	assert_true(raw_send(a->fd, &m, -1));
}

/* --- its capture --- */

/* Samples as the clock goes, and the GPU's name. */
static void use_sampler(struct fixture *f)
{
	char body[512];

	snprintf(body, sizeof(body),
		 "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
		 "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
		 "import os, select\n"
		 "open('%s', 'w').write(gpu)\n"
		 "os.rename('%s', '%s')\n"
		 "begin(gpu, len(names) * [0])\n"
		 "while not select.select([0], [], [], 0)[0]:\n"
		 "    samples(10000, 1000, 1e6)\n"
		 "    time.sleep(max(0, (at - time.time_ns()) / 10**9))\n"
		 "end()\n",
		 fixture_path(f, "gpu.new"), fixture_path(f, "gpu.new"), fixture_path(f, "gpu"));
	scripted_sampler(f, body);
}

struct cost {
	double seconds; /* of the client's time */
	double mib;
	unsigned stopped_ms, released_ms; /* since the capture began, and since the program ended */
};

/* Until it ends it is looked at again and again. */
static bool look(const struct program *client, struct cost *cost)
{
	char path[64], line[512] = "";
	unsigned long user, system;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)client->pid);
	file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file) || !strrchr(line, ')')) {
		return false;
	}
	fclose(file);
	if (sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		   &user, &system) == 2 &&
	    user + system > 0) {
		cost->seconds = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
	}
	snprintf(path, sizeof(path), "/proc/%d/status", (int)client->pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		unsigned long kib;

		if (sscanf(line, "VmHWM: %lu", &kib) == 1) {
			cost->mib = (double)kib / 1024;
		}
	}
	if (file) {
		fclose(file);
	}
	return true;
}

/* Captures the program, until its captures are over for the daemon. */
static struct program *capture(struct fixture *f, make_kernel *make, const char *seconds,
			       struct cost *cost)
{
	struct standby_agent a;
	struct program *client;
	struct gpuctr_capture_info info;
	uint64_t began, ended;

	unlink(fixture_path(f, "gpu"));
	a = standby_register(f, USER_ANN);
	client = fixture_client(f, USER_ANN, "capture", "--mode", "sample", "--program", "python3",
				"--metrics", METRIC_NAMES, "--duration", seconds, "-o",
				fixture_path(f, "run.gpuctr"), "-f", NULL);
	standby_expect_welcome(&a);
	began = now_ms();
	send_process(f, &a);
	{
		struct timespec now;

		clock_gettime(CLOCK_REALTIME, &now);
		send_kernels(&a, make, now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
	}
	standby_expect_stop(&a, 0);
	cost->stopped_ms = (unsigned)(now_ms() - began);
	ended = now_ms();
	standby_goodbye(&a, KERNELS);
	close(a.fd);
	while (raw_captures(f, USER_ANN, &info) > 0) {
		assert_true(now_ms() < ended + PATIENCE_MS);
		look(client, cost);
		sleep_ms(10);
	}
	cost->released_ms = (unsigned)(now_ms() - ended);
	return client;
}

static struct program *capture_whole(struct fixture *f, make_kernel *make, struct cost *cost)
{
	char seconds[16];
	struct program *client;

	snprintf(seconds, sizeof(seconds), "%d", LIVE_S);
	client = capture(f, make, seconds, cost);
	while (program_is_running(client)) {
		look(client, cost);
		sleep_ms(10);
	}
	expect_exit(client, 0);
	print_message("%.1f s, %.0f MiB; ended after %u ms, and the lease %u ms later\n",
		      cost->seconds, cost->mib, cost->stopped_ms, cost->released_ms);
	if (requirement_times_count()) {
		assert_true(cost->stopped_ms < LIVE_S * 1000 + LATE_MS);
		assert_true(cost->released_ms < LATE_MS);
	}
	assert_int_equal((int)query_run(f, "SELECT count(*) FROM record"), KERNELS);
	return client;
}

#define MADE_UP_TEST(f) TEST_WITH(f, setup, standby_teardown)

MADE_UP_TEST(made_up_kernels_cost_little_more_than_honest_ones)
{
	struct fixture *f = *state;
	struct cost honest = { 0 }, made_up = { 0 };
	struct program *client;

	fixture_start_daemon(f, "--set", "sharing=shared", NULL);
	use_sampler(f);
	client = capture_whole(f, make_honest, &honest);
	expect_no_message(client, "too much to calculate");
	assert_true(query_run(f, "SELECT count(*) FROM record WHERE \"dram__bytes_read.sum\" IS "
				 "NOT NULL") > KERNELS / 2);
	client = capture_whole(f, make_crowd, &made_up);
	expect_message(client, BOUND);
	requirement_figure("R34",
			   "made-up kernels take %.1f times an honest program's time and %.1f "
			   "times its memory; ended after %.1f s of %d, the lease %u ms later",
			   made_up.seconds / honest.seconds, made_up.mib / honest.mib,
			   made_up.stopped_ms / 1000.0, LIVE_S, made_up.released_ms);
	if (requirement_times_count()) {
		assert_true(made_up.seconds < TIMES_SLOWER * honest.seconds);
		assert_true(made_up.mib < TIMES_LARGER * honest.mib);
	}
}

/* While their values are calculated. */
MADE_UP_TEST(who_is_interrupted_keeps_what_came)
{
	struct fixture *f = *state;
	struct cost cost = { 0 };
	struct program *client;
	char seconds[16];
	uint64_t began;

	fixture_start_daemon(f, "--set", "sharing=shared", NULL);
	use_sampler(f);
	snprintf(seconds, sizeof(seconds), "%d", SHORT_S);
	client = capture(f, make_crowd, seconds, &cost);
	expect_running(client);
	program_kill(client, SIGINT);
	began = now_ms();
	expect_exit(client, 128 + SIGINT);
	print_message("over %u ms after the signal\n", (unsigned)(now_ms() - began));
	assert_true(!requirement_times_count() || now_ms() - began < SOON_MS);
	expect_message(client, "kernels whose values are not calculated yet have none");
	expect_message(client, "given up");
	assert_int_equal((int)query_run(f, "SELECT count(*) FROM record"), KERNELS);
	assert_int_equal((int)query_run(f, "SELECT count(*) FROM record WHERE "
					   "\"dram__bytes_read.sum\" IS NOT NULL"),
			 0);
}
