/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <unistd.h>

#include "client/exporter/scrape.h"

/* How often the exporter asks, what it logs, and since when it says that counts count. The library
 * is the test's: a daemon that is there, or not. */

static struct {
	bool is_there, tells_counts;
	uint64_t uptime_ns;
	unsigned n_asked;
	gpuctr_on_status on_status;
	void *userdata;
} fake;

static struct scrape scrape;
static FILE *logged;
static int own_stderr;

/* --- instead of libgpuctr --- */

int gpuctr_connect(const char *socket, const char *program, struct gpuctr **ret)
{
	(void)socket;
	(void)program;
	fake.n_asked++;
	*ret = (struct gpuctr *)(uintptr_t)&fake;
	return fake.is_there ? 0 : GPUCTR_E_NO_DAEMON;
}

struct gpuctr *gpuctr_disconnect(struct gpuctr *g)
{
	(void)g;
	return NULL;
}

const struct gpuctr_error *gpuctr_last_error(const struct gpuctr *g)
{
	static const struct gpuctr_error gone = { GPUCTR_E_NO_DAEMON, "nobody is there",
						  "Start it" };

	(void)g;
	return &gone;
}

int gpuctr_get_status(struct gpuctr *g, gpuctr_on_status on_status, void *userdata)
{
	(void)g;
	fake.on_status = on_status;
	fake.userdata = userdata;
	return 0;
}

int gpuctr_dispatch(struct gpuctr *g, int timeout_ms)
{
	static const struct gpuctr_counts counts;
	const struct gpuctr_status status = { .daemon = "1",
					      .driver = "580",
					      .cupti = "13",
					      .uptime_ns = fake.uptime_ns,
					      .counts = fake.tells_counts ? &counts : NULL };

	(void)g;
	(void)timeout_ms;
	fake.on_status(&status, NULL, fake.userdata);
	return 0;
}

const char *gpuctr_error_name(int code)
{
	return code == GPUCTR_E_NO_DAEMON ? "no-daemon" : "another";
}

/* --- what a test does --- */

static int begin(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	memset(&scrape, 0, sizeof(scrape));
	fake.is_there = fake.tells_counts = true;
	logged = tmpfile();
	own_stderr = dup(STDERR_FILENO);
	return logged && dup2(fileno(logged), STDERR_FILENO) >= 0 ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	dup2(own_stderr, STDERR_FILENO);
	close(own_stderr);
	fclose(logged);
	scrape_deinit(&scrape);
	return 0;
}

/* As if what is there were old. */
static void ask_again(void)
{
	scrape.made_ns = 0;
	scrape_refresh(&scrape);
}

static unsigned count_lines(void)
{
	unsigned n = 0;
	int c;

	fflush(stderr);
	rewind(logged);
	while ((c = fgetc(logged)) != EOF) {
		n += c == '\n';
	}
	return n;
}

static bool says(const char *text)
{
	return strstr(buf_string(&scrape.text[METRICS_OPENMETRICS]), text) != NULL;
}

static void what_was_told_is_told_again_for_a_while(void **state)
{
	(void)state;
	scrape_refresh(&scrape);
	scrape_refresh(&scrape);
	assert_int_equal(fake.n_asked, 1);
	assert_true(says("gpucountd_up 1\n"));
	fake.is_there = false;
	ask_again();
	scrape_refresh(&scrape);
	assert_int_equal(fake.n_asked, 2);
	assert_true(says("gpucountd_up 0\n"));
	assert_true(says("gpucountd_unanswered{reason=\"no-daemon\"} 1\n"));
	scrape.made_ns -= (uint64_t)SCRAPE_KEEP_FAILURE_MS * 1000000;
	scrape_refresh(&scrape);
	assert_int_equal(fake.n_asked, 3);
}

static void an_error_is_logged_once(void **state)
{
	(void)state;
	fake.is_there = false;
	ask_again();
	ask_again();
	assert_int_equal(count_lines(), 1);
	fake.is_there = true;
	ask_again();
	assert_int_equal(count_lines(), 1);
	fake.tells_counts = false; /* another one */
	ask_again();
	ask_again();
	assert_int_equal(count_lines(), 2);
	fake.is_there = false;
	ask_again();
	assert_int_equal(count_lines(), 3);
}

/* A collector takes a counter that is smaller than before for one that has begun anew, and looks
 * here when that was. */
static void counts_begin_with_their_daemon(void **state)
{
	const uint64_t hour_ns = UINT64_C(3600) * 1000000000;
	uint64_t began_ns;

	(void)state;
	fake.uptime_ns = hour_ns;
	ask_again();
	began_ns = scrape.began_ns;
	ask_again();
	assert_true(scrape.began_ns == began_ns); /* a little time has passed, and it is the same */
	fake.uptime_ns = 0;
	ask_again();
	assert_true(scrape.began_ns > began_ns + hour_ns - UINT64_C(1000000000));
}

#define SCRAPE_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRAPE_TEST(what_was_told_is_told_again_for_a_while),
		SCRAPE_TEST(an_error_is_logged_once),
		SCRAPE_TEST(counts_begin_with_their_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
