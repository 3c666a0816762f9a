/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <gpuctr/gpuctr.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/audit/audit.h"
#include "daemon/base/log.h"

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

/* All of the file; static. */
static const char *contents(const char *path)
{
	static char text[65536];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	assert_true(n >= 0);
	close(fd);
	text[n] = '\0';
	return text;
}

static const char *make_path(void)
{
	static char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/test_audit.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	return path;
}

/* As the front does it. */
static int say(struct audit *a, struct audit_line l)
{
	return audit_takes(a, &l) ? audit_write(a, &l) : 0;
}

static struct audit *begin(const char *path)
{
	static struct audit a;

	log_init("test", LOG_EMERG);
	a = (struct audit){ .fd = -1 };
	audit_set_file(&a, true, audit_open(path));
	assert_true(a.fd >= 0);
	return &a;
}

static void a_line_is_json(void **state)
{
	const char *path = make_path(), *text;
	struct audit *a = begin(path);
	struct audit_line l = make_line(AUDIT_LEASE_GRANTED);

	(void)state;
	assert_int_equal(say(a, l), 0);
	text = contents(path);
	assert_memory_equal(text, "{\"time\":\"20", 11);
	assert_non_null(strstr(text, ",\"event\":\"lease-granted\",\"uid\":1234,\"user\":\"ann\","
				     "\"pid\":77,\"program\":\"net.py\",\"capture\":3,"
				     "\"gpus\":[\"GPU-1\"],\"metrics\":["
				     "\"dram__bytes_read.sum\",\"a\\\"b\\\\c\\u000ad\\ufffd\"],"
				     "\"status\":\"ok\"}\n"));
	audit_deinit(a);
	unlink(path);
}

static void a_full_disk_is_an_error_until_there_is_room(void **state)
{
	struct audit *a = begin(make_path());
	struct audit_line l = make_line(AUDIT_LEASE_GRANTED);

	(void)state;
	audit_set_file(a, true, open("/dev/full", O_WRONLY));
	assert_int_equal(say(a, l), -ENOSPC);
	assert_int_equal(a->error, -ENOSPC);
	audit_set_file(a, true, -1); /* it could not be opened again */
	assert_int_equal(say(a, l), -EBADF);
	audit_set_file(a, false, -1);
	assert_int_equal(say(a, l), 0);
	audit_deinit(a);
}

/* A disk that fills in the middle of a line: the next line is whole and begins a line. */
static void a_torn_line_does_not_spoil_the_next(void **state)
{
	const char *path = make_path(), *text;
	struct audit *a = begin(path);
	struct audit_line l = make_line(AUDIT_LEASE_ENDED);

	(void)state;
	a->torn = true;
	assert_int_equal(write(a->fd, "{\"ti", 4), 4);
	assert_int_equal(say(a, l), 0);
	text = contents(path);
	assert_memory_equal(text, "{\"ti\n{\"time\"", 12);
	assert_false(a->torn);
	audit_deinit(a);
	unlink(path);
}

static void refusals_do_not_flood(void **state)
{
	const char *path = make_path(), *text;
	struct audit *a = begin(path);
	struct audit_line l = make_line(AUDIT_REFUSED);
	unsigned lines = 0;

	(void)state;
	l.code = GPUCTR_E_NOT_ALLOWED;
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(say(a, l), 0);
	}
	l.uid = 1235; /* somebody else is still heard */
	assert_int_equal(say(a, l), 0);
	text = contents(path);
	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++) {
		lines++;
	}
	assert_in_range(lines, 61, 63);
	assert_non_null(strstr(text, "\"uid\":1235"));
	assert_non_null(strstr(text, "\"status\":\"not-allowed\""));
	audit_deinit(a);
	unlink(path);
}

static void only_plain_files_are_opened(void **state)
{
	const char *path = make_path();
	char link[96];
	int fd;

	(void)state;
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
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_json),
		cmocka_unit_test(a_full_disk_is_an_error_until_there_is_room),
		cmocka_unit_test(a_torn_line_does_not_spoil_the_next),
		cmocka_unit_test(refusals_do_not_flood),
		cmocka_unit_test(only_plain_files_are_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
