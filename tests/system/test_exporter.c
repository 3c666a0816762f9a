/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/raw.h"

/* The exporter of metrics beside a real daemon: what it tells, whom it serves, and what clients
 * that mean no good can take from it: nothing that another one needs. */

enum { ANSWER_BYTES = 64 * 1024, OF_ONE_USER = 8, REQUEST_MS = 10000 /* may take */ };

#define GET "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"

static struct program *exporter;

static const char *metrics_socket(struct fixture *f)
{
	return fixture_path(f, "metrics.sock");
}

static void start_exporter(struct fixture *f)
{
	uint64_t until_ms = now_ms() + PATIENCE_MS;
	int fd;

	exporter = fixture_run(f, USER_SELF, built_path("client/exporter/gpuctr-exporter"),
			       "--listen", metrics_socket(f), NULL);
	while ((fd = raw_dial(metrics_socket(f))) < 0 && now_ms() < until_ms) {
		sleep_ms(10);
	}
	assert_true(fd >= 0);
	close(fd);
	chmod(metrics_socket(f), 0666); /* the users that tests become are in no group */
}

static void start(struct fixture *f)
{
	fixture_start_daemon(f, "--set", "monitor-users=*", NULL);
	start_exporter(f);
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
	for (uint64_t by = now_ms() + PATIENCE_MS; fd < 0 && now_ms() < by;) {
		sleep_ms(10); /* between bind() and listen() the socket is there and refuses */
		fd = raw_dial(metrics_socket(f));
	}
	if (change) {
		assert_int_equal(seteuid(0), 0);
	}
	assert_true(fd >= 0);
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

/* The answer to one request, with its head; free it. */
static char *ask(struct fixture *f, int uid, const char *request)
{
	int fd = dial(f, uid);
	char *text;

	send(fd, request, strlen(request), MSG_NOSIGNAL);
	text = read_all(fd);
	close(fd);
	return text;
}

static char *scrape(struct fixture *f, int uid)
{
	return ask(f, uid, GET "\r\n");
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

/* A strict reader takes the body for OpenMetrics. */
static void expect_openmetrics(struct fixture *f, const char *answer)
{
	const char *body = strstr(answer, "\r\n\r\n"), *path = fixture_path(f, "metrics.txt");
	FILE *file = fopen(path, "w");

	assert_non_null(body);
	assert_non_null(file);
	fputs(body + 4, file);
	fclose(file);
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
	assert_non_null(strstr(text, "Content-Type: application/openmetrics-text; version=1.0.0"));
	expect_openmetrics(f, text);
	free(text);
}

static void captures_are_told_in_openmetrics(void **state)
{
	struct fixture *f = *state;

	start(f);
	what_happened_is_told(f);
	stop_exporter();
	assert_int_equal(access(metrics_socket(f), F_OK), -1);
}

static void the_older_format_is_told_on_request(void **state)
{
	struct fixture *f = *state;
	char *text;

	start(f);
	text = ask(f, USER_SELF, GET "Accept: text/plain;version=0.0.4\r\n\r\n");
	assert_non_null(strstr(text, "Content-Type: text/plain; version=0.0.4"));
	assert_non_null(strstr(text, "# TYPE gpucountd_leases_total counter"));
	assert_null(strstr(text, "# EOF"));
	free(text);
	text = ask(f, USER_SELF,
		   GET
		   "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n");
	assert_non_null(strstr(text, "# EOF\n"));
	free(text);
	stop_exporter();
}

/* Held by ann for a job of root's: names, and only those that the settings allow. */
static void names_are_told_where_settings_allow(struct fixture *f, const char *labels, bool users,
						bool jobs)
{
	struct program *holder;
	char *text;

	fixture_start_daemon(f, "--set", "monitor-users=*", "--set", labels, NULL);
	start_exporter(f);
	holder = fixture_client(f, USER_SELF, "--metrics", "memory", "--", FAKEAPP, "--hold",
				"middle", NULL);
	fixture_wait_held(f, 1);
	expect_exit(fixture_client(f, USER_SELF, "job", "begin", "--job", "night \"run\"", "--user",
				   "0", "--devices", "0", NULL),
		    0);
	sleep_ms(1100); /* what is told is at most a second old */
	text = scrape(f, USER_SELF);
	assert_int_equal(strstr(text, "gpucountd_gpu_holder_info{gpu=\"0\"") != NULL, users);
	assert_int_equal(strstr(text, "job=\"night \\\"run\\\"\"") != NULL, jobs);
	assert_int_equal(strstr(text, "user=\"root\"") != NULL, users);
	expect_openmetrics(f, text);
	free(text);
	fixture_release(f);
	expect_exit(holder, 0);
	stop_exporter();
	fixture_stop_daemon(f);
}

static void names_are_told_where_the_settings_allow_them(void **state)
{
	fixture_need_root();
	names_are_told_where_settings_allow(*state, "metric-labels=none", false, false);
	names_are_told_where_settings_allow(*state, "metric-labels=user", true, false);
	names_are_told_where_settings_allow(*state, "metric-labels=job", false, true);
	names_are_told_where_settings_allow(*state, "metric-labels=user, job", true, true);
}

/* As an ordinary user that is no monitor. */
static void who_is_no_monitor_says_so(void **state)
{
	struct fixture *f = *state;
	char *text;

	fixture_need_root();
	fixture_start_strict_daemon(f, NULL);
	chmod(f->folder, 0777);
	exporter = fixture_run(f, USER_BOB, built_path("client/exporter/gpuctr-exporter"),
			       "--listen", metrics_socket(f), NULL);
	while (access(metrics_socket(f), F_OK) != 0) {
		sleep_ms(10);
	}
	text = scrape(f, USER_SELF);
	assert_int_equal(value_of(text, "gpucountd_up"), 0);
	assert_int_equal(value_of(text, "gpucountd_unanswered{reason=\"not-allowed\"}"), 1);
	expect_openmetrics(f, text);
	free(text);
	expect_text_soon(exporter->err, "monitor-users");
	stop_exporter();
}

static void a_daemon_that_is_gone_is_told_until_it_is_back(void **state)
{
	struct fixture *f = *state;
	char *text;

	start(f);
	expect_soon(f, "gpucountd_up", 1);
	fixture_stop_daemon(f);
	expect_soon(f, "gpucountd_up", 0);
	text = scrape(f, USER_SELF);
	assert_int_equal(value_of(text, "gpucountd_unanswered{reason=\"no-daemon\"}"), 1);
	expect_openmetrics(f, text);
	free(text);
	fixture_start_daemon(f, "--set", "monitor-users=*", NULL);
	expect_soon(f, "gpucountd_up", 1);
	stop_exporter();
}

static void a_daemon_that_hangs_is_told(void **state)
{
	struct fixture *f = *state;
	pid_t front;

	fixture_need_root_to_look();
	start(f);
	front = fixture_worker(f, "front");
	kill(front, SIGSTOP);
	expect_soon(f, "gpucountd_up", 0);
	kill(front, SIGCONT);
	expect_soon(f, "gpucountd_up", 1);
	stop_exporter();
}

/* --- clients that mean no good --- */

static void other_requests_are_answered_as_what_they_are(void **state)
{
	static const struct {
		const char *request, *answer;
	} cases[] = {
		{ "GET / HTTP/1.0\r\n\r\n", " 200 " },
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

static long resident_kib(pid_t pid)
{
	char path[32], line[128];
	long kib = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "RssAnon: %ld", &kib);
	}
	if (file) {
		fclose(file);
	}
	return kib;
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
	long grown_kib = resident_kib(exporter->pid) - kib;

	print_message("the exporter has grown by %ld KiB\n", grown_kib);
	assert_true(idle_descriptors(descriptors, PATIENCE_MS) <= descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(grown_kib <= 1024);
#endif
}

static void noise_costs_nobody_anything(void **state)
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
	kib = resident_kib(exporter->pid);
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
static void many_clients_are_one_to_the_daemon(void **state)
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
		text = scrape(f, i % 2 ? USER_ANN : USER_BOB);
		assert_non_null(strstr(text, "# EOF\n"));
		free(text);
	}
	sleep_ms(1100);
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

/* Half a request each. Ann has her share of connections and no more; bob is served. False: it took
 * so long that hers are cut off as well. */
static bool has_her_share(struct fixture *f)
{
	uint64_t begin_ms = now_ms();
	int fds[3 * OF_ONE_USER];
	size_t closed = 0;
	bool in_time, served;
	char *text;

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, USER_ANN);
		send(fds[i], GET, strlen(GET), MSG_NOSIGNAL);
	}
	text = scrape(f, USER_BOB);
	assert_non_null(strstr(text, "# EOF\n"));
	free(text);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		closed += is_closed_within(fds[i], i < OF_ONE_USER ? 10 : PATIENCE_MS);
	}
	send(fds[0], "\r\n", 2, MSG_NOSIGNAL); /* the first of them are served as well */
	text = read_all(fds[0]);
	served = strstr(text, "# EOF\n");
	free(text);
	in_time = now_ms() - begin_ms < REQUEST_MS;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		close(fds[i]);
	}
	assert_true(!in_time || (closed == ARRAY_SIZE(fds) - OF_ONE_USER && served));
	return in_time;
}

static void a_user_has_so_many_connections(void **state)
{
	struct fixture *f = *state;

	fixture_need_root();
	start(f);
	while (!has_her_share(f)) {
	}
	stop_exporter();
}

static int dial_tcp(int port)
{
	const struct sockaddr_in a = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = -1;

	for (uint64_t by = now_ms() + PATIENCE_MS; fd < 0 && now_ms() < by;) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
			close(fd);
			fd = -1;
			sleep_ms(10);
		}
	}
	assert_true(fd >= 0);
	return fd;
}

/* One that is free. */
static int choose_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(a);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
	close(fd);
	return ntohs(a.sin_port);
}

static void start_on_port(struct fixture *f, int port)
{
	char address[32];

	fixture_start_daemon(f, "--set", "monitor-users=*", NULL);
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	exporter = fixture_run(f, USER_SELF, built_path("client/exporter/gpuctr-exporter"), "--tcp",
			       address, NULL);
}

/* Requests without an end. */
static void ask_in_part(int *fds, size_t n, int port)
{
	for (size_t i = 0; i < n; i++) {
		fds[i] = dial_tcp(port);
		send(fds[i], GET, strlen(GET), MSG_NOSIGNAL);
	}
}

/* An address is no user: whoever holds connections from there does not hold the others up. The
 * oldest of those that have no answer gives way. */
static void nobody_holds_a_port(void **state)
{
	struct fixture *f = *state;
	int fds[3 * OF_ONE_USER], port = choose_port(), fd;
	char *text;
	size_t closed = 0;

	start_on_port(f, port);
	ask_in_part(fds, ARRAY_SIZE(fds), port);
	fd = dial_tcp(port);
	send(fd, GET "\r\n", strlen(GET "\r\n"), MSG_NOSIGNAL);
	text = read_all(fd);
	assert_non_null(strstr(text, "# EOF\n"));
	free(text);
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		closed += is_closed_within(fds[i], 10);
		close(fds[i]);
	}
	assert_true(closed >= ARRAY_SIZE(fds) - OF_ONE_USER);
	stop_exporter();
}

/* Which has waited for its answer for the longest. False: all have waited for too long. */
static bool give_way(int port)
{
	uint64_t begin_ms = now_ms();
	int fds[OF_ONE_USER + 2];
	size_t as_told = 0;
	bool in_time;

	ask_in_part(fds, ARRAY_SIZE(fds), port);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		as_told += is_closed_within(fds[i], i < 2 ? PATIENCE_MS : 10) == (i < 2);
	}
	in_time = now_ms() - begin_ms < REQUEST_MS;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		close(fds[i]);
	}
	assert_true(!in_time || as_told == ARRAY_SIZE(fds));
	return in_time;
}

static void the_oldest_gives_way(void **state)
{
	int port = choose_port();

	start_on_port(*state, port);
	while (!give_way(port)) {
	}
	stop_exporter();
}

/* An answer is the end of its connection, so none that is idle takes another's place. */
static void a_connection_has_one_answer(void **state)
{
	static const char get[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	struct fixture *f = *state;
	char *text;

	start(f);
	text = ask(f, USER_SELF, get);
	assert_non_null(strstr(text, "# EOF\n"));
	free(text);
	stop_exporter();
}

/* A byte now and then keeps no connection: 10 s is what a request may take. */
static void a_slow_request_is_cut_off(void **state)
{
	struct fixture *f = *state;
	uint64_t begin_ms = now_ms(), took_ms;
	int fd;

	start(f);
	fd = dial(f, USER_ANN);
	send(fd, "GET /", 5, MSG_NOSIGNAL);
	while (!is_closed_within(fd, 200) && now_ms() - begin_ms < PATIENCE_MS) {
		send(fd, "x", 1, MSG_NOSIGNAL);
	}
	took_ms = now_ms() - begin_ms;
	close(fd);
	assert_in_range(took_ms, 9000, PATIENCE_MS - 1);
	stop_exporter();
}

/* An answer that is not read holds nobody up. */
static void a_reader_that_stopped_holds_nobody_up(void **state)
{
	struct fixture *f = *state;
	int fds[OF_ONE_USER];
	char *text;

	start(f);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, USER_ANN);
		send(fds[i], GET "\r\n", strlen(GET "\r\n"), MSG_NOSIGNAL);
	}
	for (int i = 0; i < 20; i++) {
		text = scrape(f, USER_BOB);
		assert_non_null(strstr(text, "# EOF\n"));
		free(text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		close(fds[i]);
	}
	stop_exporter();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(captures_are_told_in_openmetrics),
		SYSTEM_TEST(the_older_format_is_told_on_request),
		SYSTEM_TEST(names_are_told_where_the_settings_allow_them),
		SYSTEM_TEST(who_is_no_monitor_says_so),
		SYSTEM_TEST(a_daemon_that_is_gone_is_told_until_it_is_back),
		SYSTEM_TEST(a_daemon_that_hangs_is_told),
		SYSTEM_TEST(other_requests_are_answered_as_what_they_are),
		SYSTEM_TEST(noise_costs_nobody_anything),
		SYSTEM_TEST(many_clients_are_one_to_the_daemon),
		SYSTEM_TEST(a_user_has_so_many_connections),
		SYSTEM_TEST(nobody_holds_a_port),
		SYSTEM_TEST(the_oldest_gives_way),
		SYSTEM_TEST(a_connection_has_one_answer),
		SYSTEM_TEST(a_slow_request_is_cut_off),
		SYSTEM_TEST(a_reader_that_stopped_holds_nobody_up),
	};

	return SYSTEM_RUN(tests);
}
