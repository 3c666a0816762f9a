/* SPDX-License-Identifier: Apache-2.0 */
#include "client/exporter/scrape.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/base/clock.h"

/* Each question has a connection of its own, because the daemon may be replaced between two of
 * them. */

struct question {
	struct scrape *scrape;
	bool answered;
};

/* Logs an error, unless it is the one that was logged last and no success came in between. */
static void say(struct scrape *s, int code, const char *message, const char *remedy)
{
	if (code != GPUCTR_OK && code != s->said) {
		fprintf(stderr, "gpuctr-exporter: error[%s]: %s. %s\n", gpuctr_error_name(code),
			message, remedy);
	}
	s->said = code;
}

static void fail(struct scrape *s, const struct gpuctr_error *e)
{
	static const char remedy[] = "Name this program's user in monitor-users of "
				     "gpucountd.conf, and reload gpucountd.";

	say(s, e->code, e->message, e->code == GPUCTR_E_NOT_ALLOWED ? remedy : e->remedy);
	for (int i = 0; i < METRICS_SYNTAXES; i++) {
		buf_clear(&s->text[i]);
		metrics_add_failure(&s->text[i], (enum metrics_syntax)i, e);
	}
	s->keep_ns = (uint64_t)SCRAPE_KEEP_FAILURE_MS * CLOCK_NS_PER_MS;
}

/* The time that an answer takes makes each result a little different; only a large difference means
 * another daemon. */
static uint64_t began(const struct scrape *s, const struct gpuctr_status *status)
{
	uint64_t now_ns = clock_wall_ns(), new_ns = now_ns - status->uptime_ns;
	uint64_t apart_ns = new_ns > s->began_ns ? new_ns - s->began_ns : s->began_ns - new_ns;

	return apart_ns < (uint64_t)SCRAPE_PATIENCE_MS * CLOCK_NS_PER_MS ? s->began_ns : new_ns;
}

static void on_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
		      void *userdata)
{
	struct question *q = userdata;
	struct scrape *s = q->scrape;

	q->answered = true;
	if (!status) {
		fail(s, error);
		return;
	}
	say(s, status->counts ? GPUCTR_OK : GPUCTR_E_NOT_ALLOWED,
	    "the daemon does not tell its counts to this user",
	    "Name it in monitor-users of gpucountd.conf, and reload gpucountd.");
	s->began_ns = began(s, status);
	for (int i = 0; i < METRICS_SYNTAXES; i++) {
		buf_clear(&s->text[i]);
		metrics_add_status(&s->text[i], (enum metrics_syntax)i, status, s->began_ns);
	}
	s->keep_ns = (uint64_t)SCRAPE_KEEP_MS * CLOCK_NS_PER_MS;
}

static void ask(struct scrape *s, struct gpuctr *g)
{
	static const struct gpuctr_error late = { GPUCTR_E_TIMEOUT,
						  "gpucountd did not answer in time",
						  "See `systemctl status gpucountd`." };
	uint64_t by_ns = clock_now_ns() + (uint64_t)SCRAPE_PATIENCE_MS * CLOCK_NS_PER_MS;
	struct question q = { s, false };
	int r = gpuctr_get_status(g, on_status, &q);

	while (r == 0 && !q.answered) {
		uint64_t now_ns = clock_now_ns();

		if (now_ns >= by_ns) {
			fail(s, &late);
			return;
		}
		r = gpuctr_dispatch(g, (int)((by_ns - now_ns) / CLOCK_NS_PER_MS) + 1);
	}
	if (!q.answered) {
		fail(s, gpuctr_last_error(g));
	}
}

void scrape_refresh(struct scrape *s)
{
	static const struct gpuctr_error no_memory = { GPUCTR_E_INTERNAL, "out of memory", "" };
	uint64_t now_ns = clock_now_ns();
	struct gpuctr *g;

	if (s->made_ns != 0 && now_ns - s->made_ns < s->keep_ns) {
		return;
	}
	if (gpuctr_connect(s->socket, "gpuctr-exporter", &g) == 0) {
		ask(s, g);
	} else {
		fail(s, g ? gpuctr_last_error(g) : &no_memory);
	}
	gpuctr_disconnect(g);
	s->made_ns = clock_now_ns();
}

void scrape_deinit(struct scrape *s)
{
	for (int i = 0; i < METRICS_SYNTAXES; i++) {
		buf_deinit(&s->text[i]);
	}
}
