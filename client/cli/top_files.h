/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_TOP_FILES_H
#define CLIENT_CLI_TOP_FILES_H

#include "client/cli/live.h"

/* Capture files of "top". Zero-initialised by the caller, but for paths and keys. */
struct top_files {
	char **paths; /* ends with NULL */
	const struct keys *keys;
	struct summary *summary; /* NULL: nothing is read yet */
	struct buf head;	 /* what the files are */
	unsigned unfinished;	 /* files that are still being written, or were cut short */
	uint64_t changed;	 /* sizes and times of the files when they were read */
	uint64_t next_ns;	 /* nothing is read before */
};

/* Appends a frame. 0, or an exit status after it has said why. source: struct top_files. */
int top_files_add(void *source, struct live *l, struct buf *b);
void top_files_deinit(struct top_files *f);

#endif
