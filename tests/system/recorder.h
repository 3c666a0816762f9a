/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A client in the test itself, on libgpuctr: it keeps what it hears. */

#include <gpuctr/gpuctr.h>

#include "tests/system/fixture.h"

enum { RECORDER_NOTICES_MAX = 16 };

struct recorder {
	struct gpuctr *g;
	struct gpuctr_capture *capture; /* NULL once it has ended */
	int uid;
	bool opened, ready, ended;
	unsigned id;
	unsigned processes, process_ends, unclean;
	uint64_t records;  /* heard */
	uint64_t next[64]; /* index expected next, of each process */
	uint64_t disorder; /* records out of order */
	uint64_t gaps;	   /* records missing between others */
	unsigned queued;   /* messages */
	unsigned position; /* as last told */
	char holder[256];
	int notices[RECORDER_NOTICES_MAX];
	size_t n_notices;
	struct gpuctr_totals totals; /* of the end, or as last told */
	/* Called as well, with r; NULL: nobody. Set them after connecting. */
	void (*on_record)(struct recorder *r, const struct gpuctr_record *record);
	void (*on_process)(struct recorder *r, const struct gpuctr_process *process);
	void (*on_mark)(struct recorder *r, const struct gpuctr_mark *mark);
	void (*on_process_end)(struct recorder *r, const struct gpuctr_process_end *end);
	void *userdata; /* theirs */
	int end_code;
	char end_message[512];
};

/* Connects as uid; fails the test when that is not possible. */
void recorder_connect(struct recorder *r, struct fixture *f, int uid);
void recorder_disconnect(struct recorder *r);

/* Opens a capture of dram__bytes_read.sum; change the options first if need be. */
struct gpuctr_capture_options recorder_options(void);
/* Of a permit. */
struct gpuctr_capture_options recorder_permit_options(void);
void recorder_open(struct recorder *r, const struct gpuctr_capture_options *options);

/* Serves the connection until *flag, or fails the test after PATIENCE_MS. */
void recorder_until(struct recorder *r, const bool *flag);
void recorder_until_records(struct recorder *r, uint64_t n);
void recorder_for(struct recorder *r, unsigned ms);

/* Opens, waits until ready, and starts the program as part of the capture. */
struct program *recorder_start(struct recorder *r, struct fixture *f, const char *path, ...)
	__attribute__((sentinel));

/* Asks for the end and waits for it. */
void recorder_close(struct recorder *r);

/* The capture's token, which its programs present. Borrowed. */
const char *recorder_token(struct recorder *r);

bool recorder_has_notice(const struct recorder *r, int code);

/* seen is the sum of all the others. */
void expect_balance(const struct gpuctr_totals *t);
