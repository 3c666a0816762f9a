/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/store/internal.h"

/* Writes what is known before the first record: the tables meta, column_def and metric_def. Part of
 * the caller's transaction. */
int meta_write_head(struct store *s, const struct store_options *options);
/* Writes how many kernels have no value, by reason, and the length of a sample. */
int meta_write_unsampled(struct store *s, const char *text, uint64_t sample_ns);
/* Writes the totals and how the capture ended. */
int meta_write_end(struct store *s, const struct gpuctr_end *end);
int meta_write_text(struct store *s, const char *key, const char *value);

/* Returns the command, quoted for a POSIX shell. Free with sqlite3_free(); NULL: out of memory. */
char *meta_quote_command(const char *const *argv);
