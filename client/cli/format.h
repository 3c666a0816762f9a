/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <gpuctr/gpuctr.h>

#include "client/report/attribution.h"
#include "client/report/view.h"
#include "proto/base/buf.h"

/* What a format knows before the first record. Borrowed for the life of the format, but for the
 * plan, which may be gone when it is closed. */
struct format_capture {
	unsigned capture;
	const struct gpuctr_plan *plan;
	const struct gpuctr_gpu *gpus;
	size_t n_gpus;
	const char *driver;
	const char *program;
	const char *const *command; /* NULL-terminated */
	const char *recorded_from;  /* "": live */
	bool recorded;
	bool chosen;  /* launches at random: records have a stratum and a chance */
	bool sampled; /* values are of samples of whole GPUs: records have errors */
	bool graphs;  /* records may be kernels of graphs */
	size_t width; /* columns of the terminal the table goes to */
	bool fits;    /* lines are cut to this width */
};

/* A format of the stream of records: functions that append whole lines to a buffer. NULL members
 * are skipped. One object serves one stream, in one thread. */
struct format {
	const char *name;
	const char *suffix;				     /* of the names of its files */
	void *(*open)(const struct format_capture *capture); /* NULL: out of memory */
	void (*close)(void *f);
	void (*write_head)(void *f, struct buf *b);
	void (*write_process)(void *f, struct buf *b, const struct gpuctr_process *process);
	void (*write_record)(void *f, struct buf *b, const struct gpuctr_record *record,
			     const struct attribution *what);
	void (*write_mark)(void *f, struct buf *b, const struct gpuctr_mark *mark);
	void (*write_notice)(void *f, struct buf *b, const struct gpuctr_notice *notice);
	void (*write_process_end)(void *f, struct buf *b, const struct gpuctr_process_end *end);
	/* With a budget, before the end; NULL: the format has no place for it. */
	void (*write_estimates)(void *f, struct buf *b, const struct view *kernels);
	void (*write_end)(void *f, struct buf *b, const struct gpuctr_end *end);
};

extern const struct format format_jsonl;
extern const struct format format_csv;
extern const struct format format_table;

/* NULL-terminated. */
extern const struct format *const formats[];
const struct format *format_find(const char *name);    /* NULL: no such format */
const struct format *format_of_path(const char *path); /* by suffix; NULL: none says */

/* "kernel", "cooperative", "graph", "graph_kernel" */
const char *format_launch_kind(enum gpuctr_launch_kind kind);

/* "gpu", "range", "none" */
const char *format_clock(enum gpuctr_clock clock);
