/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "client/report/keys.h"
#include "proto/base/buf.h"

/* The query of the file's views that has the rows, launches, times and sums of a report by these
 * keys, for sqlite3 and what reads its files. limit: rows; 0: all. 0, or a negative errno when what
 * is wrong was said. */
int report_sql(const char *path, const struct keys *keys, uint64_t limit, struct buf *b);
