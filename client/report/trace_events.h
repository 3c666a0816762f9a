/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The events of a trace in Chrome's format, as torch.profiler writes it: plain or compressed by
 * gzip, read in pieces. Offsets are those of the text before it was compressed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

enum trace_category {
	TRACE_OTHER,
	TRACE_KERNEL,
	TRACE_COPY, /* of memory */
	TRACE_SET,
	TRACE_LAUNCH, /* a call of the CUDA runtime */
	TRACE_DRIVER, /* a call of the driver */
	TRACE_OP,
	TRACE_LABEL, /* a range that the program opened */
	TRACE_PYTHON,
	TRACE_RANGE, /* of counters, which the trace has already */
};

/* What its fields say. What a trace does not say is 0, seq -1. */
struct trace_event {
	enum trace_category category;
	double begin, us;     /* as they stand there */
	int64_t begin_ns, ns; /* the same in ns, exactly; from -2^61 to 2^61 */
	uint64_t at, args_at; /* the '{' that begins it, the '}' that ends its arguments */
	bool has_name, has_args, has_begin, has_duration;
	bool empty; /* it has no arguments yet */

	/* Of its arguments. */
	uint64_t correlation, stream, bytes;
	unsigned device, context, registers, shared_bytes;
	uint32_t grid[3], block[3];
	bool has_stream;
	int64_t seq;

	const struct buf *name, *pid, *tid; /* ids as JSON */
	const struct buf *sizes; /* of an operator's inputs: a list of lists; empty: not told */
};

enum { TRACE_DEVICES_MAX = 64, TRACE_NAME_BYTES = 96 };

/* What stands around the list of events. */
struct trace_around {
	bool has_base;
	int64_t base_ns; /* what 0 of the events is, since 1970 */
	struct trace_device {
		unsigned id;
		char name[TRACE_NAME_BYTES];
	} devices[TRACE_DEVICES_MAX];
	size_t n_devices;
	uint64_t bytes; /* of the text */
};

struct trace_events_handler {
	/* Both: 0, or a negative errno that ends the reading. */
	int (*on_event)(void *user, const struct trace_event *event);
	int (*on_list_end)(void *user, uint64_t at); /* at: the ']' that ends a list of events */
};

/* Reads the text of a file in pieces. NULL: see errno. A file that can be read only once is refused
 * with ESPIPE. */
struct trace_text;
struct trace_text *trace_open(const char *path);
struct trace_text *trace_close(struct trace_text *text); /* takes NULL, returns NULL */
int trace_rewind(struct trace_text *text);		 /* 0 or a negative errno */
/* Returns how many bytes were read, fewer than n only at the end, or a negative errno: -EBADMSG if
 * compressed data are damaged or incomplete. */
int64_t trace_next(struct trace_text *text, void *data, size_t n);

/* NULL members of the handler are skipped. 0, -ENOMEM, another negative errno of the file or of the
 * handler, or -EINVAL with why told when it is no trace. */
int trace_events(struct trace_text *text, const struct trace_events_handler *handler, void *user,
		 struct trace_around *ret, struct buf *why);
