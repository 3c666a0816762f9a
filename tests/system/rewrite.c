/* SPDX-License-Identifier: Apache-2.0 */

/* rewrite FROM TO: the capture FROM as the client would have written it live. */

#include <stdio.h>

#include "client/report/attribution.h"
#include "client/report/reading.h"

struct rewriting {
	const char *to;
	struct store *store;
	struct attributor *attributor;
};

static int on_capture(const struct store_info *info, void *userdata)
{
	static const char *const command[] = { "python3", "it's\n a net.py", "--warmup", "3",
					       NULL };
	static const struct gpuctr_gpu gpus[] = {
		{ .index = 0, .uuid = "GPU-0", .name = "unused", .chip = "GH100" },
		{ .index = 11, .uuid = "GPU-11", .name = "other", .chip = "GB200" },
	};
	struct rewriting *w = userdata;
	struct store_error error;
	const struct store_options options = { .path = w->to,
					       .force = true,
					       .plan = &info->plan,
					       .command = command,
					       .driver = info->driver,
					       .version = info->version,
					       .gpus = gpus,
					       .n_gpus = 2 };
	int r = store_create(&options, &error, &w->store);

	if (r) {
		fprintf(stderr, "rewrite: %s\n", error.message);
	}
	return r;
}

static int on_process(const struct store_process *process, void *userdata)
{
	struct rewriting *w = userdata;
	int r = store_write_process(w->store, &process->process);

	for (size_t i = 0; i < process->process.n_claims && r == 0; i++) {
		r = store_write_claim(w->store, process->process.process,
				      process->process.claims[i]);
	}
	return r;
}

static int on_record(const struct gpuctr_record *record, const struct attribution *of_file,
		     void *userdata)
{
	struct rewriting *w = userdata;
	struct store_attribution columns;
	struct attribution what;
	int r = attributor_take(w->attributor, record, &what);

	(void)of_file;
	attribution_columns(&what, &columns);
	return r ? r : store_write_record(w->store, record, &columns);
}

static int on_mark(const struct gpuctr_mark *mark, void *userdata)
{
	return store_write_mark(((struct rewriting *)userdata)->store, mark);
}

static int on_end(const struct store_info *info, void *userdata)
{
	const struct gpuctr_end end = { .totals = info->totals, .error = { 0, "", "" } };

	return store_finish(((struct rewriting *)userdata)->store, &end);
}

int main(int argc, char **argv)
{
	const struct reading_handler handler = { .on_capture = on_capture,
						 .on_process = on_process,
						 .on_record = on_record,
						 .on_mark = on_mark,
						 .on_end = on_end };
	struct rewriting w = { .to = argc == 3 ? argv[2] : "", .attributor = attributor_new() };
	struct store_error error = { 0 };
	int r = argc == 3 && w.attributor ? reading_capture(argv[1], &handler, &w, &error) : 2;

	if (r) {
		fprintf(stderr, "rewrite: %d %s\n", r, error.message);
	}
	store_close(w.store);
	attributor_free(w.attributor);
	return r != 0;
}
