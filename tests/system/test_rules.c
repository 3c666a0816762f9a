/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "tests/system/recorder.h"

/* Rules that decide, each from both sides of its border, with the code that the user hears and the
 * line that the audit log gets. */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

/* With an audit file, whose path is the result. */
static const char *start_daemon(struct fixture *f)
{
	static char path[160];
	char setting[192];

	snprintf(path, sizeof(path), "%s", fixture_path(f, "audit"));
	snprintf(setting, sizeof(setting), "audit-file=%s", path);
	fixture_start_daemon(f, "--set", setting, NULL);
	return path;
}

static void open_capture(struct recorder *r, struct fixture *f, int uid)
{
	const struct gpuctr_capture_options options = recorder_options();

	recorder_connect(r, f, uid);
	recorder_open(r, &options);
	recorder_until(r, &r->ready);
}

/* How many lines of the file hold all of these. */
static size_t count_lines(const char *path, const char *event, const char *a, const char *b)
{
	CLEAN_FREE char *text = read_file(path);
	char *save = NULL;
	size_t n = 0;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		n += strstr(line, event) && strstr(line, a) && strstr(line, b);
	}
	return n;
}

/* The front refuses a stranger's token itself; the granter would too, in other words. */
SYSTEM_TEST(a_permission_is_its_owners)
{
	struct fixture *f = *state;
	struct recorder r;
	struct wire_message m, whole;
	struct raw_answer answer;
	CLEAN_FD int device = -1;
	const char *audit;

	fixture_need_root();
	audit = start_daemon(f);
	device = raw_control_device();
	open_capture(&r, f, USER_ANN);
	m = raw_permission(recorder_token(&r), RAW_CLIENT, 0x5d000001);
	answer = raw_ask(f, USER_BOB, &m, device);
	assert_false(answer.granted);
	assert_int_equal(answer.code, GPUCTR_E_BAD_TOKEN);
	assert_int_equal(fixture_counter(f, "profiler_granted"), 0);
	whole = m;
	whole.permission_request.client_target = whole.permission_request.context_target = 0;
	answer = raw_ask(f, USER_ANN, &whole, device);
	assert_int_equal(answer.code, GPUCTR_E_NOT_ALLOWED); /* she has no entitlement */
	assert_int_equal(count_text(audit, "\"event\":\"permission-granted\""), 0);
	assert_int_equal(fixture_counter(f, "profiler_granted"), 0);
	assert_true(raw_ask(f, USER_ANN, &m, device).granted);
	assert_int_equal(fixture_counter(f, "profiler_granted"), 1);
	assert_int_equal(count_lines(audit, "permission-refused", "\"uid\":1235,",
				     "\"status\":\"bad-token\""),
			 1);
	assert_int_equal(
		count_lines(audit, "permission-granted", "\"uid\":1234,", "\"status\":\"ok\""), 1);
	assert_int_equal(count_lines(audit, "permission-refused", "\"uid\":1234,",
				     "\"status\":\"not-allowed\""),
			 1);
	assert_int_equal(count_text(audit, "\"event\":\"permission-"), 3);
	recorder_close(&r);
	recorder_disconnect(&r);
}

/* From its readiness to the wish for its end, and not while its programs deliver what they have. */
SYSTEM_TEST(a_permission_needs_a_capture_that_lives)
{
	struct fixture *f = *state;
	struct recorder r;
	struct wire_message m;
	struct arena a;
	uint32_t process;
	CLEAN_FD int device = -1;
	char token[128];
	int agent;

	fixture_need_root();
	start_daemon(f);
	device = raw_control_device();
	open_capture(&r, f, USER_ANN);
	snprintf(token, sizeof(token), "%s", recorder_token(&r)); /* it goes with the capture */
	m = raw_permission(token, RAW_CLIENT, 0x5d000001);
	agent = raw_agent(f, USER_ANN, token, &process);
	assert_true(raw_ask(f, USER_ANN, &m, device).granted);
	assert_int_equal(gpuctr_capture_close(r.capture), 0);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(raw_receive(agent, &a).type, WIRE_AGENT_STOP);
	m.permission_request.object++;
	assert_int_equal(raw_ask(f, USER_ANN, &m, device).code, GPUCTR_E_BAD_TOKEN);
	assert_int_equal(count_text(fixture_path(f, "audit"), "\"event\":\"permission-granted\""),
			 1);
	close(agent);
	recorder_until(&r, &r.ended);
	m.permission_request.object++;
	assert_int_equal(raw_ask(f, USER_ANN, &m, device).code, GPUCTR_E_BAD_TOKEN);
	arena_deinit(&a);
	recorder_disconnect(&r);
}

/* The driver would make up a number for its 0, which is not told to anybody: the object would stay
 * when the lease has ended. */
SYSTEM_TEST(an_object_without_a_number_is_refused)
{
	struct fixture *f = *state;
	struct recorder r;
	CLEAN_FD int device = -1;
	const char *audit;

	fixture_need_root();
	audit = start_daemon(f);
	device = raw_control_device();
	open_capture(&r, f, USER_ANN);
	for (unsigned which = 1; which < 8; which++) {
		struct wire_message m = raw_permission(recorder_token(&r), RAW_CLIENT, 0x5d000001);
		struct wire_permission_request *q = &m.permission_request;

		q->root = (which & 1) != 0 ? 0 : q->root;
		q->parent = (which & 2) != 0 ? 0 : q->parent;
		q->object = (which & 4) != 0 ? 0 : q->object;
		assert_int_equal(raw_ask(f, USER_ANN, &m, device).code, GPUCTR_E_NOT_ALLOWED);
	}
	assert_int_equal(fixture_counter(f, "profiler_allocs"), 0);
	assert_int_equal(count_text(audit, "\"event\":\"permission-granted\""), 0);
	assert_int_equal(count_text(audit, "\"event\":\"permission-refused\""), 7);
	assert_int_equal(count_text(audit, "without a number for the driver's object"), 7);
	recorder_close(&r);
	recorder_disconnect(&r);
}

enum { GPU_0_PARENT = 0x5c000030 };

/* A child of Ann's program, which shares its file of the driver, asks for an object and waits. */
static pid_t ask_by_child(struct fixture *f, const char *token, int device)
{
	const struct wire_message m = raw_permission(token, RAW_CLIENT, 0x5d000001);
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raw_send(raw_connect(f, USER_ANN), &m, device);
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void wait_for_counter(struct fixture *f, const char *name)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (fixture_counter(f, name) == 0) {
		assert_true(now_ms() < by);
		sleep_ms(2);
	}
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Although the file lives on: whoever has it could use the object beyond the end of the lease. */
static void expect_object_ends(struct fixture *f, const char *until, int hang)
{
	struct recorder r;
	CLEAN_FD int device = -1;
	pid_t child;

	fixture_need_root();
	start_daemon(f);
	device = raw_control_device();
	open_capture(&r, f, USER_ANN);
	fixture_set_knob(f, "ioctl_hang", hang);
	child = ask_by_child(f, recorder_token(&r), device);
	wait_for_counter(f, until);
	end_child(child);
	fixture_set_knob(f, "ioctl_hang", 0);
	wait_for_counter(f, "frees");
	assert_int_equal(fixture_counter(f, "profiler_granted"), 1);
	assert_int_equal(fixture_count(f, "objects", " 0xb2cc "), 0);
	assert_int_equal(fixture_count(f, "objects", " 0x41 "), 1); /* the file's client */
	assert_false(r.ended);
	recorder_close(&r);
	recorder_disconnect(&r);
}

SYSTEM_TEST(an_object_ends_with_the_process_that_asked)
{
	expect_object_ends(*state, "profiler_granted", 0);
}

SYSTEM_TEST(nor_does_it_outlive_one_that_ends_meanwhile)
{
	expect_object_ends(*state, "hangs", GPU_0_PARENT);
}

/* The front looks at what came before it says that it was granted. */
SYSTEM_TEST(only_the_drivers_file_is_granted)
{
	struct fixture *f = *state;
	struct recorder r;
	struct wire_message m;
	CLEAN_FD int other = open("/dev/null", O_RDWR | O_CLOEXEC);
	const char *audit;

	fixture_need_root();
	audit = start_daemon(f);
	open_capture(&r, f, USER_ANN);
	m = raw_permission(recorder_token(&r), RAW_CLIENT, 0x5d000001);
	assert_int_equal(raw_ask(f, USER_ANN, &m, other).code, GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(count_text(audit, "\"event\":\"permission-granted\""), 0);
	assert_int_equal(count_lines(audit, "permission-refused", "\"uid\":1234,", "\"capture\":"),
			 1);
	recorder_disconnect(&r);
}

/* Nothing said before that those were granted, so they are as many as any refusals. */
SYSTEM_TEST(the_log_is_not_filled_with_refused_permissions)
{
	enum { MANY = 200 };
	struct fixture *f = *state;
	const struct wire_message m = raw_permission("", RAW_CLIENT, 0x5d000001);
	CLEAN_FD int device = -1;
	const char *audit;

	fixture_need_root();
	audit = start_daemon(f);
	device = raw_control_device();
	for (int i = 0; i < MANY; i++) {
		struct raw_answer answer = raw_ask_patiently(f, USER_ANN, &m, device);

		assert_int_equal(answer.code, GPUCTR_E_BAD_TOKEN);
	}
	assert_in_range(count_text(audit, "\"event\":\"permission-refused\""), 1, MANY - 1);
}

/* The line before said that it was granted, so each of these is written, at whatever rate. */
SYSTEM_TEST(what_the_driver_refused_is_corrected)
{
	enum { MANY = 70, REFUSED = 0x1b }; /* a user's other refusals: 60 lines a minute */
	struct fixture *f = *state;
	struct recorder r;
	struct wire_message m;
	CLEAN_FD int device = -1;
	const char *audit;

	fixture_need_root();
	audit = start_daemon(f);
	device = raw_control_device();
	open_capture(&r, f, USER_ANN);
	m = raw_permission(recorder_token(&r), RAW_CLIENT, 0x5d000001);
	fixture_set_knob(f, "rm_status", REFUSED);
	for (int i = 0; i < MANY; i++) {
		struct raw_answer answer = raw_ask(f, USER_ANN, &m, device);

		assert_int_equal(answer.code, GPUCTR_E_GRANT_REFUSED);
		assert_int_equal(answer.status, REFUSED);
	}
	fixture_set_knob(f, "rm_status", 0);
	assert_true(raw_ask(f, USER_ANN, &m, device).granted);
	assert_int_equal(count_text(audit, "\"event\":\"permission-granted\""), MANY + 1);
	assert_int_equal(count_lines(audit, "permission-refused", "\"status\":\"grant-refused\"",
				     "\"driver_status\":27,"),
			 MANY);
	assert_int_equal(count_text(audit, "\"event\":\"permission-refused\""), MANY);
	recorder_disconnect(&r);
}

/* CAP_PERFMON counts from 565.57 on. */
SYSTEM_TEST(the_driver_is_new_enough_or_not)
{
	static const struct {
		const char *version;
		int status;
	} drivers[] = {
		{ "565.57.01", 0 }, { "565.56.99", 125 }, { "566.03", 0 },
		{ "564.99", 125 },  { "1000.1", 0 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		struct program *client;

		setenv("GPUCTR_FAKE_DRIVER", drivers[i].version, 1);
		fixture_start_daemon(f, NULL);
		client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP,
					"--kernels", "3", NULL);
		expect_exit(client, drivers[i].status);
		if (drivers[i].status != 0) {
			expect_message(client, "error[driver-too-old]");
			expect_message(client, drivers[i].version);
		}
		fixture_stop_daemon(f);
	}
}

/* "gpus":[...] of the only line of this event that has text in it. */
static void read_gpus(const char *path, const char *event, const char *text, char *ret, size_t size)
{
	CLEAN_FREE char *all = read_file(path);
	char *save = NULL, *found = NULL;

	for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (strstr(line, event) && strstr(line, text)) {
			assert_null(found);
			found = line;
		}
	}
	assert_non_null(found);
	found = strstr(found, "\"gpus\":[");
	assert_non_null(found);
	snprintf(ret, size, "%.*s", (int)strcspn(found, "]") + 1, found);
}

SYSTEM_TEST(the_audit_log_names_the_gpus_meant)
{
	struct fixture *f = *state;
	char gpus[4][160], both[340];
	const char *audit;

	fixture_need_root();
	setenv("GPUCTR_FAKE_GPUS", "3", 1);
	audit = start_daemon(f);
	for (int i = 0; i < 3; i++) {
		const char number[] = { (char)('0' + i), '\0' };
		char capture[32];

		expect_exit(fixture_client(f, USER_ANN, "--metrics", "memory", "--devices", number,
					   "--", FAKEAPP, "--devices", "3", "--kernels", "3", NULL),
			    0);
		snprintf(capture, sizeof(capture), "\"capture\":%d,", i + 1);
		read_gpus(audit, "lease-granted", capture, gpus[i], sizeof(gpus[i]));
		assert_null(strchr(gpus[i], ','));
		for (int k = 0; k < i; k++) {
			assert_string_not_equal(gpus[i], gpus[k]);
		}
		expect_text_soon(audit, "lease-ended");
		assert_true(count_lines(audit, "permission-granted", capture, gpus[i]) >= 1);
		assert_int_equal(count_lines(audit, "permission-granted", capture, ""),
				 count_lines(audit, "permission-granted", capture, gpus[i]));
	}
	expect_exit(fixture_client(f, USER_SELF, "job", "begin", "--job", "7", "--user", "1235",
				   "--devices", "1,2", NULL),
		    0);
	read_gpus(audit, "job-begun", "\"job\":\"7\"", gpus[3], sizeof(gpus[3]));
	snprintf(both, sizeof(both), "%.*s,%s", (int)strlen(gpus[1]) - 1, gpus[1],
		 gpus[2] + strlen("\"gpus\":["));
	assert_string_equal(gpus[3], both);
}

/* The front looks at jobs every five seconds: one of 100 s outlasts a look, one of a second does
 * not, and is over without a word from the scheduler. */
SYSTEM_TEST(the_log_says_whose_job_it_is_and_who_said_so)
{
	struct fixture *f = *state;
	struct program *client;
	const char *audit;
	char pid[32];

	fixture_need_root();
	audit = start_daemon(f);
	client = fixture_client(f, USER_SELF, "job", "begin", "--job", "7", "--user", "1235",
				"--devices", "0", NULL);
	snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)client->pid);
	expect_exit(client, 0);
	assert_int_equal(count_lines(audit, "job-begun", "\"uid\":1235,", pid), 1);
	client = fixture_client(f, USER_SELF, "job", "end", "--job", "7", NULL);
	snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)client->pid);
	expect_exit(client, 0);
	assert_int_equal(count_lines(audit, "job-ended", "\"uid\":1235,", pid), 1);
}

SYSTEM_TEST(a_job_has_its_time)
{
	struct fixture *f = *state;
	struct program *client;
	const char *audit;
	uint64_t begin;

	fixture_need_root();
	audit = start_daemon(f);
	expect_exit(fixture_client(f, USER_SELF, "job", "begin", "--job", "long", "--user", "1235",
				   "--devices", "0", "--time", "100", NULL),
		    0);
	sleep_ms(5500);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_message(client, "GPU 0 belongs to job long of uid 1235");
	assert_int_equal(count_text(audit, "\"event\":\"job-ended\""), 0);
	begin = now_ms();
	expect_exit(fixture_client(f, USER_SELF, "job", "begin", "--job", "short", "--user", "1235",
				   "--devices", "0", "--time", "1", NULL),
		    0);
	expect_text_soon(audit, "its time is over");
	assert_true(now_ms() - begin >= 1000);
	assert_int_equal(count_lines(audit, "job-ended", "\"job\":\"short\"", "its time is over"),
			 1);
	/* The other one when its GPU was stated as this one's. */
	assert_int_equal(count_lines(audit, "job-ended", "\"job\":\"long\"", "another job's now"),
			 1);
	assert_int_equal(count_text(audit, "\"event\":\"job-ended\""), 2);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels", "3",
				NULL);
	expect_exit(client, 0);
}

/* A child of root's connects and hands its socket on. While it lives the socket speaks for root of
 * this machine. Once it has ended nobody knows whose pid it is: its number may be another's. */
static int connect_by_child(struct fixture *f, bool lives, pid_t *ret)
{
	int fds[2], fd = -1;
	pid_t pid;
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	pid = fork();
	if (pid == 0) {
		int own = raw_dial(f->socket);

		(void)!raw_send_descriptors(fds[1], "x", 1, own, 1);
		while (lives) {
			pause();
		}
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(recvmsg(fds[0], &m, 0), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	close(fds[0]);
	close(fds[1]);
	if (!lives) { /* it has ended, and its pid and /proc entry are still there: a zombie */
		siginfo_t info;

		assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	}
	*ret = pid;
	return fd;
}

/* What the daemon answers to a statement of jobs on this socket. */
static struct wire_message state_job(int fd, struct arena *a)
{
	const struct wire_message hello = { .type = WIRE_HELLO, .hello = { PROTO_VERSION, "raw" } };
	struct wire_message end = { .type = WIRE_JOB_END, .job_end = { 7, "none" } };

	assert_true(raw_send(fd, &hello, -1));
	assert_int_equal(raw_receive(fd, a).type, WIRE_WELCOME);
	assert_true(raw_send(fd, &end, -1));
	return raw_receive(fd, a);
}

SYSTEM_TEST(who_has_ended_is_not_root_of_this_machine)
{
	struct fixture *f = *state;
	struct wire_message answer;
	struct arena a;
	pid_t pid;
	int fd, pidfd;
	socklen_t n = sizeof(pidfd);

	fixture_need_root();
	start_daemon(f);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	fd = connect_by_child(f, true, &pid);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) < 0) {
		fixture_skip("needs SO_PEERPIDFD, of Linux 6.5");
	}
	answer = state_job(fd, &a);
	assert_int_equal(answer.type, WIRE_REFUSAL);
	assert_int_equal(answer.refusal.code, GPUCTR_E_BAD_REQUEST); /* no such job: it may ask */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);

	kill(fixture_worker(f, "front"), SIGSTOP); /* it looks when the child has ended */
	fd = connect_by_child(f, false, &pid);
	kill(fixture_worker(f, "front"), SIGCONT);
	answer = state_job(fd, &a);
	assert_int_equal(answer.type, WIRE_REFUSAL);
	assert_int_equal(answer.refusal.code, GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	arena_deinit(&a);
}

/* Says hello; true when she is refused because nobody knows her groups. */
static bool is_refused_for_groups(struct fixture *f, struct arena *a)
{
	const struct wire_message hello = { .type = WIRE_HELLO, .hello = { PROTO_VERSION, "raw" } };
	int fd = raw_connect(f, USER_ANN);
	struct wire_message m;
	bool refused = false;

	raw_send(fd, &hello, -1);
	if (raw_next(fd, a, &m) && m.type == WIRE_REFUSAL &&
	    strstr(m.refusal.message, "your groups could not be read")) {
		assert_int_equal(m.refusal.code, GPUCTR_E_NOT_ALLOWED);
		refused = true;
		assert_false(raw_next(fd, a, &m));
	}
	close(fd);
	return refused;
}

/* The kernel is asked twice: how many there are, and which. The front's calls fail one after the
 * other, so each of the two is met. */
SYSTEM_TEST(whose_groups_are_not_known_is_not_let_in)
{
	const gid_t groups[] = { 5001, 5002 };
	struct fixture *f = *state;
	unsigned refused = 0;
	struct arena a;

	fixture_need_root();
	f->preloads_failures = true;
	fixture_start_daemon(f, NULL);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(setgroups(ARRAY_SIZE(groups), groups), 0);
	assert_false(is_refused_for_groups(f, &a));
	fixture_set_knob(f, "fail_in", 3); /* the front */
	fixture_set_knob(f, "fail_errno", ENOMEM);
	for (unsigned i = 0; i < 48 && refused < 2; i++) {
		fixture_set_knob(f, "fail_call", 1 + i % 16);
		refused += is_refused_for_groups(f, &a);
	}
	fixture_set_knob(f, "fail_call", 0);
	assert_int_equal(setgroups(0, NULL), 0);
	assert_int_equal(refused, 2);
	arena_deinit(&a);
}

/* --- who else computes --- */

/* A user must not be able to blind us, as by stopping the process that asks the driver; and a
 * moment is no reason to take anything away, if the machine does not make it longer. */
SYSTEM_TEST(a_lease_does_not_outlast_our_blindness)
{
	struct fixture *f = *state;
	struct recorder r = { .ended = true };
	const char *audit = start_daemon(f);
	pid_t gpu = fixture_worker(f, "gpu");
	size_t before;

	for (int i = 0; i < 3 && r.ended; i++) {
		recorder_disconnect(&r);
		expect_service_soon(f, PATIENCE_MS);
		open_capture(&r, f, USER_ANN);
		kill(gpu, SIGSTOP);
		recorder_for(&r, 1500);
		kill(gpu, SIGCONT);
		recorder_for(&r, 500);
	}
	assert_false(r.ended);
	before = count_text(audit, "\"event\":\"lease-revoked\"");
	kill(gpu, SIGSTOP);
	recorder_until(&r, &r.ended);
	kill(gpu, SIGCONT);
	assert_int_equal(r.end_code, GPUCTR_E_REVOKED);
	assert_non_null(strstr(r.end_message, "the driver does not tell who runs on the GPU"));
	assert_int_equal(count_text(audit, "\"event\":\"lease-revoked\""), before + 1);
	recorder_disconnect(&r);
	expect_service_soon(f, PATIENCE_MS);
}

/* Each look opens the fake's list once. Events that nobody has read yet become one, so this reads
 * far more often than anybody looks. For so long, and until there were so many. */
static size_t count_looks(struct recorder *r, int notify, unsigned ms, size_t least)
{
	uint64_t by = now_ms() + ms, patience = now_ms() + PATIENCE_MS;
	size_t n = 0;

	while (now_ms() < by || n < least) {
		char events[4096];

		recorder_for(r, 5);
		n += read(notify, events, sizeof(events)) > 0;
		assert_true(now_ms() < patience);
	}
	return n;
}

/* Four a second and no more; how many less is the machine's to say. */
SYSTEM_TEST(who_else_computes_is_asked_four_times_a_second)
{
	struct fixture *f = *state;
	const char *list = fixture_path(f, "nvml_processes");
	CLEAN_FD int notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	FILE *file = fopen(list, "w");
	struct recorder r;
	uint64_t begin_ms, ms;
	size_t looks;

	assert_non_null(file);
	fclose(file);
	start_daemon(f);
	open_capture(&r, f, USER_ANN);
	assert_true(inotify_add_watch(notify, list, IN_OPEN) >= 0);
	begin_ms = now_ms();
	looks = count_looks(&r, notify, 3000, 6);
	ms = now_ms() - begin_ms;
	print_message("%zu looks in %u ms\n", looks, (unsigned)ms);
	assert_true(1000 * looks <= 4 * ms + 2000);
	recorder_close(&r);
	for (int i = 0; i < 5 && looks > 0; i++) { /* the last one may be late */
		looks = count_looks(&r, notify, 600, 0);
	}
	looks += count_looks(&r, notify, 2500, 0);
	assert_int_equal(looks, 0); /* nobody holds anything */
	recorder_disconnect(&r);
}
