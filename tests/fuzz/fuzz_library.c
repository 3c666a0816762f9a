/* SPDX-License-Identifier: Apache-2.0 */

/* libgpuctr and a daemon that says anything. What handlers are given is looked at to the last byte
 * and must be what gpuctr.h promises; everything that was asked is answered exactly once.
 *
 * Records of a program may be anything as well, and a process spoils its own records at most:
 * whatever arrives, a capture file takes it, and is read back whole afterwards. */

#include <gpuctr/gpuctr.h>

#include <errno.h>
#include <unistd.h>

#include "client/store/reader.h"
#include "client/store/schema.h"
#include "client/store/store.h"
#include "tests/fuzz/daemon_box.h"
#include "tests/fuzz/fuzz.h"

enum { QUESTIONS = 4, CAPTURES = 3, DISPATCHES = 20000 };

struct listener {
	unsigned answers, ends;
	uint64_t sum; /* of all that was read, so that it is */
	struct gpuctr *g;
	struct gpuctr_capture *captures[CAPTURES];
	size_t n_columns;
	unsigned records;
	struct store *store; /* NULL: no plan has made a table */
};

static char path[64]; /* of the capture file */

static void keep(struct listener *l, int r)
{
	if (r != 0 && r != -EOVERFLOW) {
		fuzz_fail("not kept: %s", store_last_error(l->store)->message);
	}
}

/* A process's number is given by the daemon, and not by the program. */
static bool is_kept(const struct listener *l, unsigned process)
{
	return l->store && process > 0 && process <= STORE_PROCESS_MAX;
}

static void read_text(struct listener *l, const char *text)
{
	l->sum += strlen(text);
}

static void read_texts(struct listener *l, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		read_text(l, texts[i]);
	}
}

static void read_error(struct listener *l, const struct gpuctr_error *e)
{
	read_text(l, e->message);
	read_text(l, e->remedy);
	read_text(l, gpuctr_error_name(e->code));
}

static void read_plan(struct listener *l, const struct gpuctr_plan *p)
{
	read_text(l, p->chip);
	for (size_t i = 0; i < p->n_columns; i++) {
		read_text(l, p->columns[i].name);
		read_text(l, p->columns[i].unit);
	}
	read_texts(l, p->metrics, p->n_metrics);
}

static void read_gpus(struct listener *l, const struct gpuctr_gpu *gpus, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		read_text(l, gpus[i].uuid);
		read_text(l, gpus[i].name);
		read_text(l, gpus[i].chip);
	}
}

/* --- answers --- */

static void on_metric(const struct gpuctr_metric *m, void *userdata)
{
	struct listener *l = userdata;

	fuzz_check(m->kind <= GPUCTR_METRIC_DERIVED);
	read_text(l, m->name);
	read_text(l, m->unit);
	read_text(l, m->hardware_unit);
	read_text(l, m->description);
	read_texts(l, m->submetrics, m->n_submetrics);
}

static void on_metrics_end(const char *chip, const struct gpuctr_error *e, void *userdata)
{
	struct listener *l = userdata;

	l->answers++;
	read_text(l, chip);
	if (e) {
		read_error(l, e);
	}
}

static void on_plan(const struct gpuctr_plan *p, const struct gpuctr_error *e, void *userdata)
{
	struct listener *l = userdata;

	l->answers++;
	fuzz_check(!p != !e);
	if (p) {
		read_plan(l, p);
	} else {
		read_error(l, e);
	}
}

static void on_status(const struct gpuctr_status *s, const struct gpuctr_error *e, void *userdata)
{
	struct listener *l = userdata;

	l->answers++;
	fuzz_check(!s != !e);
	if (e) {
		read_error(l, e);
		return;
	}
	fuzz_check(s->restricted <= GPUCTR_RESTRICTION_UNKNOWN);
	read_text(l, s->daemon);
	read_text(l, s->driver);
	read_text(l, s->cupti);
	read_error(l, &s->trouble);
	read_gpus(l, s->gpus, s->n_gpus);
	for (size_t i = 0; i < s->n_captures; i++) {
		const struct gpuctr_capture_info *c = &s->captures[i];

		fuzz_check(c->state <= GPUCTR_CAPTURE_ENDING);
		read_text(l, c->user);
		read_text(l, c->program);
		read_texts(l, c->gpus, c->n_gpus);
		read_texts(l, c->metrics, c->n_metrics);
	}
}

/* --- captures --- */

static void on_opened(struct gpuctr_capture *c, const struct gpuctr_opened *o, void *userdata)
{
	const struct store_options options = { .path = path, .force = true, .plan = o->plan };
	struct listener *l = userdata;
	struct store_error e;

	fuzz_check(gpuctr_capture_id(c) == o->capture);
	if (!l->store && store_create(&options, &e, &l->store) != 0) {
		l->store = NULL;
	}
	read_plan(l, o->plan);
	read_gpus(l, o->gpus, o->n_gpus);
	read_text(l, o->driver);
	l->n_columns = o->plan->n_columns;
}

static void on_queued(struct gpuctr_capture *c, const struct gpuctr_queued *q, void *userdata)
{
	(void)c;
	read_text(userdata, q->holder);
	read_text(userdata, q->gpu);
}

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	const char *const *v = gpuctr_capture_environment(c, "/proc/self/exe");

	for (size_t i = 0; v && v[i]; i++) {
		read_text(userdata, v[i]);
	}
}

static void on_process(struct gpuctr_capture *c, const struct gpuctr_process *p, void *userdata)
{
	struct listener *l = userdata;

	(void)c;
	if (is_kept(l, p->process)) {
		keep(l, store_write_process(l->store, p));
	}
	read_text(userdata, p->program);
	read_text(userdata, p->cupti);
	read_text(userdata, p->driver);
	read_text(userdata, p->recorded_from);
	for (size_t i = 0; i < p->n_devices; i++) {
		read_text(userdata, p->devices[i].uuid);
		read_text(userdata, p->devices[i].name);
		read_text(userdata, p->devices[i].chip);
	}
}

static void read_range(struct listener *l, const struct gpuctr_site *r,
		       const struct gpuctr_occurrence *at)
{
	fuzz_check(r->id != 0);
	fuzz_check(r->depth == (r->parent ? r->parent->depth + 1 : 0));
	read_text(l, r->domain);
	read_text(l, r->name);
	read_text(l, r->sizes);
	fuzz_check(r->kind <= GPUCTR_SITE_ENGINE && r->numbered <= GPUCTR_NUMBER_SEQ);
	for (unsigned i = 0; at && i < r->n_numbers; i++) {
		l->sum += at->numbers[i] > 0;
	}
	read_text(l, r->category);
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *r, void *userdata)
{
	struct listener *l = userdata;
	double sum = 0;

	fuzz_check(r->kind <= GPUCTR_LAUNCH_GRAPH && r->kernel && r->kernel->id != 0);
	fuzz_check(r->clock <= GPUCTR_CLOCK_GPU);
	fuzz_check(r->clock == GPUCTR_CLOCK_NONE ? r->duration_ns == -1 : r->duration_ns >= 0);
	fuzz_check(r->kernel->registers >= -1 && r->kernel->static_shared_bytes >= -1);
	read_text(l, r->kernel->name);
	read_text(l, r->kernel->mangled);
	if (r->site) {
		read_range(l, r->site, &r->at);
	}
	fuzz_check(r->opened <= (r->site ? r->site->depth + 1 : 0));
	for (size_t i = 0; i < r->n_active; i++) {
		read_range(l, r->active[i], NULL);
	}
	for (size_t i = 0; i < l->n_columns; i++) {
		sum += r->values[i];
	}
	l->sum += sum > 0;
	if (is_kept(l, r->process)) {
		keep(l, store_write_record(l->store, r, NULL));
	}
	if (++l->records == 5) {
		gpuctr_capture_close(c);
	}
}

static void on_mark(struct gpuctr_capture *c, const struct gpuctr_mark *m, void *userdata)
{
	struct listener *l = userdata;

	(void)c;
	read_range(l, m->site, &m->at);
	if (is_kept(l, m->process)) {
		keep(l, store_write_mark(l->store, m));
	}
}

static void on_image(struct gpuctr_capture *c, const struct gpuctr_image *image, void *userdata)
{
	struct listener *l = userdata;

	(void)c;
	for (size_t i = 0; i < image->size; i++) {
		l->sum += image->data[i];
	}
	if (is_kept(l, image->process)) {
		keep(l, store_write_image(l->store, image));
	}
}

static void on_progress(struct gpuctr_capture *c, const struct gpuctr_totals *t, void *userdata)
{
	(void)c;
	((struct listener *)userdata)->sum += t->seen;
}

static void on_notice(struct gpuctr_capture *c, const struct gpuctr_notice *n, void *userdata)
{
	struct listener *l = userdata;

	(void)c;
	read_error(l, &n->error);
	if (l->store) {
		keep(l, store_write_notice(l->store, n));
	}
}

static void on_process_end(struct gpuctr_capture *c, const struct gpuctr_process_end *e,
			   void *userdata)
{
	struct listener *l = userdata;

	(void)c;
	l->sum += e->totals.lost;
	if (is_kept(l, e->process)) {
		keep(l, store_write_process_end(l->store, e));
	}
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *e, void *userdata)
{
	struct listener *l = userdata;

	l->ends++;
	read_error(l, &e->error);
	if (l->store) {
		keep(l, store_finish(l->store, e));
	}
	for (size_t i = 0; i < CAPTURES; i++) {
		l->captures[i] = l->captures[i] == c ? NULL : l->captures[i];
	}
}

static const struct gpuctr_capture_handler handler = {
	.size = sizeof(handler),
	.on_opened = on_opened,
	.on_queued = on_queued,
	.on_ready = on_ready,
	.on_process = on_process,
	.on_record = on_record,
	.on_mark = on_mark,
	.on_image = on_image,
	.on_progress = on_progress,
	.on_notice = on_notice,
	.on_process_end = on_process_end,
	.on_end = on_end,
};

/* --- the file --- */

static void check(struct store_reader *r, int result)
{
	if (result != 0) {
		fuzz_fail("kept, but not read: %s", store_reader_error(r)->message);
	}
}

static uint64_t read_process(struct store_reader *r, unsigned process)
{
	const struct gpuctr_record *record = NULL;
	const struct gpuctr_image *image = NULL;
	const struct gpuctr_mark *mark = NULL;
	struct store_cursor *c;
	uint64_t n = 0;

	check(r, store_records(r, process, 0, 0, &c));
	for (check(r, store_next_record(c, &record)); record;
	     check(r, store_next_record(c, &record))) {
		n++;
	}
	store_cursor_free(c);
	check(r, store_images(r, process, 0, 0, &c));
	do {
		check(r, store_next_image(c, &image));
	} while (image);
	store_cursor_free(c);
	check(r, store_marks(r, process, &c));
	do {
		check(r, store_next_mark(c, &mark));
	} while (mark);
	store_cursor_free(c);
	return n;
}

static void read_back(void)
{
	struct store_reader *r = NULL;
	const struct store_info *info;
	struct store_error e = { 0 };

	if (store_open(path, &e, &r) != 0) {
		fuzz_fail("kept, but not opened: %s", e.message);
	}
	info = store_info(r);
	fuzz_check(store_count_rows(r) == 0);
	for (size_t i = 0; i < info->n_processes; i++) {
		const struct store_process *p = &info->processes[i];

		fuzz_check(read_process(r, p->process.process) == p->records);
	}
	store_reader_free(r);
}

static void remove_file(void)
{
	unlink(path);
}

/* Requests 1 to 3 are questions, 4 and 5 captures: an input knows their numbers. Then those with a
 * pattern, which the library expands from an answer: 6 is a plan, 7 a capture and 8 its list. */
static void ask_everything(struct listener *l)
{
	static const char *const metrics[] = { "dram__bytes.sum" };
	const struct gpuctr_metrics_options options = { .size = sizeof(options) };
	static const char *const patterns[] = { "*bytes*.s?m" };
	struct gpuctr_capture_options open = {
		.size = sizeof(open), .metrics = metrics, .n_metrics = 1, .raw_images = true
	};

	fuzz_check(gpuctr_list_metrics(l->g, &options, on_metric, on_metrics_end, l) == 0);
	fuzz_check(gpuctr_plan(l->g, NULL, metrics, 1, on_plan, l) == 0);
	fuzz_check(gpuctr_get_status(l->g, on_status, l) == 0);
	for (size_t i = 0; i < CAPTURES - 1; i++) {
		fuzz_check(gpuctr_capture_open(l->g, &open, &handler, l, &l->captures[i]) == 0);
	}
	fuzz_check(gpuctr_plan(l->g, NULL, patterns, 1, on_plan, l) == 0);
	open.metrics = patterns;
	fuzz_check(gpuctr_capture_open(l->g, &open, &handler, l, &l->captures[CAPTURES - 1]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	size_t chunk = fuzz_take_u8(&in);
	struct listener l = { 0 };
	int r = 0;

	if (path[0] == '\0') {
		snprintf(path, sizeof(path), "%s/fuzz_library.%d",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
		atexit(remove_file);
	}
	daemon_box_open(in.data, in.size, chunk);
	if (gpuctr_connect("daemon", "fuzz", &l.g) == 0) {
		ask_everything(&l);
		for (unsigned i = 0; r == 0; i++) {
			r = gpuctr_dispatch(l.g, -1);
			fuzz_check(i < DISPATCHES);
		}
		read_error(&l, gpuctr_last_error(l.g));
		fuzz_check(l.answers == QUESTIONS && l.ends == CAPTURES);
		fuzz_check(gpuctr_dispatch(l.g, 0) == r);
	} else {
		read_error(&l, gpuctr_last_error(l.g));
	}
	gpuctr_disconnect(l.g);
	daemon_box_close();
	if (l.store) {
		store_close(l.store);
		read_back();
	}
	return 0;
}
