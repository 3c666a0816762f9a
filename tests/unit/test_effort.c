/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels that were made up so that they cost their capturer much: time and memory are compared
 * with those of an honest program of as many kernels and samples, each in a process of its own. */

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#include "client/attribution/attribution.h"
#include "client/attribution/effort.h"

#define SAMPLE_NS 10000
#define KERNEL_NS 20000
#define METRICS 2

/* With a sanitizer more kernels take minutes, and times are not compared. */
#ifdef __SANITIZE_ADDRESS__
enum { KERNELS = 12000, IS_SANITIZED = 1 };
#else
enum { KERNELS = 60000, IS_SANITIZED = 0 };
#endif
enum { STEP = 50, NODES = 20000 };

/* What made-up kernels may cost, beside an honest program. They take up to 38 times as long and 14
 * times as much memory; without a bound the crowd takes some hundred times as long and 25 times as
 * much memory. */
#define TIMES_SLOWER 60
#define TIMES_LARGER 20

static uint64_t seed = 7;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((seed >> 33) % n);
}

typedef struct attribution_kernel make_kernel(uint32_t i);

static struct attribution_kernel make_at(uint32_t i, int64_t ns)
{
	return (struct attribution_kernel){ .id = i,
					    .sequence = 1,
					    .shape = i % STEP,
					    .start_ns = (int64_t)i * KERNEL_NS,
					    .end_ns = (int64_t)i * KERNEL_NS + ns };
}

static struct attribution_kernel make_honest(uint32_t i)
{
	return make_at(i, KERNEL_NS - 2000 - i % STEP * 100);
}

/* Each a stream and a shape of its own, and sixty of them at any time. */
static struct attribution_kernel make_crowd(uint32_t i)
{
	struct attribution_kernel k = make_at(i, 30 * KERNEL_NS + random_below(30 * KERNEL_NS));

	k.sequence = i;
	k.shape = i;
	return k;
}

/* Each in samples with forty others that are anywhere in the capture. */
static struct attribution_kernel make_tangle(uint32_t i)
{
	struct attribution_kernel k = make_at(i, 40 * KERNEL_NS);

	k.place = 1 + random_below(NODES);
	k.shape = (uint32_t)k.place;
	return k;
}

/* Nearly no equation has more than two unknowns, and each is with any other. */
static struct attribution_kernel make_pairs(uint32_t i)
{
	struct attribution_kernel k = make_honest(i);

	k.place = 1 + random_below(NODES);
	k.shape = (uint32_t)k.place;
	return k;
}

/* A thousand at once, all the time. */
static struct attribution_kernel make_thousand(uint32_t i)
{
	struct attribution_kernel k = make_at(i, 1000 * KERNEL_NS);

	k.sequence = i % 1000;
	return k;
}

/* Steps that nearly are, at every place of a step. */
static struct attribution_kernel make_nearly(uint32_t i)
{
	struct attribution_kernel k = make_honest(i);

	k.shape = random_below(8) == 0 ? random_below(2) : 3;
	return k;
}

static struct attribution_kernel make_streams(uint32_t i)
{
	struct attribution_kernel k = make_honest(i);

	k.sequence = random_below(20000);
	return k;
}

struct told {
	uint64_t kernels, measured, crowded, costly;
};

static void on_kernel(void *user, const struct attribution_result *result)
{
	struct told *told = user;

	told->kernels++;
	told->measured += result->state == ATTRIBUTION_MEASURED;
	told->crowded += result->state == ATTRIBUTION_CROWDED;
	told->costly += result->state == ATTRIBUTION_COSTLY;
}

/* Kernels and samples in the order of time, of many windows. */
static struct told attribute(make_kernel *make, uint32_t kernels, int (*on_pause)(void *user))
{
	struct told told = { 0 };
	const struct attribution_options options = { .metrics = METRICS,
						     .window_samples = 40000,
						     .on_kernel = on_kernel,
						     .on_pause = on_pause,
						     .user = &told };
	struct attribution *a = attribution_new(&options);

	assert_non_null(a);
	for (uint32_t i = 0; i < kernels; i++) {
		struct attribution_kernel k = make(i);

		assert_int_equal(attribution_kernel(a, &k), 0);
		for (int64_t at = (int64_t)i * KERNEL_NS; at < (int64_t)(i + 1) * KERNEL_NS;
		     at += SAMPLE_NS) {
			double values[METRICS] = { 1e6 * (1 + i % STEP), 1e5 * (1 + i % 3) };

			assert_int_equal(attribution_sample(a, at, at + SAMPLE_NS, values), 0);
		}
	}
	assert_int_equal(attribution_finish(a), 0);
	assert_int_equal(told.kernels, kernels);
	attribution_free(a);
	return told;
}

struct cost {
	struct told told;
	double seconds, mib;
};

/* In a process of its own, which alone tells its largest size. */
static struct cost cost_of(make_kernel *make)
{
	struct cost cost = { .seconds = 0 };
	struct rusage usage;
	int status, pipes[2];
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		struct told told = attribute(make, KERNELS, NULL);

		_exit(write(pipes[1], &told, sizeof(told)) == sizeof(told) ? 0 : 1);
	}
	assert_int_equal(wait4(pid, &status, 0, &usage), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(pipes[0], &cost.told, sizeof(cost.told)), sizeof(cost.told));
	close(pipes[0]);
	close(pipes[1]);
	cost.seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
	cost.mib = (double)usage.ru_maxrss / 1024;
	return cost;
}

TEST(made_up_kernels_cost_little_more_than_honest_ones)
{
	static const struct {
		const char *name;
		make_kernel *make;
	} rows[] = {
		{ "a crowd", make_crowd },	 { "a tangle", make_tangle },
		{ "pairs", make_pairs },	 { "a thousand", make_thousand },
		{ "nearly steps", make_nearly }, { "streams", make_streams },
	};
	struct cost honest = cost_of(make_honest);
	uint64_t costly = 0;

	printf("honest: %.2f s, %.0f MiB\n", honest.seconds, honest.mib);
	assert_true(honest.told.measured > KERNELS - KERNELS / 100);
	assert_int_equal(honest.told.costly, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cost cost = cost_of(rows[i].make);

		printf("%s: %.2f s (%.1f times), %.0f MiB (%.1f times), of %d too costly %lu, "
		       "crowded "
		       "%lu\n",
		       rows[i].name, cost.seconds, cost.seconds / honest.seconds, cost.mib,
		       cost.mib / honest.mib, KERNELS, (unsigned long)cost.told.costly,
		       (unsigned long)cost.told.crowded);
		assert_true(IS_SANITIZED || cost.seconds < TIMES_SLOWER * honest.seconds);
		assert_true(IS_SANITIZED || cost.mib < TIMES_LARGER * honest.mib);
		costly += cost.told.costly;
	}
	assert_true(IS_SANITIZED || costly > 0); /* few kernels do not reach the bound */
}
