/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_TRACE_H
#define CLIENT_REPORT_TRACE_H

/* The kernels of a trace in Chrome's format, as torch.profiler writes it, and where in the file
 * something can be added to their arguments. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/buf.h"

struct trace_kernel {
	uint64_t name;	      /* trace_hash() of it */
	uint64_t correlation; /* launches are numbered by it in their order */
	uint64_t at;	      /* offset of the '}' that ends its arguments */
	bool empty;	      /* it has none yet */
	size_t values;	      /* for who joins: 1 + which values belong to it; 0: none */
};

struct trace {
	struct trace_kernel *kernels; /* in the order of the file */
	size_t n, max;
	uint64_t bytes;
};

/* Reads a file from its begin, in pieces. 0, -ENOMEM, another negative errno of the file, or
 * -EINVAL with why told when it is no trace. */
int trace_read(struct trace *t, int fd, struct buf *why);
void trace_deinit(struct trace *t);

/* Of a kernel's name, whatever its spaces: "> >" and ">>" are the same. */
uint64_t trace_hash(const char *name, size_t n);

#endif
