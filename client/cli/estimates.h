/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_ESTIMATES_H
#define CLIENT_CLI_ESTIMATES_H

/* What all launches of a capture with a budget did, by kernel, from those that were measured. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/buf.h"
#include "client/estimate/total.h"

struct estimates;

/* NULL: out of memory. Names of columns are copied. */
struct estimates *estimates_new(const struct gpuctr_plan *plan);
struct estimates *estimates_free(struct estimates *e); /* takes NULL, returns NULL */

/* Kernels live until the capture's on_end has returned; their names are copied. */
void estimates_stratum(struct estimates *e, const struct gpuctr_stratum *stratum);
void estimates_record(struct estimates *e, const struct gpuctr_record *record);

/* Was anything chosen at random? */
bool estimates_any(const struct estimates *e);

struct estimates_row {
	const char *kernel; /* demangled; "" of several */
	struct estimate_total *columns;
};

/* By kernel, the most of the first column first; lives until the next call of any of these. */
const struct estimates_row *estimates_rows(struct estimates *e, size_t *ret_n);

/* Does the sum over launches mean something? Else the mean of a launch is what is estimated. */
bool estimates_adds_up(const struct estimates *e, size_t column);

/* Of a row, as estimates_adds_up() says. */
struct estimate estimates_of(const struct estimates *e, const struct estimates_row *row,
			     size_t column);

const char *estimates_kind_to_string(enum estimate_kind kind);

/* Appends a table for each column, of n kernels at most. */
void estimates_print(struct estimates *e, size_t n, size_t width, struct buf *b);

#endif
