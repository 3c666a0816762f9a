/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/between.h"
#include "tests/system/on_demand.h"

/* Programs that run already: started in standby, listed, captured, and left as they were. */

SYSTEM_TEST(a_capture_ends_after_its_duration)
{
	struct fixture *f = *state;
	uint64_t begin_ms;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	begin_ms = now_ms();
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--duration", "0.5",
			   NULL);
	expect_exit(c, 0);
	assert_true(now_ms() - begin_ms >= 500);
	expect_message(c, "next: with -o FILE this is kept, for gpuctr-client report FILE\n");
	expect_running(p);
	program_kill(p, SIGKILL);
}

/* The driver takes longer to give a program its counters than the capture is to last. */
SYSTEM_TEST(a_duration_begins_with_the_first_record)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	fixture_set_knob(f, "ioctl_delay_ms", 150);
	expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
				   "--fail-if-none", "--duration", "0.1", NULL),
		    0);
	fixture_set_knob(f, "ioctl_delay_ms", 0);
	program_kill(p, SIGKILL);
}

/* It launched kernels, and none of those that were asked for. */
SYSTEM_TEST(a_script_hears_that_a_capture_has_no_kernel)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--fail-if-none",
			   "--nvtx", "step/", "--duration", "0.5", NULL);
	expect_exit(c, 124);
	expect_message(c, "othing was measured");
	expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--nvtx",
				   "step/", "--duration", "0.5", NULL),
		    0);
	program_kill(p, SIGKILL);
}

SYSTEM_TEST(a_running_program_is_captured_any_number_of_times)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
	on_demand_capture(f, USER_ANN, p, "dram__bytes_write.sum");
	on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	expect_running(p);
	expect_no_owner(f);
	program_kill(p, SIGKILL);
}

/* Records are complete so long after their kernels ran. */
static struct program *start_behind(struct fixture *f, const char *late_ms)
{
	struct program *p;

	setenv("GPUCTR_FAKE_ACTIVITY_LATE_MS", late_ms, 1);
	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	return p;
}

/* CUPTI is at work in buffers that it was forced to return (tests/fake/activity.c). */
SYSTEM_TEST(a_program_outlives_captures_that_end_within_kernels)
{
	struct fixture *f = *state;
	struct program *p = start_behind(f, "1000");

	for (int i = 0; i < 4; i++) {
		expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
					   "--mode", "trace", "--duration", "0.2", NULL),
			    0);
	}
	expect_running(p);
	program_kill(p, SIGKILL);
}

/* The daemon would otherwise go on believing in a capture that is freed: it told its holder from
 * memory that was another's by then, and ended. */
SYSTEM_TEST(a_capture_that_is_refused_lets_go_of_its_programs)
{
	struct fixture *f = *state;
	struct program *p, *c;
	pid_t front;

	fixture_start_daemon(f, NULL);
	front = fixture_worker(f, "front");
	p = on_demand_start_listed(f, USER_ANN);
	for (int i = 0; i < 3; i++) {
		c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--metrics",
				   "no__such_metric.sum", NULL);
		expect_exit(c, 125);
		expect_message(c, "metric-unknown");
		assert_true(on_demand_is_listed(f, USER_ANN, p, "\"capture\":0"));
	}
	on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
	assert_int_equal(fixture_worker(f, "front"), front);
	expect_running(p);
	program_kill(p, SIGKILL);
}

SYSTEM_TEST(who_measures_already_is_named)
{
	struct fixture *f = *state;
	struct program *p, *first, *second;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	first = fixture_client(f, USER_ANN, "capture", "--all", NULL);
	expect_text_soon(first->err, "measuring 1 process");
	second = fixture_client(f, USER_ANN, "capture", "--all", NULL);
	expect_exit(second, 125);
	expect_message(second, "measures it now");
	expect_message(second, "every process that matches is being measured already");
	expect_running(first);
	program_kill(first, SIGINT);
	expect_exit(first, 0);
	expect_message(first, " seen in 1 process");
	expect_running(p);
	program_kill(p, SIGKILL);
}

/* Is there a line of the process with this text at the end? */
static bool has_row(struct program *c, const struct program *p, const char *why)
{
	char *text, *line, *lines;
	char pid[32];
	bool found = false;

	program_wait(c);
	text = read_file(c->err);
	snprintf(pid, sizeof(pid), "process %d (fakeapp)", p->pid);
	for (line = strtok_r(text, "\n", &lines); line; line = strtok_r(NULL, "\n", &lines)) {
		found |= strstr(line, pid) && strstr(line, why);
	}
	free(text);
	return found;
}

static void expect_row(struct program *c, const struct program *p, const char *why)
{
	if (!has_row(c, p, why)) {
		fail_msg("no row of %d with \"%s\" in %s", p->pid, why, c->err);
	}
}

/* A client that has asked what there is, and whose wish has not reached the daemon. */
static struct program *capture_slowly(struct fixture *f, struct between *b, const char *list,
				      const char *gpu, const char *path)
{
	struct program *c;

	between_begin(b, f, USER_ANN);
	c = fixture_client(f, USER_ANN, "capture", "--socket", b->socket, "--pid", list,
			   "--metrics", "dram__bytes_read.sum", "--fail-if-none", "--devices", gpu,
			   "-f", stream_to(path), NULL);
	between_wait_held(b);
	return c;
}

/* Another capture takes one of them, and the other ends, between the list and the wish. */
SYSTEM_TEST(who_is_taken_meanwhile_is_left_out_and_named)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "now.jsonl");
	struct program *p, *q, *r, *first, *c;
	struct between b;
	char list[64], text[64];

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	p = on_demand_start(f, USER_ANN);
	q = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "400000",
			   "--sleep-us", "500", "--contexts", "2", "--devices", "2", NULL);
	r = on_demand_start(f, USER_ANN);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	on_demand_wait_listed(f, USER_ANN, q, "\"capture\":0");
	on_demand_wait_listed(f, USER_ANN, r, "\"capture\":0");
	snprintf(list, sizeof(list), "%d,%d,%d", p->pid, q->pid, r->pid);
	c = capture_slowly(f, &b, list, "1", path);
	first = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--devices", "0",
			       NULL);
	expect_text_soon(first->err, "measuring 1 process");
	program_kill(r, SIGKILL);
	while (on_demand_is_listed(f, USER_ANN, r, "")) {
	}
	between_let_go(&b);
	expect_text_soon(path, "\"type\":\"kernel\"");
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	snprintf(text, sizeof(text), "fakeapp (pid %d) is not measured: process ", p->pid);
	expect_message(c, text);
	expect_message(c, "is measured by capture ");
	snprintf(text, sizeof(text), "fakeapp (pid %d) is not measured: process ", r->pid);
	expect_message(c, text);
	expect_message(c, "has ended, or has left standby");
	snprintf(text, sizeof(text), "measuring 1 process: fakeapp (pid %d)", q->pid);
	expect_message(c, text);
	expect_row(c, p, "busy with another capture");
	expect_row(c, r, "had ended");
	between_end(&b);
	expect_running(first);
	program_kill(first, SIGINT);
	expect_exit(first, 0);
	program_kill(p, SIGKILL);
	program_kill(q, SIGKILL);
}

static struct program *begin_capture(struct fixture *f)
{
	struct program *c = fixture_client(f, USER_ANN, "capture", "--all", NULL);

	expect_text_soon(c->err, "measuring 1 process");
	sleep_ms(500);
	return c;
}

SYSTEM_TEST(an_end_that_was_not_asked_for_has_a_status)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	c = begin_capture(f);
	fixture_kill_daemon(f);
	expect_exit(c, 125);
	expect_message(c, "the daemon is gone");
	expect_running(p);
	program_kill(p, SIGKILL);
}

SYSTEM_TEST(a_daemon_that_hangs_at_the_end_has_a_status)
{
	struct fixture *f = *state;
	struct program *p, *c;
	pid_t front;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	c = begin_capture(f);
	front = fixture_worker(f, "front");
	kill(f->daemon->pid, SIGSTOP); /* it would begin another front */
	kill(front, SIGSTOP);
	kill(c->pid, SIGINT);
	expect_exit(c, 125);
	expect_message(c, "the daemon does not answer: what was still on its way is lost");
	kill(front, SIGCONT);
	kill(f->daemon->pid, SIGCONT);
	expect_running(p);
	program_kill(p, SIGKILL);
}

SYSTEM_TEST(nothing_to_capture_is_said)
{
	struct fixture *f = *state;
	struct program *p, *c;
	char path[64];

	fixture_start_daemon(f, NULL);
	c = fixture_client(f, USER_ANN, "capture", "--all", NULL);
	expect_exit(c, 125);
	expect_message(c, "gpuctr-client standby -- PROGRAM");
	c = fixture_client(f, USER_ANN, "capture", "--pid", "1", NULL);
	expect_exit(c, 125);
	expect_message(c, "pid 1 has no agent of yours: it is not registered");
	p = fixture_client(f, USER_ANN, "standby", "--", "/bin/sleep", "1000", NULL);
	snprintf(path, sizeof(path), "/proc/%d/comm", p->pid);
	expect_text_soon(path, "sleep");
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), NULL);
	expect_exit(c, 125);
	expect_message(c, "it has not used CUDA yet");
	program_kill(p, SIGTERM);
	c = fixture_client(f, USER_ANN, "capture", NULL);
	expect_exit(c, 125);
	expect_message(c, "capture what?");
	c = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(c, 0);
	assert_int_equal(count_text(c->out, "\nno programs in standby; `gpuctr-client standby"), 1);
}

/* A program that waits in its middle until a capture of it has begun. */
static struct program *start_captured(struct fixture *f, const char *option, struct program **ret)
{
	struct program *p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels",
					   "3000", "--sleep-us", "500", "--hold", "middle",
					   "--exit", "7", option, NULL);

	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	*ret = fixture_client(f, USER_ANN, "capture", "--all", NULL);
	expect_text_soon((*ret)->err, "measuring 1 process");
	fixture_wait_held(f, 1);
	fixture_release(f);
	return p;
}

/* Its exit status and output are its own, and the capture ends with it. */
SYSTEM_TEST(a_program_that_ends_meanwhile_ends_the_capture)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = start_captured(f, NULL, &c);
	expect_exit(p, 7);
	expect_exit(c, 0);
	expect_message(c, "kernels seen in 1 process");
	expect_no_objects(f);
}

SYSTEM_TEST(a_client_that_dies_leaves_the_program_in_standby)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	c = fixture_client(f, USER_ANN, "capture", "--all", NULL);
	expect_text_soon(c->err, "measuring 1 process");
	program_kill(c, SIGKILL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	expect_no_owner(f);
	on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
	program_kill(p, SIGKILL);
}

SYSTEM_TEST(a_program_registers_when_the_daemon_comes)
{
	struct fixture *f = *state;
	struct program *p = on_demand_start(f, USER_ANN);

	sleep_ms(100);
	fixture_start_daemon(f, NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
	fixture_stop_daemon(f);
	sleep_ms(100);
	expect_running(p);
	fixture_start_daemon(f, NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
	program_kill(p, SIGKILL);
}

/* The socket is named from where the client was started, and the program goes elsewhere. */
static struct program *start_elsewhere(struct fixture *f, const char *verb, const char *program)
{
	static const char script[] = "cd \"$1\" && exec \"$2\" $3 --socket socket -- /bin/sh -c "
				     "\"cd / && exec $4\"";

	return fixture_run(f, USER_ANN, "/bin/sh", "-c", script, "sh", f->folder, CLIENT, verb,
			   program, NULL);
}

/* The client and the shell have become it. */
static void wait_for_fakeapp(const struct program *p)
{
	uint64_t by = now_ms() + PATIENCE_MS;
	char path[64], comm[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", p->pid);
	while (strcmp(comm, "fakeapp\n") != 0 && now_ms() < by) {
		FILE *f = fopen(path, "r");

		assert_non_null(f);
		if (!fgets(comm, sizeof(comm), f)) {
			comm[0] = '\0';
		}
		fclose(f);
		sleep_ms(10);
	}
	assert_string_equal(comm, "fakeapp\n");
}

SYSTEM_TEST(a_program_that_changes_folder_finds_the_socket)
{
	struct fixture *f = *state;
	struct program *p, *c;
	char command[512];

	snprintf(command, sizeof(command), "%s --kernels 400000 --sleep-us 500", FAKEAPP);
	p = start_elsewhere(f, "standby", command); /* there is no socket yet */
	wait_for_fakeapp(p);
	fixture_start_daemon(f, NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
	program_kill(p, SIGKILL);
	snprintf(command, sizeof(command), "%s --kernels 50", FAKEAPP);
	c = start_elsewhere(f, "run --metrics dram__bytes_read.sum", command);
	expect_exit(c, 0);
	expect_message(c, "50 measured");
}

/* Both are measured; each record says whose it is. */
SYSTEM_TEST(several_programs_are_captured_together)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "now.jsonl");
	struct program *p, *q, *c;
	char text[64];

	fixture_start_daemon(f, NULL);
	p = on_demand_start(f, USER_ANN);
	q = on_demand_start(f, USER_ANN);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	on_demand_wait_listed(f, USER_ANN, q, "\"capture\":0");
	c = fixture_client(f, USER_ANN, "capture", "--program", "fake*", stream_to(path), NULL);
	snprintf(text, sizeof(text), "\"pid\":%d,", p->pid);
	expect_text_soon(path, text);
	snprintf(text, sizeof(text), "\"pid\":%d,", q->pid);
	expect_text_soon(path, text);
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	program_kill(p, SIGKILL);
	program_kill(q, SIGKILL);
}

/* Two programs on one GPU: the counters are the first one's. */
SYSTEM_TEST(each_process_has_a_line_at_the_end)
{
	static const char *const seconds[] = { "1", "4", "16" }; /* until both have launched */
	struct fixture *f = *state;
	struct program *p, *q, *c = NULL;

	fixture_start_daemon(f, NULL);
	p = on_demand_start(f, USER_ANN);
	q = on_demand_start(f, USER_ANN);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	on_demand_wait_listed(f, USER_ANN, q, "\"capture\":0");
	for (size_t i = 0; i < ARRAY_SIZE(seconds) &&
			   !(c && has_row(c, p, " filtered") && has_row(c, q, " filtered"));
	     i++) {
		c = fixture_client(f, USER_ANN, "capture", "--all", "-k", "regex:^k[0-3]",
				   "--duration", seconds[i], NULL);
		expect_exit(c, 0);
	}
	expect_row(c, p, " kernels, ");
	expect_row(c, q, " kernels, ");
	expect_message(c, " measured, ");
	expect_row(c, p, " filtered");
	expect_row(c, q, " filtered");
	expect_message(c, "hardware-busy\n");
	program_kill(p, SIGKILL);
	program_kill(q, SIGKILL);
}

/* By a debugger, as it looks from outside. */
SYSTEM_TEST(a_stopped_program_holds_nobody_up)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	program_kill(p, SIGSTOP);
	c = fixture_client(f, USER_ANN, "capture", "--all", "--duration", "0.2", NULL);
	expect_exit(c, 0);
	expect_message(c, "is stopped, by a signal or a debugger: ");
	expect_message(c, "Nothing was measured: no process answered.");
	expect_row(c, p, "stopped, by a signal");
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), NULL);
	expect_exit(c, 125);
	expect_message(c, "is stopped, by a signal or a debugger, and answers nothing");
	program_kill(p, SIGCONT);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
	program_kill(p, SIGKILL);
}

SYSTEM_TEST(a_program_that_goes_on_is_measured)
{
	struct fixture *f = *state;
	struct program *p, *c;
	const char *path = fixture_path(f, "now.jsonl");

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	program_kill(p, SIGSTOP);
	c = fixture_client(f, USER_ANN, "capture", "--all", stream_to(path), NULL);
	expect_text_soon(c->err, "is stopped, by a signal or a debugger");
	program_kill(p, SIGCONT);
	expect_text_soon(path, "\"type\":\"kernel\"");
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	program_kill(p, SIGKILL);
}

SYSTEM_TEST(the_second_interrupt_has_its_default_action)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	program_kill(p, SIGSTOP);
	c = fixture_client(f, USER_ANN, "capture", "--all", NULL);
	expect_text_soon(c->err, "is stopped");
	program_kill(c, SIGINT);
	expect_text_soon(c->err, "waiting for the last records (Ctrl-C gives up)");
	program_kill(c, SIGINT);
	expect_signal(c, SIGINT);
	program_kill(p, SIGCONT);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	expect_no_owner(f);
	program_kill(p, SIGKILL);
}

/* What was asked for is not there, and a script hears it. */
static void expect_not_written(struct program *c, const char *why)
{
	expect_exit(c, 125);
	expect_message(c, why);
	expect_message(c, "not all that was measured could be written");
}

/* Into a file that is there, without the place for a journal at the end, and into a full device. */
SYSTEM_TEST(what_cannot_be_written_costs_the_status)
{
	struct fixture *f = *state;
	struct program *p, *c;
	const char *path = fixture_path(f, "ranks/%p.gpuctr");

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	for (int i = 0; i < 2; i++) {
		c = fixture_client(f, USER_ANN, "capture", "--all", "-o", path, NULL);
		on_demand_interrupt_after(f, USER_ANN, c, 1);
		expect_exit(c, i == 0 ? 0 : 125);
	}
	expect_not_written(c, "error[store-exists]");
	c = fixture_client(f, USER_ANN, "capture", "--all", "--nvtx", "step/", "-o",
			   fixture_path(f, "kept/%h.gpuctr"), NULL);
	expect_text_soon(c->err, "measuring 1 process"); /* the file is there */
	assert_int_equal(rename(fixture_path(f, "kept"), fixture_path(f, "away")), 0);
	program_kill(c, SIGINT);
	expect_not_written(c, "the file keeps what was written before");
	c = fixture_client(f, USER_ANN, "capture", "--all", "--stream=/dev/full", NULL);
	on_demand_interrupt_after(f, USER_ANN, c, 1);
	expect_not_written(c, "warning[stream-failed]: No space left on device");
	program_kill(p, SIGKILL);
}
