/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A capture file's values, attributed again from the samples that it keeps, by the code that
 * attributes them live. */

#include "client/cli/options.h"
#include "client/cli/sampled_values.h"
#include "client/store/reader.h"

struct again {
	struct sampled_values values;
	size_t next; /* record */
};

enum { AGAIN_NO_SAMPLES = 10000 };

/* Reads the file as far as it needs. Zero-initialised by the caller, who calls again_close() in any
 * case. 0, AGAIN_NO_SAMPLES, -ENOMEM, or what reading_capture() returns, with *error set. */
int again_open(struct again *a, const char *path, struct store_error *error);
void again_close(struct again *a);

/* Gives the file's next record its values; returns why one is missing, or NULL. */
const char *again_apply(struct again *a, struct gpuctr_record *record);

/* All samples of a file, block by block. Those that are not there are none. */
int again_samples(struct store_reader *reader,
		  int (*on_samples)(void *user, const struct store_samples *samples), void *user);
