/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* Programs that do what few do: they run as they do unmeasured, and what is told of them is true.
 */

/* PTHREAD_STACK_MIN; frames are larger with a sanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SMALL_STACK_KIB "256"
#else
#define SMALL_STACK_KIB "16"
#endif

#define FAKEACTIVITY built_path("tests/fake/fakeactivity")
#define FAKEODD built_path("tests/fake/fakeodd")
#define FAKESMALL built_path("tests/fake/fakesmall")

/* --- small stacks --- */

enum { SMALL_ROUNDS = 20, LONG_BYTES = 16000 };

/* A kernel of so many arguments, as libraries of templates have it. */
static const char *make_long_name(void)
{
	static char name[LONG_BYTES + 1];
	size_t n = (size_t)sprintf(name, "_Z1kI");

	while (n + 40 < LONG_BYTES) {
		n += (size_t)sprintf(name + n, "%s", "St6vectorISt6vectorIiEE");
	}
	strcpy(name + n, "EvT_");
	return name;
}

/* In each way to measure, from as small a stack as a thread can have. */
SYSTEM_TEST(small_stacks_suffice)
{
	static const struct {
		const char *const options[8];
		unsigned measured; /* of three kernels */
	} ways[] = {
		{ { "--metrics", "memory" }, 3 },
		{ { "--metrics", "sm__inst_executed.sum" }, 3 },
		{ { "--mode", "trace" }, 3 },
		{ { "--mode", "trace", "--graphs", "whole" }, 3 },
		{ { "--metrics", "memory", "-k", "regex:^void k<std::vector<.*> >\\)$" }, 1 },
		{ { "--metrics", "memory", "-k", "k" }, 1 },
		{ { "--mode", "trace", "-k", "regex:reduce" }, 1 },
		{ { "--metrics", "memory", "--nvtx", "narrow/regex:^w.*e" }, 3 },
	};
	struct fixture *f = *state;

#ifdef __SANITIZE_THREAD__
	fixture_skip("the thread sanitizer needs larger stacks than these");
#endif
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct program *client;
		struct lines l;

		client = lines_measure(f, &l, ways[i].options,
				       ARGUMENTS(FAKESMALL, SMALL_STACK_KIB, "_Z2k0Pf",
						 "_Z6reducePfi", make_long_name()),
				       0);
		expect_output(client, "done 60\n");
		if (lines_total(&l, "measured") < ways[i].measured * SMALL_ROUNDS) {
			fail_msg("way %zu: %lu measured", i,
				 (unsigned long)lines_total(&l, "measured"));
		}
		lines_deinit(&l);
		fixture_forget_programs(f, 1);
	}
}

/* --- stream captures that nobody ends --- */

static const char *const capturing[] = { "stream", "context" };

SYSTEM_TEST(who_destroys_what_captures_is_measured_on)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(capturing); i++) {
		struct program *client;
		struct lines l;

		client = lines_measure(f, &l, ARGUMENTS("--metrics", "memory"),
				       ARGUMENTS(FAKEODD, capturing[i], "3000", "0"), 0);
		expect_output(client, "done 3000\n");
		assert_int_equal(lines_total(&l, "measured"), 3000);
		assert_int_equal(lines_total(&l, "capturing"), 300);
		assert_int_equal(lines_total(&l, "unready"), 0);
		lines_deinit(&l);
	}
}

/* It can be captured again, as soon as before. */
SYSTEM_TEST(who_destroys_what_captures_is_captured_again)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(capturing); i++) {
		struct program *p = fixture_client(f, USER_ANN, "standby", "--", FAKEODD,
						   capturing[i], "100000", "1000", NULL);

		on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
		for (int round = 0; round < 3; round++) {
			struct program *client =
				fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
					       "--metrics", "dram__bytes_read.sum", "--duration",
					       "0.3", stream_to(fixture_path(f, "records")), "-f",
					       NULL);
			struct lines l;

			expect_exit(client, 0);
			lines_load(&l, fixture_path(f, "records"));
			assert_true(lines_total(&l, "measured") > 0);
			assert_true(lines_total(&l, "unready") < lines_total(&l, "seen") / 4);
			lines_deinit(&l);
			on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
		}
		program_kill(p, SIGKILL);
		program_wait(p);
	}
}

/* --- a program that uses CUPTI's activity records itself --- */

/* The program frees a buffer that a forced flush returns while CUPTI's thread is at work in it, as
 * the vendor's does. */
static void need_no_sanitizer(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	fixture_skip("a sanitizer ends a program that frees what CUPTI is at work in");
#endif
}

/* From when on, what is said, what of its own records the program has in the end, and how many
 * kernels have a time of CUPTI's at most. */
static const struct {
	const char *when, *said, *has;
	unsigned timed;
} users[] = {
	{ "0", "the program uses CUPTI's activity records itself", "done, ", 6000 },
	{ "2000", "the program has begun to use CUPTI's activity records itself", "done, all\n",
	  2000 },
};

/* CUPTI gives the records to the last who asks, and who was first shows only if CUPTI had a buffer
 * of theirs by then. Each launch is told, and the program ends as it would. */
SYSTEM_TEST(who_traces_itself_is_told_of)
{
	static const char *const ways[] = { "--metrics=memory", "--mode=trace" };
	struct fixture *f = *state;

	need_no_sanitizer();
	f->violations_expected = true; /* it frees what our forced flush returns */
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(users) * ARRAY_SIZE(ways); i++) {
		struct program *client;
		struct lines l;

		client =
			lines_measure(f, &l, ARGUMENTS(ways[i / 2]),
				      ARGUMENTS(FAKEACTIVITY, users[i % 2].when, "6000", "300"), 0);
		expect_in_output(client, users[i % 2].has);
		if (i % 2 != 0) {
			expect_message(client, users[1].said);
		}
		assert_true(lines_total(&l, "measured") == 6000);
		assert_true(count_text(fixture_path(f, "records"), "\"clock\":\"gpu\"") <=
			    users[i % 2].timed);
		lines_deinit(&l);
	}
}

static struct program *start_user(struct fixture *f, const char *when)
{
	struct program *p = fixture_client(f, USER_ANN, "standby", "--", FAKEACTIVITY, when,
					   "1000000", "300", NULL);

	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	return p;
}

static struct program *capture_user(struct fixture *f, const struct program *p, const char *seconds)
{
	struct program *client = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
						"--mode", "trace", "--duration", seconds, NULL);

	expect_exit(client, 0);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	return client;
}

static void end_user(struct program *p, const char *has)
{
	program_kill(p, SIGTERM);
	expect_exit(p, 0);
	expect_in_output(p, has);
}

/* Also when captures end, and others follow. */
SYSTEM_TEST(who_traces_itself_is_captured_again)
{
	struct fixture *f = *state;

	need_no_sanitizer();
	f->violations_expected = true; /* it frees what our forced flush returns */
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		struct program *p = start_user(f, users[i].when);

		expect_message(capture_user(f, p, i == 0 ? "0.4" : "3"), users[i].said);
		capture_user(f, p, "0.2");
		end_user(p, users[i].has);
	}
}

/* The first capture has its records, and the second one leaves those of the program alone. */
SYSTEM_TEST(who_traces_itself_between_captures_is_captured_again)
{
	struct fixture *f = *state;
	struct program *p;

	need_no_sanitizer();
	f->violations_expected = true; /* it frees what our forced flush returns */
	fixture_start_daemon(f, NULL);
	p = start_user(f, "2000000");
	expect_no_message(capture_user(f, p, "0.3"), "activity records");
	program_kill(p, SIGUSR1);
	sleep_ms(100);
	expect_message(capture_user(f, p, "4"), users[1].said);
	end_user(p, users[1].has);
}

/* --- calls that few programs make --- */

/* What they launch is counted, and why it is not measured is told; and nothing of what they give
 * the GPU is in the ranges of kernels. */
SYSTEM_TEST(other_calls_are_counted_and_kept_out)
{
	static const char *const ways[] = { "--metrics=dram__bytes_read.sum", "--mode=trace" };
	struct fixture *f = *state;

	setenv("GPUCTR_FAKE_RETURN_US", "100", 1);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct program *client;
		uint64_t others;
		struct lines l;

		client = lines_measure(f, &l, ARGUMENTS(ways[i]),
				       ARGUMENTS(FAKEODD, "calls", "500", "100"), 0);
		expect_output(client, "done 500\n");
		others = message_number(client, " by other calls");
		assert_true(others > 0);
		assert_int_equal(lines_total(&l, "seen"), 500 + others);
		assert_true(lines_total(&l, "unready") >= others);
		assert_int_equal(lines_total(&l, "measured"), lines_count(&l, "kernel"));
		assert_true(lines_total(&l, "measured") > 0);
		expect_message(client, "launches by cuLaunch(), cuLaunchGrid() or "
				       "cuLaunchCooperativeKernelMultiDevice() are counted as not "
				       "ready");
		for (size_t k = 0; i == 0 && k < lines_count(&l, "kernel"); k++) {
			assert_true(line_number(lines_at(&l, "kernel", k),
						"dram__bytes_read.sum") == 16 * 128);
		}
		lines_deinit(&l);
	}
}

/* --- many contexts --- */

SYSTEM_TEST(contexts_beyond_the_most_are_told)
{
	static const struct {
		const char *contexts, *output;
		bool beyond;
	} rows[] = { { "256", "done 512\n", false }, { "300", "done 600\n", true } };
	static const char *const ways[] = { "--metrics=memory", "--mode=trace" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows) * ARRAY_SIZE(ways); i++) {
		struct program *client;
		struct lines l;

		client =
			lines_measure(f, &l, ARGUMENTS(ways[i / 2]),
				      ARGUMENTS(FAKEODD, "contexts", rows[i % 2].contexts, "2"), 0);
		expect_output(client, rows[i % 2].output);
		assert_int_equal(lines_total(&l, "seen"), rows[i % 2].beyond ? 600 : 512);
		assert_int_equal(lines_total(&l, "measured") + lines_total(&l, "unready"),
				 lines_total(&l, "seen"));
		if (rows[i % 2].beyond) {
			expect_message(client, "the program has more than 256 CUDA contexts");
		} else {
			expect_no_message(client, "CUDA contexts");
		}
		lines_deinit(&l);
	}
}
