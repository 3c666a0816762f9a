/* SPDX-License-Identifier: Apache-2.0 */

/* Records of a program that may be anything, on their way through libgpuctr into a capture file: a
 * process spoils its own records at most. Whatever arrives, the file takes it, and is read back
 * whole afterwards. The input is what a daemon says, as for the library's target. */

#include <errno.h>
#include <unistd.h>

#include "client/store/reader.h"
#include "client/store/schema.h"
#include "client/store/store.h"
#include "tests/fuzz/daemon_box.h"
#include "tests/fuzz/fuzz.h"

enum { DISPATCHES = 20000 };

struct keeper {
	struct gpuctr *g;
	struct store *store;
	bool ended;
};

static char path[64];

/* A number that the daemon gives, and not the program. */
static bool has_room(unsigned process)
{
	return process > 0 && process <= STORE_PROCESS_MAX;
}

static void must(struct keeper *k, int r)
{
	if (r != 0 && r != -EOVERFLOW) {
		fuzz_fail("not kept: %s", store_last_error(k->store)->message);
	}
}

static void on_opened(struct gpuctr_capture *c, const struct gpuctr_opened *o, void *userdata)
{
	const struct store_options options = { .path = path, .force = true, .plan = o->plan };
	struct keeper *k = userdata;
	struct store_error e;

	(void)c;
	/* A plan is the daemon's. One that makes no table is refused. */
	if (!k->store && store_create(&options, &e, &k->store) != 0) {
		k->store = NULL;
	}
}

static void on_process(struct gpuctr_capture *c, const struct gpuctr_process *p, void *userdata)
{
	struct keeper *k = userdata;

	(void)c;
	if (k->store && has_room(p->process)) {
		must(k, store_write_process(k->store, p));
	}
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *r, void *userdata)
{
	struct keeper *k = userdata;

	(void)c;
	if (k->store && has_room(r->process)) {
		must(k, store_write_record(k->store, r));
	}
}

static void on_mark(struct gpuctr_capture *c, const struct gpuctr_mark *m, void *userdata)
{
	struct keeper *k = userdata;

	(void)c;
	if (k->store && has_room(m->process)) {
		must(k, store_write_mark(k->store, m));
	}
}

static void on_image(struct gpuctr_capture *c, const struct gpuctr_image *image, void *userdata)
{
	struct keeper *k = userdata;

	(void)c;
	if (k->store && has_room(image->process)) {
		must(k, store_write_image(k->store, image));
	}
}

static void on_notice(struct gpuctr_capture *c, const struct gpuctr_notice *n, void *userdata)
{
	struct keeper *k = userdata;

	(void)c;
	if (k->store) {
		must(k, store_write_notice(k->store, n));
	}
}

static void on_process_end(struct gpuctr_capture *c, const struct gpuctr_process_end *e,
			   void *userdata)
{
	struct keeper *k = userdata;

	(void)c;
	if (k->store && has_room(e->process)) {
		must(k, store_write_process_end(k->store, e));
	}
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *e, void *userdata)
{
	struct keeper *k = userdata;

	(void)c;
	k->ended = true;
	if (k->store) {
		must(k, store_finish(k->store, e));
	}
}

static const struct gpuctr_capture_handler handler = {
	.size = sizeof(handler),
	.on_opened = on_opened,
	.on_process = on_process,
	.on_record = on_record,
	.on_mark = on_mark,
	.on_image = on_image,
	.on_notice = on_notice,
	.on_process_end = on_process_end,
	.on_end = on_end,
};

/* --- and back --- */

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

static void listen_to(struct keeper *k)
{
	static const char *const metrics[] = { "dram__bytes.sum" };
	const struct gpuctr_capture_options open = { .size = sizeof(open),
						     .metrics = metrics,
						     .n_metrics = 1 };
	struct gpuctr_capture *c;

	/* The first three numbers are for the questions of the library's target, whose corpus fits
	 * here as well. */
	for (int i = 0; i < 4; i++) {
		fuzz_check(gpuctr_capture_open(k->g, &open, &handler, k, &c) == 0);
	}
	for (unsigned i = 0; gpuctr_dispatch(k->g, -1) == 0; i++) {
		fuzz_check(i < DISPATCHES);
	}
}

static void remove_file(void)
{
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct keeper k = { 0 };
	size_t chunk = fuzz_take_u8(&in);

	if (path[0] == '\0') {
		snprintf(path, sizeof(path), "%s/fuzz_keep.%d",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
		atexit(remove_file);
	}
	daemon_box_open(in.data, in.size, chunk);
	if (gpuctr_connect("daemon", "fuzz", &k.g) == 0) {
		listen_to(&k);
	}
	gpuctr_disconnect(k.g);
	daemon_box_close();
	if (k.store) {
		store_close(k.store);
		read_back();
	}
	return 0;
}
