/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <gpuctr/gpuctr.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "daemon/audit/audit.h"
#include "daemon/base/log.h"
#include "proto/base/clock.h"

static const char *const gpus[] = { "GPU-1" };
static const char *const metrics[] = { "dram__bytes_read.sum", "a\"b\\c\nd\xff" };

static struct audit_line make_line(enum audit_event event)
{
	return (struct audit_line){
		.event = event,
		.uid = 1234,
		.pid = 77,
		.user = "ann",
		.program = "net.py",
		.capture = 3,
		.gpus = gpus,
		.n_gpus = 1,
		.metrics = metrics,
		.n_metrics = 2,
	};
}

static char path[] = "/tmp/test_audit.XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

TEST_GROUP(make_file, remove_file)

/* All of the file; static. */
static const char *contents(void)
{
	static char text[1 << 20];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	assert_true(n >= 0);
	close(fd);
	text[n] = '\0';
	return text;
}

static unsigned count(const char *what)
{
	unsigned n = 0;

	for (const char *p = contents(); (p = strstr(p, what)) != NULL; p++) {
		n++;
	}
	return n;
}

/* As the front does it. */
static int say(struct audit *a, struct audit_line l)
{
	return audit_takes(a, &l) ? audit_write(a, &l) : 0;
}

/* With an empty file. */
static struct audit *begin(void)
{
	static struct audit a = { .fd = -1 };

	log_init("test", LOG_EMERG);
	audit_deinit(&a);
	a = (struct audit){ .fd = -1 };
	assert_int_equal(truncate(path, 0), 0);
	audit_set_file(&a, true, audit_open(path));
	assert_true(a.fd >= 0);
	return &a;
}

TEST(a_line_is_json)
{
	const char *text;
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_LEASE_GRANTED);

	assert_int_equal(say(a, l), 0);
	text = contents();
	assert_memory_equal(text, "{\"time\":\"20", 11);
	assert_non_null(strstr(text, ",\"event\":\"lease-granted\",\"uid\":1234,\"user\":\"ann\","
				     "\"pid\":77,\"program\":\"net.py\",\"capture\":3,"
				     "\"gpus\":[\"GPU-1\"],\"metrics\":["
				     "\"dram__bytes_read.sum\",\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"],"
				     "\"status\":\"ok\"}\n"));
}

/* To the microsecond, in UTC. */
TEST(a_line_tells_when)
{
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_LEASE_GRANTED);
	uint64_t before = clock_wall_ns() / 1000, after, us;
	struct tm tm = { 0 };
	unsigned fraction;
	int end = 0;

	assert_int_equal(say(a, l), 0);
	after = clock_wall_ns() / 1000;
	assert_int_equal(sscanf(contents(), "{\"time\":\"%4d-%2d-%2dT%2d:%2d:%2d.%6uZ\",%n",
				&tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
				&tm.tm_sec, &fraction, &end),
			 7);
	assert_int_equal(end, strlen("{\"time\":\"2026-11-24T15:21:39.000001Z\","));
	tm.tm_year -= 1900;
	tm.tm_mon--;
	us = (uint64_t)timegm(&tm) * 1000000 + fraction;
	assert_in_range(us, before, after);
}

/* Who measures programs of another user stands beside whose they are. */
TEST(the_owner_of_what_is_measured_is_named)
{
	const char *text;
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_LEASE_GRANTED);

	l.owner = "bob";
	assert_int_equal(say(a, l), 0);
	text = contents();
	assert_non_null(strstr(text, "\"user\":\"ann\",\"pid\":77,\"program\":\"net.py\","
				     "\"owner\":\"bob\",\"capture\":3,"));
	l.owner = ""; /* one's own */
	assert_int_equal(say(a, l), 0);
	assert_null(strstr(strchr(contents(), '\n'), "owner"));
}

TEST(a_full_disk_is_an_error_until_there_is_room)
{
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_LEASE_GRANTED);

	audit_set_file(a, true, open("/dev/full", O_WRONLY));
	assert_int_equal(say(a, l), -ENOSPC);
	assert_int_equal(a->error, -ENOSPC);
	audit_set_file(a, true, -1); /* it could not be opened again */
	assert_int_equal(say(a, l), -EBADF);
	audit_set_file(a, false, -1);
	assert_int_equal(say(a, l), 0);
}

/* A disk that fills in the middle of a line: the next line is whole and begins a line. */
TEST(a_torn_line_does_not_spoil_the_next)
{
	const char *text;
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_LEASE_ENDED);

	a->torn = true;
	assert_int_equal(write(a->fd, "{\"ti", 4), 4);
	assert_int_equal(say(a, l), 0);
	text = contents();
	assert_memory_equal(text, "{\"ti\n{\"time\"", 12);
	assert_false(a->torn);
}

TEST(refusals_do_not_flood)
{
	const char *text;
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_REFUSED);
	uint64_t begin_ns = clock_now_ns();

	l.code = GPUCTR_E_NOT_ALLOWED;
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(say(a, l), 0);
	}
	l.uid = 1235; /* somebody else is still heard */
	assert_int_equal(say(a, l), 0);
	text = contents();
	/* One more for each second that it took. */
	assert_in_range(count("\n"), 61, 62 + (clock_now_ns() - begin_ns) / CLOCK_NS_PER_S);
	assert_non_null(strstr(text, "\"uid\":1235"));
	assert_non_null(strstr(text, "\"status\":\"not-allowed\""));
}

/* The sum of a number that stands in lines. */
static uint64_t sum_of(const char *key)
{
	uint64_t sum = 0;

	for (const char *p = contents(); (p = strstr(p, key)) != NULL; p++) {
		sum += strtoull(p + strlen(key), NULL, 10);
	}
	return sum;
}

/* Uids are cheap: a thousand users have no more lines than ten, and each refusal is listed or
 * counted in a line. */
TEST(refusals_of_many_users_do_not_flood)
{
	enum { USERS = 1000, EACH = 70, LEAST = 600 };
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_REFUSED);
	uint64_t begin_ns = clock_now_ns(), told, left;
	unsigned lines;

	for (unsigned i = 0; i < USERS * EACH; i++) {
		l.uid = 2000 + i / EACH;
		assert_int_equal(say(a, l), 0);
	}
	lines = count("\n");
	/* Ten more for each second that it took. */
	assert_in_range(lines, LEAST,
			LEAST * (61 + (clock_now_ns() - begin_ns) / CLOCK_NS_PER_S) / 60 + 1);
	left = a->users.all.missed + a->users.each.forgotten;
	for (size_t i = 0; i < RATE_USERS_MAX; i++) {
		left += a->users.each.buckets[i].missed;
	}
	told = sum_of("\"refused_before\":") + sum_of("\"others_refused_before\":");
	assert_int_equal(lines + told + left, USERS * EACH);
}

/* What could not be listed stands in the next line of anybody. */
TEST(refusals_that_were_left_out_are_told_by_others)
{
	const char *text;
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_REFUSED);

	a->users.all.full_ns =
		clock_now_ns() + 90 * CLOCK_NS_PER_S; /* others have had their lines */
	for (unsigned i = 0; i < 80; i++) {
		l.uid = 2000 + i;
		assert_int_equal(say(a, l), 0);
	}
	a->users.all.full_ns = 0; /* a minute later */
	l.uid = 3000;
	assert_int_equal(say(a, l), 0);
	text = strstr(contents(), "\"uid\":3000");
	assert_non_null(text);
	assert_null(strstr(text, "\"refused_before\""));
	assert_non_null(strstr(text, "\"others_refused_before\":80}"));
	a->users.each.forgotten = 5; /* with the bucket of a user */
	l.uid = 3001;
	assert_int_equal(say(a, l), 0);
	text = strstr(contents(), "\"uid\":3001");
	assert_non_null(strstr(text, "\"others_refused_before\":5}"));
	l.uid = 3002; /* each is told once */
	assert_int_equal(say(a, l), 0);
	text = strstr(contents(), "\"uid\":3002");
	assert_null(strstr(text, "refused_before"));
}

/* Strangers are as many as uids, and everybody may connect where the socket's mode lets them. */
TEST(strangers_hide_no_refusal_of_users)
{
	enum { STRANGERS = 1000, USERS = 50 };
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_REFUSED);
	unsigned lines;

	l.is_stranger = true;
	for (unsigned i = 0; i < STRANGERS; i++) {
		l.uid = 2000 + i;
		assert_int_equal(say(a, l), 0);
	}
	lines = count("\n");
	assert_in_range(lines, 600, STRANGERS - 1);
	l.is_stranger = false;
	for (unsigned i = 0; i < USERS; i++) {
		l.uid = 1000 + i;
		assert_int_equal(say(a, l), 0);
	}
	assert_int_equal(count("\n"), lines + USERS);
	assert_null(strstr(contents(), "refused_before"));
}

/* A refusal after a line that said "granted" is no flood: without it the log would lie. */
TEST(corrections_are_never_left_out)
{
	enum { MANY = 200 };
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_PERMISSION_REFUSED);
	uint64_t begin_ns = clock_now_ns();

	l.driver_status = 0x1b;
	for (int i = 0; i < MANY; i++) {
		l.corrects = true;
		assert_int_equal(say(a, l), 0);
		l.corrects = false;
		l.driver_status = 0x33;
		assert_int_equal(say(a, l), 0);
		l.driver_status = 0x1b;
	}
	assert_int_equal(count("\"driver_status\":27}"), MANY);
	assert_in_range(count("\"driver_status\":51"), 60,
			61 + (clock_now_ns() - begin_ns) / CLOCK_NS_PER_S);
}

/* A file that may grow so far and no further, as at the end of a disk: the line is torn. */
TEST(a_short_write_is_an_error)
{
	const char *text;
	struct audit *a = begin();
	struct audit_line l = make_line(AUDIT_LEASE_GRANTED);
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(say(a, l), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = strlen(contents()) + 10;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(say(a, l), -ENOSPC);
	assert_int_equal(a->error, -ENOSPC);
	assert_int_equal(say(a, l), -EFBIG); /* not a byte more */
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(say(a, l), 0);
	assert_int_equal(a->error, 0);
	text = strchr(contents(), '\n') + 1;
	assert_memory_equal(text, "{\"time\":\"", 9);
	text = strchr(text, '\n') + 1;
	assert_memory_equal(text, "{\"time\":\"", 9);
	text = strrchr(text, ',');
	assert_string_equal(text, ",\"status\":\"ok\"}\n");
}

/* --- the journal --- */

static char entry[16384]; /* the last one: lines of KEY=value */
static unsigned n_entries;
static int journal_result;

/* Stands for libsystemd's, as its header has it called. */
int sd_journal_sendv_with_location(const char *file, const char *line, const char *function,
				   const struct iovec *v, int n);
int sd_journal_sendv_with_location(const char *file, const char *line, const char *function,
				   const struct iovec *v, int n)
{
	size_t used = 0;

	(void)file;
	(void)line;
	(void)function;
	n_entries++;
	for (int i = 0; i < n; i++) {
		assert_true(used + v[i].iov_len + 2 < sizeof(entry));
		memcpy(entry + used, v[i].iov_base, v[i].iov_len);
		used += v[i].iov_len;
		entry[used++] = '\n';
	}
	entry[used] = '\0';
	return journal_result;
}

static void expect_field(const char *text)
{
	char line[512];

	snprintf(line, sizeof(line), "\n%s\n", text);
	if (!strstr(entry, line)) {
		fail_msg("no field %s in\n%s", text, entry);
	}
}

static struct audit *begin_journal(void)
{
	static struct audit a = { .fd = -1 };

	audit_deinit(&a);
	a = (struct audit){ .fd = -1, .journal = true };
	n_entries = 0;
	journal_result = 0;
	return &a;
}

TEST(the_journal_gets_every_field)
{
	static const char *const two[] = { "GPU-1", "GPU-2" };
	static const char text[] =
		"MESSAGE=permission refused: capture 3 of ann (uid 1234, net.py, "
		"pid 77): because\n";
	struct audit *a = begin_journal();
	struct audit_line l = make_line(AUDIT_PERMISSION_REFUSED);

	l.code = GPUCTR_E_NOT_ALLOWED;
	l.why = "because";
	l.gpus = two;
	l.n_gpus = 2;
	l.n_metrics = 1;
	assert_int_equal(say(a, l), 0);
	assert_int_equal(n_entries, 1);
	assert_memory_equal(entry, text, strlen(text));
	expect_field("MESSAGE_ID=b30b143ebe40488eab14a62c6ae5eb60");
	expect_field("PRIORITY=5");
	expect_field("SYSLOG_IDENTIFIER=gpucountd");
	expect_field("GPUCTR_EVENT=permission-refused");
	expect_field("GPUCTR_UID=1234");
	expect_field("GPUCTR_USER=ann");
	expect_field("GPUCTR_OWNER=");
	expect_field("GPUCTR_PID=77");
	expect_field("GPUCTR_PROGRAM=net.py");
	expect_field("GPUCTR_STATUS=not-allowed");
	expect_field("GPUCTR_CAPTURE=3");
	expect_field("GPUCTR_JOB=");
	expect_field("GPUCTR_GPUS=GPU-1 GPU-2");
	expect_field("GPUCTR_METRICS=dram__bytes_read.sum");
	expect_field("GPUCTR_WHY=because");
	expect_field("GPUCTR_DRIVER_STATUS=0");
	expect_field("GPUCTR_REFUSED_BEFORE=0");
	expect_field("GPUCTR_OTHERS_REFUSED_BEFORE=0");
}

/* Who starts a daemon by hand may have the variable of another service, or stderr elsewhere. */
TEST(the_journal_is_known_by_its_stream)
{
	char text[64];
	struct stat st;

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", text, 1);
	assert_true(log_is_journal());
	setenv("JOURNAL_STREAM", "1:2", 1);
	assert_false(log_is_journal());
	unsetenv("JOURNAL_STREAM");
	assert_false(log_is_journal());
}

/* Not even where the settings name one. */
TEST(beside_the_journal_there_is_no_file)
{
	struct audit *a;

	begin();
	a = begin_journal();
	audit_set_file(a, true, audit_open(path));
	assert_int_equal(say(a, make_line(AUDIT_LEASE_GRANTED)), 0);
	assert_int_equal(n_entries, 1);
	assert_string_equal(contents(), "");
}

/* A program may be called anything, and an error cut in the middle of a character. */
TEST(the_journals_message_is_text)
{
	static const char text[] = "MESSAGE=refused: capture 3 of ann (uid 1234, a?[31m?b??????, "
				   "pid 77): no ?\n";
	struct audit *a = begin_journal();
	struct audit_line l = make_line(AUDIT_REFUSED);

	l.program = "a\x1b[31m\nb\xe2\x80\xae\xc2\x9b\x7f";
	l.why = "no \xc3";
	assert_int_equal(say(a, l), 0);
	assert_memory_equal(entry, text, strlen(text));
}

/* By these administrators filter: no two events share one, and none changes. */
TEST(each_event_has_its_words_level_and_id)
{
	static const struct {
		enum audit_event event;
		const char *name, *message, *id;
		int level;
	} events[] = {
		{ AUDIT_STARTED, "started", "started: ", "5faecb0cf93d4252bb71d0a8983ff38a",
		  LOG_INFO },
		{ AUDIT_REFUSED, "refused", "refused: ", "7d73fefec6b149238a4272234c2edea2",
		  LOG_NOTICE },
		{ AUDIT_LEASE_GRANTED, "lease-granted",
		  "lease granted: ", "e55a1952beb44a678d227a4002797867", LOG_INFO },
		{ AUDIT_LEASE_ENDED, "lease-ended",
		  "lease ended: ", "cac519eea5c642df860ee2eef5552fe9", LOG_INFO },
		{ AUDIT_LEASE_EXPIRED, "lease-expired",
		  "lease expired: ", "b9f63c144cc645d084b5806d5a27dbfb", LOG_NOTICE },
		{ AUDIT_LEASE_REVOKED, "lease-revoked",
		  "lease revoked: ", "a83589c63c3c43edb36f9803b369169b", LOG_NOTICE },
		{ AUDIT_TRACE_GRANTED, "trace-granted",
		  "trace granted: ", "e6ece9ec4b43b25cfdf5e110d4008f1f", LOG_INFO },
		{ AUDIT_TRACE_ENDED, "trace-ended",
		  "trace ended: ", "ee9af0e29ee745a9afb031f2a7742e47", LOG_INFO },
		{ AUDIT_PERMISSION_GRANTED, "permission-granted",
		  "permission granted: ", "c71ea84ab8974bcd85ac1588e8be70d5", LOG_INFO },
		{ AUDIT_JOB_BEGUN, "job-begun", "job begun: ", "d928d387ddd744179cfe4e4b83235270",
		  LOG_INFO },
		{ AUDIT_JOB_ENDED, "job-ended", "job ended: ", "13e9c1b4c9cb40f4aa2ac2fa663cc04b",
		  LOG_INFO },
	};
	struct audit *a = begin_journal();

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct audit_line l = make_line(events[i].event);
		char text[128];

		l.job = "4711";
		assert_int_equal(say(a, l), 0);
		snprintf(text, sizeof(text), "MESSAGE=%sjob 4711 of ann", events[i].message);
		assert_memory_equal(entry, text, strlen(text));
		snprintf(text, sizeof(text), "GPUCTR_EVENT=%s", events[i].name);
		expect_field(text);
		snprintf(text, sizeof(text), "MESSAGE_ID=%s", events[i].id);
		expect_field(text);
		snprintf(text, sizeof(text), "PRIORITY=%d", events[i].level);
		expect_field(text);
		expect_field("GPUCTR_JOB=4711");
	}
}

TEST(a_journal_that_takes_nothing_is_an_error)
{
	struct audit *a = begin_journal();
	struct audit_line l = make_line(AUDIT_LEASE_GRANTED);

	log_init("test", LOG_EMERG);
	journal_result = -ENOBUFS;
	assert_int_equal(say(a, l), -ENOBUFS);
	journal_result = 0;
	assert_int_equal(say(a, l), 0);
	a->journal = false;
	assert_int_equal(say(a, l), 0); /* a line of text, and no entry */
	assert_int_equal(n_entries, 2);
}

TEST(only_plain_files_are_opened)
{
	char link[96];
	int fd;

	log_init("test", LOG_EMERG);
	snprintf(link, sizeof(link), "%s.link", path);
	assert_int_equal(symlink(path, link), 0);
	assert_true(audit_open(link) < 0);
	unlink(link);
	assert_int_equal(mkfifo(link, 0600), 0);
	assert_true(audit_open(link) < 0);
	unlink(link);
	assert_true(audit_open("/dev/null") < 0);
	assert_true(audit_open("/nowhere/at/all") < 0);
	fd = audit_open(path);
	assert_true(fd >= 0);
	close(fd);
}
