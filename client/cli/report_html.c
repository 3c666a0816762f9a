/* SPDX-License-Identifier: Apache-2.0 */

/* Reads captures for a page, and tells on it what a reader would misjudge the figures without. */

#include "client/cli/report_html.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/outfile.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/cli/verb.h"
#include "client/report/reading.h"

struct html {
	struct page *page;
	struct machine_source source;
	struct buf notes, hardware, why;
	uint64_t seen, unmeasured, without_time, range_time;
	unsigned unfinished;
	bool chosen; /* a capture has a budget */
	bool ratios_of_range;
};

/* --- reading --------------------------------------------------------------------------------- */

static void add_hardware(struct html *h, const struct store_info *info)
{
	buf_text(&h->hardware, h->hardware.n > 0 ? "; " : "");
	buf_printf(&h->hardware,
		   "%s: host %s, driver %s, chip %s, %u pass%s, no replay, caches "
		   "not flushed",
		   info->path, info->host, info->driver, info->plan.chip, info->plan.passes,
		   info->plan.passes == 1 ? "" : "es");
	for (size_t i = 0; i < info->n_processes; i++) {
		const struct gpuctr_process *p = &info->processes[i].process;

		for (size_t k = 0; k < p->n_devices; k++) {
			buf_printf(&h->hardware, ", %s", p->devices[k].name);
		}
	}
}

static int on_capture(const struct store_info *info, void *userdata)
{
	struct html *h = userdata;

	h->unfinished += !info->complete;
	h->chosen = h->chosen || info->budget_ppm > 0;
	h->seen += info->totals.seen;
	h->unmeasured += info->totals.seen - (info->totals.measured <= info->totals.seen
						      ? info->totals.measured
						      : info->totals.seen);
	for (size_t i = 0; i < info->plan.n_columns; i++) {
		const char *name = info->plan.columns[i].name;

		h->ratios_of_range = h->ratios_of_range || strstr(name, "elapsed") ||
				     strstr(name, ".per_second") ||
				     strncmp(name, "gpu__time_duration", 18) == 0;
	}
	add_hardware(h, info);
	return page_capture(h->page, info, &h->why);
}

static int on_process(const struct store_process *process, void *userdata)
{
	struct html *h = userdata;
	const char *from = process->process.recorded_from;

	if (*from) {
		buf_printf(&h->notes, "RECORDED on %s, not measured here.\n", from);
	}
	return page_process(h->page, &process->process);
}

static int on_record(const struct gpuctr_record *record, void *userdata)
{
	struct html *h = userdata;

	h->source.records++;
	h->without_time += record->clock == GPUCTR_CLOCK_NONE;
	h->range_time += record->clock == GPUCTR_CLOCK_RANGE;
	return page_record(h->page, record);
}

static bool read_capture(struct html *h, const char *path)
{
	const struct reading_handler handler = { .on_capture = on_capture,
						 .on_process = on_process,
						 .on_record = on_record,
						 .check_beside = true,
						 .without = page_without(h->page) };
	struct store_error error;
	int r = reading_capture(path, &handler, h, &error);

	if (r && error.code) {
		say_error(store_error_name(r), error.message, error.remedy);
	} else if (r == -EINVAL) {
		say_error("unit-clash", buf_string(&h->why),
			  "Report on these captures one by one.");
	} else if (r) {
		say_usage("out of memory");
	}
	return r == 0;
}

/* --- the page -------------------------------------------------------------------------------- */

static void add_notes(struct html *h)
{
	if (h->unfinished > 0) {
		buf_text(&h->notes,
			 "NOT COMPLETE: a capture is still being written, was cut short, or "
			 "ended with an error.\n");
	}
	if (h->unmeasured > 0) {
		text_count(&h->notes, h->unmeasured);
		buf_text(&h->notes, " of ");
		text_count(&h->notes, h->seen);
		buf_text(&h->notes, " launches were not measured and are not in these figures.\n");
	}
	if (h->chosen) {
		buf_text(&h->notes,
			 "Captured with --budget: launches were chosen at random, and nothing "
			 "here is scaled to all of them; the table of gpuctr-client report is.\n");
	}
	if (h->without_time > 0) {
		text_count(&h->notes, h->without_time);
		buf_text(&h->notes, " kernels have no time.\n");
	}
	if (h->range_time > 0) {
		text_count(&h->notes, h->range_time);
		buf_text(&h->notes,
			 " times are those of ranges, which are longer than the kernels.\n");
	}
	if (h->ratios_of_range) {
		buf_text(&h->notes,
			 "Elapsed time and cycles, and ratios to them, are those of ranges, "
			 "which are longer than the kernels.\n");
	}
}

static int write_page(struct html *h, struct outfile *out, struct buf *why)
{
	struct buf b = { 0 };
	int r;

	add_notes(h);
	r = page_print(h->page, &h->source, buf_string(&h->notes), buf_string(&h->hardware), &b,
		       why);
	if (r == -EINVAL && why->n > 0) {
		buf_deinit(&b);
		return EXIT_VERB_USAGE;
	}
	r = r ? r : outfile_write(out, &b);
	r = r ? r : outfile_finish(out);
	buf_deinit(&b);
	if (r) {
		say_error("output", outfile_why(r),
			  "Write the page to where there is room for it.");
	}
	return r ? EXIT_VERB_FAILED : 0;
}

int report_html(const struct strings *files, const char *path, bool force,
		const struct page_options *options, struct buf *why)
{
	struct html h = { .source = { .captures = strings_items(files), .n_captures = files->n } };
	struct outfile out;
	int status = EXIT_VERB_FAILED;
	bool ok;
	int r;

	for (size_t i = 0; i < files->n; i++) {
		if (!outfile_spares("--html", path, files->items[i])) {
			return EXIT_VERB_USAGE;
		}
	}
	r = outfile_open(&out, path, force);
	h.page = page_new(options);
	ok = r == 0 && h.page;
	if (r < 0) {
		say_usage("--html %s: %s", path, outfile_why(r));
		status = EXIT_VERB_USAGE;
	}
	for (size_t i = 0; i < files->n && ok; i++) {
		ok = read_capture(&h, files->items[i]);
	}
	if (ok) {
		h.source.recorded_from = "";
		h.source.complete = h.unfinished == 0;
		status = write_page(&h, &out, why);
	}
	outfile_close(&out);
	page_free(h.page);
	buf_deinit(&h.notes);
	buf_deinit(&h.hardware);
	buf_deinit(&h.why);
	return status;
}
