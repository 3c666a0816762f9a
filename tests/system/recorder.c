/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/recorder.h"

#include <unistd.h>

static void on_opened(struct gpuctr_capture *c, const struct gpuctr_opened *o, void *userdata)
{
	struct recorder *r = userdata;

	(void)c;
	r->opened = true;
	r->id = o->capture;
}

static void on_queued(struct gpuctr_capture *c, const struct gpuctr_queued *q, void *userdata)
{
	struct recorder *r = userdata;

	(void)c;
	r->queued++;
	r->position = q->position;
	snprintf(r->holder, sizeof(r->holder), "%s", q->holder);
}

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	(void)c;
	((struct recorder *)userdata)->ready = true;
}

static void on_process(struct gpuctr_capture *c, const struct gpuctr_process *p, void *userdata)
{
	struct recorder *r = userdata;

	(void)c;
	r->processes = p->process > r->processes ? p->process : r->processes;
	if (r->on_process) {
		r->on_process(r, p);
	}
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *record, void *userdata)
{
	struct recorder *r = userdata;
	uint64_t *next = &r->next[record->process % ARRAY_SIZE(r->next)];

	(void)c;
	r->records++;
	if (record->index < *next) {
		r->disorder++;
	} else {
		r->gaps += record->index - *next;
		*next = record->index + 1;
	}
	if (r->on_record) {
		r->on_record(r, record);
	}
}

static void on_mark(struct gpuctr_capture *c, const struct gpuctr_mark *mark, void *userdata)
{
	struct recorder *r = userdata;

	(void)c;
	if (r->on_mark) {
		r->on_mark(r, mark);
	}
}

static void on_progress(struct gpuctr_capture *c, const struct gpuctr_totals *totals,
			void *userdata)
{
	(void)c;
	((struct recorder *)userdata)->totals = *totals;
}

static void on_notice(struct gpuctr_capture *c, const struct gpuctr_notice *n, void *userdata)
{
	struct recorder *r = userdata;

	(void)c;
	if (r->n_notices < RECORDER_NOTICES_MAX) {
		r->notices[r->n_notices++] = n->error.code;
	}
}

static void on_process_end(struct gpuctr_capture *c, const struct gpuctr_process_end *end,
			   void *userdata)
{
	struct recorder *r = userdata;

	(void)c;
	r->process_ends++;
	r->unclean += !end->clean;
	if (r->on_process_end) {
		r->on_process_end(r, end);
	}
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct recorder *r = userdata;

	(void)c;
	r->ended = true;
	r->capture = NULL;
	r->totals = end->totals;
	r->end_code = end->error.code;
	snprintf(r->end_message, sizeof(r->end_message), "%s", end->error.message);
}

static const struct gpuctr_capture_handler handler = {
	.size = sizeof(struct gpuctr_capture_handler),
	.on_opened = on_opened,
	.on_queued = on_queued,
	.on_ready = on_ready,
	.on_process = on_process,
	.on_record = on_record,
	.on_mark = on_mark,
	.on_progress = on_progress,
	.on_notice = on_notice,
	.on_process_end = on_process_end,
	.on_end = on_end,
};

/* The kernel tells the daemon the effective uid at connect. */
void recorder_connect(struct recorder *r, struct fixture *f, int uid)
{
	bool change = uid != USER_SELF && geteuid() == 0;
	int result;

	*r = (struct recorder){ .uid = uid };
	if (change) {
		assert_int_equal(seteuid((uid_t)uid), 0);
	}
	result = gpuctr_connect(f->socket, "recorder", &r->g);
	if (change) {
		assert_int_equal(seteuid(0), 0);
	}
	if (result != 0) {
		fail_msg("connect: %s", gpuctr_last_error(r->g)->message);
	}
}

void recorder_disconnect(struct recorder *r)
{
	r->g = gpuctr_disconnect(r->g);
	r->capture = NULL;
}

struct gpuctr_capture_options recorder_options(void)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	struct gpuctr_capture_options o = GPUCTR_INIT(gpuctr_capture_options);

	o.metrics = metrics;
	o.n_metrics = 1;
	o.program = "recorded";
	return o;
}

struct gpuctr_capture_options recorder_permit_options(void)
{
	struct gpuctr_capture_options o = GPUCTR_INIT(gpuctr_capture_options);

	o.permit = GPUCTR_PERMIT_BY_PRELOAD;
	o.program = "recorded";
	return o;
}

void recorder_open(struct recorder *r, const struct gpuctr_capture_options *options)
{
	assert_int_equal(gpuctr_capture_open(r->g, options, &handler, r, &r->capture), 0);
}

void recorder_until(struct recorder *r, const bool *flag)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (!*flag) {
		if (now_ms() >= by) {
			fail_msg("it does not happen (opened %d ready %d ended %d: %s)", r->opened,
				 r->ready, r->ended, r->end_message);
		}
		if (gpuctr_dispatch(r->g, 20) != 0 && !*flag) {
			fail_msg("the connection is over: %s", gpuctr_last_error(r->g)->message);
		}
	}
}

void recorder_until_records(struct recorder *r, uint64_t n)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (r->records < n) {
		assert_true(now_ms() < by);
		assert_int_equal(gpuctr_dispatch(r->g, 20), 0);
	}
}

void recorder_for(struct recorder *r, unsigned ms)
{
	uint64_t by = now_ms() + ms;

	while (now_ms() < by) {
		gpuctr_dispatch(r->g, 10);
	}
}

const char *recorder_token(struct recorder *r)
{
	const char *const *environment = gpuctr_capture_environment(r->capture, NULL);

	for (; environment && *environment; environment++) {
		if (strncmp(*environment, "GPUCTR_TOKEN=", 13) == 0) {
			return *environment + 13;
		}
		if (strncmp(*environment, "GPUCTR_PERMIT=", 14) == 0) {
			return *environment + 14;
		}
	}
	fail_msg("no token");
	return NULL;
}

struct program *recorder_start(struct recorder *r, struct fixture *f, const char *path, ...)
{
	const struct gpuctr_capture_options options = recorder_options();
	const char *argv[64] = { path };
	const char *const *environment;
	struct program *p;
	size_t n = 1;
	va_list ap;

	va_start(ap, path);
	do {
		argv[n] = va_arg(ap, const char *);
	} while (argv[n++]);
	va_end(ap);
	if (!r->capture) {
		recorder_open(r, &options);
	}
	recorder_until(r, &r->ready);
	environment = gpuctr_capture_environment(r->capture, TEST_AGENT);
	assert_non_null(environment);
	for (size_t i = 0; environment[i]; i++) {
		putenv((char *)(uintptr_t)environment[i]);
	}
	p = fixture_runv(f, r->uid, argv);
	for (size_t i = 0; environment[i]; i++) {
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(environment[i], "="),
			 environment[i]);
		unsetenv(name);
	}
	setenv("GPUCTR_SOCKET", f->socket, 1);
	return p;
}

void recorder_close(struct recorder *r)
{
	if (r->capture) {
		assert_int_equal(gpuctr_capture_close(r->capture), 0);
	}
	recorder_until(r, &r->ended);
}

bool recorder_has_notice(const struct recorder *r, int code)
{
	for (size_t i = 0; i < r->n_notices; i++) {
		if (r->notices[i] == code) {
			return true;
		}
	}
	return false;
}

void expect_balance(const struct gpuctr_totals *t)
{
	uint64_t sum = t->measured + t->filtered + t->capturing + t->unready + t->failed +
		       t->dropped + t->lost;

	if (t->seen != sum) {
		fail_msg("seen %llu measured %llu filtered %llu capturing %llu unready %llu failed "
			 "%llu dropped %llu lost %llu",
			 (unsigned long long)t->seen, (unsigned long long)t->measured,
			 (unsigned long long)t->filtered, (unsigned long long)t->capturing,
			 (unsigned long long)t->unready, (unsigned long long)t->failed,
			 (unsigned long long)t->dropped, (unsigned long long)t->lost);
	}
}
