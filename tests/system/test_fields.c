/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <ctype.h>
#include <math.h>

#include "tests/system/account.h"
#include "tests/system/recorder.h"

/* Every field of every record, from launch to output. fakefields says what it did; each output is
 * brought into the same form and compared field by field. No two properties of a launch are equal,
 * so one that stands in another's place is noticed. */

#define METRICS                                                        \
	"dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum," \
	"lts__t_sectors_op_write.sum"

/* Fields that an output does not have. */
#define UNTOLD(f) (UINT64_C(1) << (f))
#define UNTOLD_BY_PROGRAM (UNTOLD(FIELD_UNTIL) | UNTOLD(FIELD_THREADS) | UNTOLD(FIELD_KERNELS))

enum { UNTOLD_MARKS = 1, UNTOLD_MARK_STACKS = 2, UNTOLD_DEVICES = 4 };

struct output {
	const char *name;
	uint64_t untold;
	unsigned untold_others;
};

static const struct output jsonl = {
	"jsonl",
	UNTOLD_BY_PROGRAM | UNTOLD(FIELD_NVTX) | UNTOLD(FIELD_RANGES),
	UNTOLD_MARK_STACKS,
};
static const struct output csv = {
	"csv",
	UNTOLD_BY_PROGRAM | UNTOLD(FIELD_STACK) | UNTOLD(FIELD_ACTIVE) | UNTOLD(FIELD_PAYLOAD),
	UNTOLD_MARKS | UNTOLD_DEVICES,
};
static const struct output capture = { "capture", UNTOLD_BY_PROGRAM, 0 };
static const struct output library = { "library", UNTOLD_BY_PROGRAM, 0 };

/* A recording keeps marks, but only what belongs to records is played; and another process plays
 * it. */
static const struct output played_jsonl = {
	"played jsonl",
	UNTOLD_BY_PROGRAM | UNTOLD(FIELD_NVTX) | UNTOLD(FIELD_RANGES) | UNTOLD(FIELD_PID),
	UNTOLD_MARKS,
};
static const struct output played_capture = {
	"played capture",
	UNTOLD_BY_PROGRAM | UNTOLD(FIELD_PID),
	UNTOLD_MARKS,
};

/* --- comparing --- */

static bool is_number(enum field f)
{
	return f >= FIELD_METRICS;
}

static void expect_between(const char *what, const char *value, const char *from, const char *to)
{
	unsigned long long v = strtoull(value, NULL, 10);

	if (v < strtoull(from, NULL, 10) || v > strtoull(to, NULL, 10)) {
		fail_msg("%s is %s, not between %s and %s", what, value, from, to);
	}
}

static void expect_field(const struct output *o, enum field f, const char *launch,
			 const char *value, const char *did)
{
	bool same = is_number(f) ? *value && strtod(value, NULL) == strtod(did, NULL)
				 : strcmp(value, did) == 0;

	if (!same) {
		fail_msg("%s: launch %s: %s is '%s', not '%s'", o->name, launch, account_fields[f],
			 value, did);
	}
}

static void expect_launch(const struct output *o, const char (*did)[ACCOUNT_TEXT_MAX],
			  const char (*got)[ACCOUNT_TEXT_MAX])
{
	const char *launch = did[FIELD_CORRELATION];
	char what[64];

	snprintf(what, sizeof(what), "%s: launch %s: start_ns", o->name, launch);
	for (enum field f = 0; f < N_FIELDS; f++) {
		if (f == FIELD_START) {
			expect_between(what, got[f], did[f], did[FIELD_UNTIL]);
		} else if (!(o->untold & UNTOLD(f))) {
			expect_field(o, f, launch, got[f], did[f]);
		}
	}
}

/* Records come in the order of their contexts' batches, so they are found by their numbers. */
static void expect_launches(const struct output *o, const struct account *did,
			    const struct account *got)
{
	unsigned long indexes = 0;

	assert_int_equal(got->n_launches, did->n_launches);
	for (size_t i = 0; i < did->n_launches; i++) {
		const char *number = did->launches[i][FIELD_CORRELATION];
		size_t k = 0;

		while (k < got->n_launches &&
		       strcmp(got->launches[k][FIELD_CORRELATION], number) != 0) {
			k++;
		}
		if (k == got->n_launches) {
			fail_msg("%s: there is no launch with correlation id %s", o->name, number);
		}
		expect_launch(o, did->launches[i], got->launches[k]);
		indexes |= 1ul << got->indexes[i];
	}
	assert_int_equal(indexes, (1ul << did->n_launches) - 1);
}

static void expect_marks(const struct output *o, const struct account *did,
			 const struct account *got)
{
	assert_int_equal(got->n_marks, o->untold_others & UNTOLD_MARKS ? 0 : did->n_marks);
	for (size_t i = 0; i < got->n_marks; i++) {
		const struct account_mark *m = &did->marks[i], *g = &got->marks[i];

		assert_string_equal(g->thread, m->thread);
		assert_string_equal(g->own, m->own);
		expect_between("time_ns of a mark", g->time_ns, m->time_ns, m->until_ns);
		if (!(o->untold_others & UNTOLD_MARK_STACKS)) {
			assert_string_equal(g->stack, m->stack);
		}
	}
}

/* Frees got. */
static void expect_account(const struct output *o, const struct account *did, struct account *got)
{
	expect_launches(o, did, got);
	expect_marks(o, did, got);
	if (!(o->untold_others & UNTOLD_DEVICES)) {
		assert_int_equal(got->n_devices, did->n_devices);
		for (size_t i = 0; i < did->n_devices; i++) {
			assert_string_equal(got->devices[i], did->devices[i]);
		}
	}
	free(got);
}

/* --- the summary --- */

/* "12.3 MB", "202 ns", "5.1%" as numbers without units; *at goes behind. */
static double scan_number(const char **at)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = { { "ns", 1 },  { "us", 1e3 }, { "ms", 1e6 }, { "k", 1e3 },
		      { "M", 1e6 }, { "G", 1e9 },  { "T", 1e12 } };
	char *end;
	double value = strtod(*at, &end);

	if (end == *at) {
		fail_msg("no number in: %s", *at);
	}
	if (*end == '%') {
		end++;
	} else if (*end == ' ' && isalpha((unsigned char)end[1])) {
		end++;
		for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
			if (strncmp(end, units[i].unit, strlen(units[i].unit)) == 0) {
				value *= units[i].factor;
				break;
			}
		}
		end += strcspn(end, " \n");
	}
	*at = end;
	return value;
}

/* Tables show a kernel without its parameters. */
static void short_name(const char (*did)[ACCOUNT_TEXT_MAX], char *ret, size_t size)
{
	const char *name = did[FIELD_KERNEL];

	snprintf(ret, size, "%.*s", name[0] == '(' ? (int)size : (int)strcspn(name, "("), name);
}

enum { COLUMNS = 1 + N_METRICS }; /* time, metrics */

static double column_of(const char (*did)[ACCOUNT_TEXT_MAX], int column)
{
	return strtod(did[column == 0 ? FIELD_DURATION : FIELD_METRICS + column - 1], NULL);
}

/* Of all kernels when name is NULL. Returns how many launches. */
static unsigned add_up(const struct account *did, const char *name, double sums[COLUMNS])
{
	char shown[64];
	unsigned n = 0;

	for (int c = 0; c < COLUMNS; c++) {
		sums[c] = 0;
	}
	for (size_t i = 0; i < did->n_launches; i++) {
		short_name(did->launches[i], shown, sizeof(shown));
		if (name && strcmp(shown, name) != 0) {
			continue;
		}
		for (int c = 0; c < COLUMNS; c++) {
			sums[c] += column_of(did->launches[i], c);
		}
		n++;
	}
	return n;
}

static void expect_number(const char *name, int column, const char *what, double value, double did)
{
	/* Shares have one digit behind the point. */
	if (fabs(value - did) > 0.006 * did + (*what == 's' ? 0.051 : 0)) {
		fail_msg("summary: %s: %s of column %d is %g, not %g", name, what, column, value,
			 did);
	}
}

/* The columns go on in further tables, each with the kernel's name and its launches. */
static void expect_summary_row(const char *text, const struct account *did, const char *name)
{
	double sums[COLUMNS], all[COLUMNS];
	unsigned n = add_up(did, name, sums);
	const char *at = text;

	add_up(did, NULL, all);
	for (int c = 0; c < COLUMNS; c++) {
		while (*(at += strspn(at, " ")) == '\n' || c == 0) {
			at = strstr(at, name);
			assert_non_null(at);
			at += strlen(name);
			assert_int_equal((unsigned)scan_number(&at), n);
			if (c == 0) {
				break;
			}
		}
		expect_number(name, c, "total", scan_number(&at), sums[c]);
		expect_number(name, c, "mean", scan_number(&at), sums[c] / n);
		expect_number(name, c, "share", scan_number(&at), sums[c] / all[c] * 100);
	}
}

/* --- tests --- */

static void start_with_two_gpus(struct fixture *f)
{
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
}

static struct program *measure(struct fixture *f)
{
	struct program *p =
		fixture_client(f, USER_ANN, "-v", "--metrics", METRICS, "--raw", "-o",
			       fixture_path(f, "run.gpuctr"), stream_to(fixture_path(f, "records")),
			       "--", TEST_FAKEFIELDS, NULL);

	expect_exit(p, 0);
	expect_message(p, " 10 measured");
	return p;
}

SYSTEM_TEST(json_and_capture_tell_every_field)
{
	struct fixture *f = *state;
	CLEAN_FREE struct account *did = NULL;

	start_with_two_gpus(f);
	did = account_of_program(measure(f)->out);
	expect_account(&jsonl, did, account_of_jsonl(fixture_path(f, "records")));
	expect_account(&capture, did, account_of_capture(fixture_path(f, "run.gpuctr")));
}

SYSTEM_TEST(csv_tells_every_field)
{
	struct fixture *f = *state;
	CLEAN_FREE struct account *did = NULL;

	start_with_two_gpus(f);
	did = account_of_program(measure(f)->out);
	expect_exit(fixture_client(f, USER_ANN, "export", fixture_path(f, "run.gpuctr"), "--to",
				   "csv", "-o", fixture_path(f, "csv"), NULL),
		    0);
	expect_account(&csv, did, account_of_csv(fixture_path(f, "csv")));
}

SYSTEM_TEST(the_report_tells_every_column)
{
	struct fixture *f = *state;
	CLEAN_FREE struct account *did = NULL;
	CLEAN_FREE char *summary = NULL;
	struct program *p, *report;
	char name[64];

	start_with_two_gpus(f);
	setenv("COLUMNS", "140", 1);
	p = measure(f);
	report = fixture_client(f, USER_ANN, "report", "--columns", "all",
				fixture_path(f, "run.gpuctr"), NULL);
	unsetenv("COLUMNS");
	expect_exit(report, 0);
	expect_message(p, "GH100, Fake H200 x 2; clocks not locked (SM up to 1980 MHz, memory 3201 "
			  "MHz)");
	did = account_of_program(p->out);
	summary = read_file(report->out);
	for (size_t i = 0; i < did->n_launches; i++) {
		short_name(did->launches[i], name, sizeof(name));
		expect_summary_row(summary, did, name);
	}
}

static void on_process(struct recorder *r, const struct gpuctr_process *process)
{
	account_add_process(r->userdata, process);
}

static void on_record(struct recorder *r, const struct gpuctr_record *record)
{
	account_add_record(r->userdata, record);
}

static void on_mark(struct recorder *r, const struct gpuctr_mark *mark)
{
	account_add_mark(r->userdata, mark);
}

SYSTEM_TEST(the_library_tells_every_field)
{
	struct fixture *f = *state;
	struct gpuctr_capture_options options = recorder_options();
	struct account *heard = calloc(1, sizeof(*heard));
	CLEAN_FREE struct account *did = NULL;
	struct recorder r;
	struct program *p;

	start_with_two_gpus(f);
	recorder_connect(&r, f, USER_ANN);
	r.on_process = on_process;
	r.on_record = on_record;
	r.on_mark = on_mark;
	r.userdata = heard;
	options.metrics = &account_fields[FIELD_METRICS];
	options.n_metrics = N_METRICS;
	recorder_open(&r, &options);
	p = recorder_start(&r, f, TEST_FAKEFIELDS, NULL);
	expect_exit(p, 0);
	recorder_close(&r);
	recorder_disconnect(&r);
	did = account_of_program(p->out);
	expect_account(&library, did, heard);
}

/* From the raw counter data, on the fake of CUPTI's host library. */
SYSTEM_TEST(a_recording_tells_every_field_again)
{
	struct fixture *f = *state;
	CLEAN_FREE struct account *did = NULL;
	char recording[96];
	struct program *p;

	start_with_two_gpus(f);
	did = account_of_program(measure(f)->out);
	snprintf(recording, sizeof(recording), "%s", fixture_path(f, "run.gpuctr"));
	p = fixture_client(f, USER_ANN, "--metrics", METRICS, "-o", fixture_path(f, "again.gpuctr"),
			   stream_to(fixture_path(f, "again")), "--", TEST_REPLAY, recording, NULL);
	expect_exit(p, 0);
	expect_message(p, " 10 measured");
	expect_account(&played_jsonl, did, account_of_jsonl(fixture_path(f, "again")));
	expect_account(&played_capture, did, account_of_capture(fixture_path(f, "again.gpuctr")));
}
