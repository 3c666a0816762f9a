/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "client/report/keys.h"
#include "proto/base/buf.h"

/* Appends the query of the file's views that returns the rows, launches, times and sums of a report
 * by these keys, for sqlite3 and other readers of SQLite files. limit: number of rows; 0: all.
 * Returns 0, or a negative errno; the error was reported. */
int report_sql(const char *path, const struct keys *keys, uint64_t limit, struct buf *b);
