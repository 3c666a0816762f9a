/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/raw.h"

/* The exporter of metrics beside a real daemon: what it tells, whom it serves, and what clients
 * that mean no good can take from it: nothing that another one needs. It is passed two sockets that
 * stay: a Unix socket and a TCP port. */

enum { ANSWER_BYTES = 64 * 1024, CONNECTIONS = 64 /* at a socket */, IDLE_MS = 10000 };
enum { ASKED_MS = 1100, FAILURE_MS = 5100 }; /* after which an answer of the daemon is old */

#define GET "GET /metrics HTTP/1.1\r\nHost: x\r\n"
#define OPENMETRICS "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n"

static struct program *exporter;
static int sockets[2]; /* Unix, TCP */

static const char *metrics_socket(struct fixture *f)
{
	return fixture_path(f, "metrics.sock");
}

static int open_port(void)
{
	const struct sockaddr_in a = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	return fd;
}

static void start_exporter(struct fixture *f, int uid)
{
	exporter = fixture_activate(f, uid, sockets, ARRAY_SIZE(sockets),
				    built_path("client/exporter/gpuctr-exporter"), NULL);
}

static void start(struct fixture *f)
{
	fixture_start_daemon(f, "--set", "monitor-users=*", NULL);
	start_exporter(f, USER_SELF);
}

static void stop_exporter(void)
{
	program_kill(exporter, SIGTERM);
	expect_exit(exporter, 0);
}

static int dial(struct fixture *f, int uid)
{
	bool change = uid != USER_SELF && geteuid() == 0;
	int fd;

	if (change) {
		assert_int_equal(seteuid((uid_t)uid), 0);
	}
	fd = raw_dial(metrics_socket(f));
	if (change) {
		assert_int_equal(seteuid(0), 0);
	}
	assert_true(fd >= 0);
	return fd;
}

static int dial_port(void)
{
	struct sockaddr_in a = { 0 };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(getsockname(sockets[1], (struct sockaddr *)&a, &size), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&a, size), 0);
	return fd;
}

/* All that comes until the other end closes; free it. Fails the test when it does not close. */
static char *read_all(int fd)
{
	char *text = calloc(1, ANSWER_BYTES);
	struct pollfd p = { fd, POLLIN, 0 };
	size_t n = 0;
	ssize_t got = 1;

	assert_non_null(text);
	while (got > 0 && n < ANSWER_BYTES - 1) {
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		got = recv(fd, text + n, ANSWER_BYTES - 1 - n, 0);
		n += got > 0 ? (size_t)got : 0;
	}
	return text;
}

/* The answer to one request, with its head; free it. Consumes fd. */
static char *ask_on(int fd, const char *request)
{
	char *text;

	send(fd, request, strlen(request), MSG_NOSIGNAL);
	text = read_all(fd);
	close(fd);
	return text;
}

static char *ask(struct fixture *f, int uid, const char *request)
{
	return ask_on(dial(f, uid), request);
}

static char *scrape(struct fixture *f, int uid)
{
	return ask(f, uid, GET "\r\n");
}

static void expect_served(int fd)
{
	char *text = ask_on(fd, GET "\r\n");

	assert_non_null(strstr(text, " 200 OK"));
	assert_non_null(strstr(text, "\ngpucountd_up 1\n"));
	free(text);
}

/* The value of the sample with this name and labels; -1: there is none. */
static double value_of(const char *text, const char *sample)
{
	size_t n = strlen(sample);

	for (const char *line = strstr(text, "\r\n\r\n"); line; line = strchr(line + 1, '\n')) {
		if (strncmp(line + 1, sample, n) == 0 && line[1 + n] == ' ') {
			return strtod(line + 1 + n, NULL);
		}
	}
	return -1;
}

/* Scrapes until the sample has this value: what is told may be a few seconds old. */
static void expect_soon(struct fixture *f, const char *sample, double expected)
{
	uint64_t until_ms = now_ms() + PATIENCE_MS;
	double value;

	do {
		char *text = scrape(f, USER_SELF);

		value = value_of(text, sample);
		free(text);
		sleep_ms(50);
	} while (value != expected && now_ms() < until_ms);
	if (value != expected) {
		fail_msg("%s is %g and not %g", sample, value, expected);
	}
}

/* What is told now is what a strict reader takes for OpenMetrics. */
static void expect_openmetrics(struct fixture *f)
{
	char *answer = ask(f, USER_SELF, GET OPENMETRICS "\r\n");
	const char *body = strstr(answer, "\r\n\r\n"), *path = fixture_path(f, "metrics.txt");
	FILE *file = fopen(path, "w");

	assert_non_null(strstr(answer, "Content-Type: application/openmetrics-text; version=1.0"));
	assert_non_null(body);
	assert_non_null(file);
	fputs(body + 4, file);
	fclose(file);
	free(answer);
	expect_exit(fixture_run(f, USER_SELF, "/usr/bin/env", "python3", TEST_CHECK_OPENMETRICS,
				path, NULL),
		    0);
}

static void measure(struct fixture *f, const char *kernels)
{
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
				   kernels, NULL),
		    0);
}

/* --- what is told --- */

static void what_happened_is_told(struct fixture *f)
{
	char *text;

	measure(f, "700");
	measure(f, "77");
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "nosuch", "--", "true", NULL), 125);
	expect_soon(f, "gpucountd_refusals_total{reason=\"metric-unknown\"}", 1);
	text = scrape(f, USER_SELF);
	assert_int_equal(value_of(text, "gpucountd_leases_total"), 2);
	assert_int_equal(value_of(text, "gpucountd_records_total"), 777);
	assert_int_equal(value_of(text, "gpucountd_kernels_total{fate=\"measured\"}"), 777);
	assert_int_equal(value_of(text, "gpucountd_lease_ends_total{cause=\"asked\"}"), 2);
	assert_int_equal(value_of(text, "gpucountd_lease_wait_seconds_count"), 2);
	assert_int_equal(value_of(text, "gpucountd_up"), 1);
	assert_int_equal(value_of(text, "gpucountd_measurable"), 1);
	assert_non_null(strstr(text, "Content-Type: text/plain; version=0.0.4"));
	assert_non_null(strstr(text, "# TYPE gpucountd_leases_total counter"));
	expect_openmetrics(f);
	free(text);
}

#define EXPORTER_TEST(f) TEST_WITH(f, setup, teardown)

static int setup(void **state);
static int teardown(void **state);

EXPORTER_TEST(captures_are_told_in_the_syntax_that_is_asked_for)
{
	struct fixture *f = *state;

	start(f);
	what_happened_is_told(f);
	stop_exporter();
}

/* As often as it starts. */
EXPORTER_TEST(each_passed_socket_is_served)
{
	struct fixture *f = *state;

	start(f);
	expect_served(dial(f, USER_SELF));
	stop_exporter();
	start_exporter(f, USER_SELF);
	expect_served(dial(f, USER_SELF));
	expect_served(dial_port());
	stop_exporter();
}

EXPORTER_TEST(what_cannot_be_done_is_said)
{
	static const struct {
		const char *argument;
		int status;
	} cases[] = { { "-h", 0 },	  { "--help", 0 }, { "-V", 0 },
		      { "--version", 0 }, { "-x", 2 },	   { "--socket", 2 } };
	struct fixture *f = *state;
	const char *path = built_path("client/exporter/gpuctr-exporter");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		exporter = fixture_run(f, USER_SELF, path, cases[i].argument, NULL);
		expect_exit(exporter, cases[i].status);
		expect_text_soon(cases[i].status == 0 ? exporter->out : exporter->err, "gpuctr-");
	}
	exporter = fixture_run(f, USER_SELF, path, NULL); /* without a socket */
	expect_exit(exporter, 1);
	expect_text_soon(exporter->err, "systemd passed 0 sockets");
}

/* Held by ann for a job of root's: names, and only those that the settings allow. */
static void names_are_told_where_settings_allow(struct fixture *f, const char *labels, bool users,
						bool jobs)
{
	struct program *holder;
	char *text;

	fixture_start_daemon(f, "--set", "monitor-users=*", "--set", labels, NULL);
	start_exporter(f, USER_SELF);
	holder = fixture_client(f, USER_SELF, "--metrics", "memory", "--", FAKEAPP, "--hold",
				"middle", NULL);
	fixture_wait_held(f, 1);
	expect_exit(fixture_client(f, USER_SELF, "job", "begin", "--job",
				   "night \"run\"\033]0;x\a\302\233", "--user", "0", "--devices",
				   "0", NULL),
		    0);
	sleep_ms(ASKED_MS);
	text = scrape(f, USER_SELF);
	assert_int_equal(strstr(text, "gpucountd_gpu_holder_info{gpu=\"0\"") != NULL, users);
	assert_int_equal(strstr(text, "job=\"night \\\"run\\\"?]0;x???\"") != NULL, jobs);
	assert_int_equal(strstr(text, "user=\"root\"") != NULL, users);
	expect_openmetrics(f);
	free(text);
	fixture_release(f);
	expect_exit(holder, 0);
	stop_exporter();
	fixture_stop_daemon(f);
}

static void expect_status(struct fixture *f, const char *option, const char *expected)
{
	struct program *p = fixture_client(f, USER_SELF, "status", option, NULL);

	expect_exit(p, 0);
	expect_text_soon(p->out, expected);
}

/* What the fake NVML tells; the front asks for it every five seconds. */
EXPORTER_TEST(what_gpus_do_is_told)
{
	struct fixture *f = *state;
	uint64_t until_ms = now_ms() + PATIENCE_MS;
	char *text;

	setenv("GPUCTR_FAKE_GPM", "87.5,21,43.75,1,2,-,4", 1);
	start(f);
	unsetenv("GPUCTR_FAKE_GPM");
	while (!strstr(text = scrape(f, USER_SELF), "of=\"sm\"} 0.875\n") && now_ms() < until_ms) {
		free(text);
		sleep_ms(50);
	}
	assert_non_null(strstr(text, "of=\"memory\"} 0.4375\n"));
	assert_non_null(strstr(text, "link=\"pcie\",way=\"in\"} 2097152\n"));
	assert_non_null(strstr(text, "link=\"nvlink\",way=\"in\"} 4194304\n"));
	assert_null(strstr(text, "link=\"nvlink\",way=\"out\""));
	free(text);
	expect_openmetrics(f);
	expect_status(f, NULL,
		      "SMs 87.5 %, tensor cores 21.0 %, memory 43.8 %, PCIe 1.05 MB/s out, "
		      "2.10 MB/s in, in the last ");
	expect_status(f, "--json", "\"sm_pct\":87.5,\"tensor_pct\":21,\"dram_pct\":43.75,");
	stop_exporter();
	fixture_stop_daemon(f);
	setenv("GPUCTR_FAKE_GPM", "1", 1);
	setenv("GPUCTR_FAKE_NVML_FAIL", "nvmlGpmSampleGet:999", 1);
	fixture_start_daemon(f, NULL);
	unsetenv("GPUCTR_FAKE_NVML_FAIL");
	unsetenv("GPUCTR_FAKE_GPM");
	expect_status(f, NULL, "activity is not known: nvmlGpmSampleGet: Unknown Error (999)");
	expect_status(f, "--json", "Unknown Error (999)\",\"activity\":null");
	fixture_stop_daemon(f);
	fixture_start_daemon(f, NULL);
	expect_status(f, NULL,
		      "activity is not known: NVML samples GPUs of Hopper and newer alone");
}

EXPORTER_TEST(names_are_told_where_the_settings_allow_them)
{
	fixture_need_root();
	names_are_told_where_settings_allow(*state, "metric-labels=none", false, false);
	names_are_told_where_settings_allow(*state, "metric-labels=user", true, false);
	names_are_told_where_settings_allow(*state, "metric-labels=job", false, true);
	names_are_told_where_settings_allow(*state, "metric-labels=user, job", true, true);
}

/* As an ordinary user that is no monitor. */
EXPORTER_TEST(who_is_no_monitor_says_so)
{
	struct fixture *f = *state;
	char *text;

	fixture_need_root();
	fixture_start_strict_daemon(f, NULL);
	start_exporter(f, USER_BOB);
	text = scrape(f, USER_SELF);
	assert_int_equal(value_of(text, "gpucountd_up"), 0);
	assert_int_equal(value_of(text, "gpucountd_unanswered{reason=\"not-allowed\"}"), 1);
	expect_openmetrics(f);
	free(text);
	expect_text_soon(exporter->err, "monitor-users");
	stop_exporter();
}

/* A collector takes a counter that is smaller than before for one that has begun anew, and looks at
 * start_time_seconds when that was. */
EXPORTER_TEST(a_daemon_that_is_gone_is_told_until_it_is_back)
{
	struct fixture *f = *state;
	double began, begins;
	char *text;

	start(f);
	text = scrape(f, USER_SELF);
	began = value_of(text, "gpucountd_start_time_seconds");
	free(text);
	sleep_ms(ASKED_MS); /* a little time has passed, and it is the same */
	expect_soon(f, "gpucountd_start_time_seconds", began);
	fixture_stop_daemon(f);
	expect_soon(f, "gpucountd_up", 0);
	text = scrape(f, USER_SELF);
	assert_int_equal(value_of(text, "gpucountd_unanswered{reason=\"no-daemon\"}"), 1);
	free(text);
	expect_openmetrics(f);
	sleep_ms(FAILURE_MS); /* asked anew, and not logged anew */
	expect_soon(f, "gpucountd_up", 0);
	assert_int_equal(count_text(exporter->err, "error["), 1);
	fixture_start_daemon(f, "--set", "monitor-users=*", NULL);
	expect_soon(f, "gpucountd_up", 1);
	text = scrape(f, USER_SELF);
	begins = value_of(text, "gpucountd_start_time_seconds");
	free(text);
	assert_true(begins > began + FAILURE_MS / 1000.0);
	assert_int_equal(count_text(exporter->err, "error["), 1);
	stop_exporter();
}

/* The exporter's own connection fills the queue of a socket at which nobody accepts. A scrape is
 * answered after a second, and the next ones at once, until the exporter asks again. */
EXPORTER_TEST(a_daemon_that_does_not_accept_holds_up_no_scrape)
{
	struct fixture *f = *state;
	int socket = fixture_open_socket(f);
	uint64_t began_ms;
	char *text;

	assert_int_equal(listen(socket, 0), 0);
	start_exporter(f, USER_SELF);
	for (int i = 0; i < 4; i++) {
		began_ms = now_ms();
		text = scrape(f, USER_SELF);
		/* The library itself gives up after five seconds. */
		assert_true(now_ms() - began_ms < (i % 2 == 0 ? 4000 : 1000));
		assert_int_equal(value_of(text, "gpucountd_up"), 0);
		assert_non_null(strstr(text, "gpucountd_unanswered{reason=\""));
		free(text);
		sleep_ms(i == 1 ? FAILURE_MS : 0);
	}
	stop_exporter();
	close(socket);
}

/* --- clients that mean no good --- */

EXPORTER_TEST(other_requests_are_answered_as_what_they_are)
{
	static const struct {
		const char *request, *answer;
	} cases[] = {
		{ "GET / HTTP/1.0\r\n\r\n", " 404 " },
		{ "HEAD /metrics HTTP/1.0\r\n\r\n", " 200 " },
		{ "GET /metrics/ HTTP/1.0\r\n\r\n", " 404 " },
		{ "GET /../../etc/passwd HTTP/1.0\r\n\r\n", " 404 " },
		{ "DELETE /metrics HTTP/1.0\r\n\r\n", " 405 " },
		{ "POST /metrics HTTP/1.0\r\nContent-Length: 99999999999\r\n\r\n", " 405 " },
		{ "GET /metrics HTTP/1.1\r\n\r\n", " 400 " }, /* no host */
	};
	struct fixture *f = *state;

	start(f);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = ask(f, USER_SELF, cases[i].request);

		if (!strstr(text, cases[i].answer)) {
			fail_msg("%s is answered %s", cases[i].request, text);
		}
		free(text);
	}
	stop_exporter();
}

static void send_long_head(struct fixture *f)
{
	static char line[64 * 1024];
	int fd = dial(f, USER_ANN);
	char *text;

	memset(line, 'x', sizeof(line));
	send(fd, GET "X: ", strlen(GET "X: "), MSG_NOSIGNAL);
	for (int i = 0; i < 16 && send(fd, line, sizeof(line), MSG_NOSIGNAL) > 0; i++) {
	}
	text = read_all(fd);
	assert_null(strstr(text, " 200 "));
	free(text);
	close(fd);
}

static void send_noise(struct fixture *f, uint64_t *random)
{
	uint8_t noise[512];
	int fd = dial(f, USER_ANN);

	for (size_t i = 0; i < sizeof(noise); i++) {
		*random = *random * 6364136223846793005u + 1442695040888963407u;
		noise[i] = (uint8_t)(*random >> 56);
	}
	send(fd, noise, *random % sizeof(noise), MSG_NOSIGNAL);
	close(fd);
}

/* A connection that its client has closed is open in the exporter for a moment longer, which is
 * long on a machine that is busy: the least that is seen within so long, or as soon as it is no
 * more than expected. */
static size_t idle_descriptors(size_t expected, uint64_t patience_ms)
{
	uint64_t until_ms = now_ms() + patience_ms;
	size_t least = SIZE_MAX;

	while (least > expected && now_ms() < until_ms) {
		size_t n = process_descriptors(exporter->pid);

		least = n < least ? n : least;
		sleep_ms(5);
	}
	return least;
}

/* Freed memory is kept by sanitizers; there only descriptors are compared. */
static void expect_no_growth(long kib, size_t descriptors)
{
	long grown_kib = process_resident_kib(exporter->pid) - kib;

	assert_true(grown_kib > -kib); /* it runs */
	print_message("the exporter has grown by %ld KiB\n", grown_kib);
	assert_true(idle_descriptors(descriptors, PATIENCE_MS) <= descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(grown_kib <= 1024);
#endif
}

EXPORTER_TEST(noise_costs_nobody_anything)
{
	struct fixture *f = *state;
	uint64_t random = 1;
	size_t descriptors;
	char *text;
	long kib;

	start(f);
	expect_soon(f, "gpucountd_up", 1);
	for (int i = 0; i < 200; i++) {
		send_noise(f, &random);
	}
	send_long_head(f);
	free(scrape(f, USER_BOB)); /* all that was sent before has been looked at */
	kib = process_resident_kib(exporter->pid);
	descriptors = idle_descriptors(0, 1000);
	for (int i = 0; i < 2000; i++) {
		send_noise(f, &random);
	}
	for (int i = 0; i < 20; i++) {
		send_long_head(f);
	}
	text = scrape(f, USER_BOB);
	assert_non_null(strstr(text, " 200 "));
	free(text);
	expect_no_growth(kib, descriptors);
	stop_exporter();
}

/* The daemon is asked once a second, whoever asks for metrics how often. */
EXPORTER_TEST(many_clients_are_one_to_the_daemon)
{
	enum { SCRAPES = 500 };
	struct fixture *f = *state;
	uint64_t begin_ms;
	double before, asked, seconds;
	char *text;

	start(f);
	expect_soon(f, "gpucountd_up", 1);
	text = scrape(f, USER_SELF);
	before = value_of(text, "gpucountd_connections_accepted_total");
	free(text);
	begin_ms = now_ms();
	for (int i = 0; i < SCRAPES; i++) {
		expect_served(dial(f, i % 2 ? USER_ANN : USER_BOB));
	}
	sleep_ms(ASKED_MS);
	text = scrape(f, USER_SELF);
	asked = value_of(text, "gpucountd_connections_accepted_total") - before;
	free(text);
	seconds = (double)(now_ms() - begin_ms) / 1000;
	print_message("%d scrapes, %.0f questions to the daemon in %.1f s\n", SCRAPES, asked,
		      seconds);
	assert_true(asked >= 1 && asked <= seconds + 2);
	stop_exporter();
}

static bool is_closed_within(int fd, int ms)
{
	struct pollfd p = { fd, POLLIN, 0 };
	char byte;

	return poll(&p, 1, ms) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

/* Half a request each. Who holds as many connections as there may be, and more, takes them from
 * nobody else: the oldest give way before their time is over, and the newest is served. */
static void hold_connections(struct fixture *f, bool port)
{
	uint64_t begin_ms = now_ms();
	int fds[3 * CONNECTIONS];
	size_t closed = 0, last = ARRAY_SIZE(fds) - 1;
	char *text;

	for (size_t i = 0; i <= last; i++) {
		fds[i] = port ? dial_port() : dial(f, USER_ANN);
		send(fds[i], GET, strlen(GET), MSG_NOSIGNAL);
	}
	expect_served(port ? dial_port() : dial(f, USER_BOB));
	for (size_t i = 0; i < 2 * CONNECTIONS; i++) {
		closed += is_closed_within(fds[i], IDLE_MS);
	}
	text = ask_on(fds[last], "\r\n");
	assert_in_range(now_ms() - begin_ms, 0, IDLE_MS - 1);
	assert_int_equal(closed, 2 * CONNECTIONS);
	assert_non_null(strstr(text, " 200 OK"));
	free(text);
	for (size_t i = 0; i < last; i++) {
		close(fds[i]);
	}
}

EXPORTER_TEST(who_holds_connections_holds_nobody_up)
{
	struct fixture *f = *state;

	start(f);
	expect_served(dial(f, USER_BOB));
	hold_connections(f, false);
	hold_connections(f, true);
	stop_exporter();
}

EXPORTER_TEST(a_silent_connection_is_closed)
{
	struct fixture *f = *state;
	uint64_t begin_ms = now_ms();
	int fd;

	start(f);
	fd = dial(f, USER_ANN);
	send(fd, "GET /", 5, MSG_NOSIGNAL);
	assert_true(is_closed_within(fd, PATIENCE_MS));
	assert_true(now_ms() - begin_ms >= IDLE_MS - 1000);
	close(fd);
	stop_exporter();
}

static int setup(void **state)
{
	int r = fixture_setup(state);

	if (r == 0) {
		sockets[0] = fixture_open_socket_at(metrics_socket(*state));
		sockets[1] = open_port();
		chmod(metrics_socket(*state), 0666); /* who asks here is in no group */
	}
	return r;
}

static int teardown(void **state)
{
	close(sockets[0]);
	close(sockets[1]);
	return fixture_teardown(state);
}
