/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a capture file and calls a handler for each thing in it, in the order of a live capture. */

#include "client/report/attribution.h"
#include "client/store/reader.h"

/* NULL members are skipped. A handler that returns other than 0 ends the reading. Processes come
 * one after the other, each with its records in order of their index, then its marks; samples and
 * notices come last. Arguments are borrowed for the call, ranges included; info with all it points
 * to, and kernels, live until reading_capture() returns. */
struct reading_handler {
	int (*on_capture)(const struct store_info *info, void *userdata);
	int (*on_process)(const struct store_process *process, void *userdata);
	/* what: attribution of the record by `scopes`; NULL without scopes. */
	int (*on_record)(const struct gpuctr_record *record, const struct attribution *what,
			 void *userdata);
	int (*on_mark)(const struct gpuctr_mark *mark, void *userdata);
	int (*on_process_end)(const struct store_process *process, void *userdata);
	int (*on_samples)(const struct store_samples *samples, void *userdata);
	int (*on_notice)(const struct gpuctr_notice *notice, void *userdata);
	/* Called before the file is closed. */
	int (*on_end)(const struct store_info *info, void *userdata);
	bool check_beside;     /* check the file's pages while it is read: for handlers that write
				  nothing before on_notice and on_end */
	bool needs_first;      /* on_capture() gets the time when the first kernel began */
	bool brief;	       /* for sums: records are brief, see store_be_brief() */
	struct scopes *scopes; /* borrowed. NULL: no handler wants to know what records belong to */
};

/* As reading_capture(), but for an open file, whose pages are not checked here. */
int reading_reader(struct store_reader *reader, const struct reading_handler *handler,
		   void *userdata, struct store_error *error);

/* If path is "-", the capture file comes from standard input, and is copied to a file without a
 * name in $TMPDIR. Returns 0; or a positive STORE_E_* or a negative errno of the file, with *error
 * set; or the result of a handler, with error->code 0. */
int reading_capture(const char *path, const struct reading_handler *handler, void *userdata,
		    struct store_error *error);
