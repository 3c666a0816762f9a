/* SPDX-License-Identifier: Apache-2.0 */

/* Reads captures for a page. The page's notes are the lines below the table of `report`. */

#include "client/cli/report_html.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/outfile.h"
#include "client/cli/report_source.h"
#include "client/cli/say.h"
#include "client/cli/verb.h"

static int print_page(struct report_source *s, const struct strings *files, struct buf *b,
		      struct buf *why)
{
	const struct machine_source source = { .captures = strings_items(files),
					       .n_captures = files->n,
					       .recorded_from = "",
					       .complete =
						       s->lacks[STORE_LACKS_NOTHING] == s->captures,
					       .records = groups_records(s->summary->groups) };
	CLEAN_BUF struct buf tail = { 0 }, nothing = { 0 };
	char *notes;
	int r = summary_groups(s->summary) ? 0 : -ENOMEM;

	if (r == 0) {
		s->end.verbose = true;
		report_source_print_tail(s, NULL, &tail);
		if (groups_records(s->summary->groups) == 0) {
			report_source_print_nothing(s, &nothing);
		}
		r = tail.failed || nothing.failed ? -ENOMEM : 0;
	}
	if (r == 0) {
		/* The tail's first line is the hardware. */
		notes = strchr(buf_string(&tail), '\n');
		*notes = '\0';
		r = page_print(s->page, &source, s->hints,
			       &(struct page_texts){ .hardware = tail.data,
						     .notes = notes + 1,
						     .nothing = buf_string(&nothing) },
			       b, why);
	}
	return r;
}

static int write_page(struct report_source *s, const struct strings *files, struct outfile *out,
		      struct buf *why)
{
	CLEAN_BUF struct buf b = { 0 };
	int r = print_page(s, files, &b, why);

	if (r == -EINVAL && why->n > 0) {
		return EXIT_VERB_USAGE;
	}
	r = r ? r : outfile_write(out, &b);
	r = r ? r : outfile_finish(out);
	if (r) {
		say_error("output", outfile_why(r), outfile_remedy(r));
	}
	return r ? EXIT_VERB_FAILED : 0;
}

int report_html(const struct strings *files, const char *path, bool force, bool attributes,
		const struct strings *where, const struct page_options *options, struct buf *why)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	struct report_source source = { 0 };
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
	ok = r == 0 && report_source_open(&source, &by_kernel, true, where);
	source.attributes = attributes;
	source.page = ok ? page_new(options, source.summary->groups) : NULL;
	if (r < 0) {
		say_usage("--html %s: %s", path, outfile_why(r));
		status = EXIT_VERB_USAGE;
	} else if (ok && !source.page) {
		say_usage("out of memory");
	}
	ok = source.page != NULL;
	for (size_t i = 0; i < files->n && ok; i++) {
		ok = report_source_read(&source, files->items[i]);
	}
	if (ok) {
		status = write_page(&source, files, &out, why);
	}
	outfile_close(&out);
	report_source_close(&source);
	return status;
}
