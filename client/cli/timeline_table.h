/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A capture of samples without kernels ("capture --timeline"), as a table over time. */

#include "client/store/reader.h"
#include "proto/base/buf.h"

/* Does the file hold a timeline? */
bool timeline_is(const struct store_info *info);

/* TABLE: for people, with a line that counts the samples. CSV, JSON: for programs, a line or an
 * element for each metric in each stretch of time. */
enum timeline_form { TIMELINE_TABLE, TIMELINE_CSV, TIMELINE_JSON };

/* Appends the samples of a GPU to b, which may hold those of other captures; nothing if there is no
 * sample. 0, -ENOMEM, or the reader's result. */
int timeline_print(struct store_reader *reader, enum timeline_form form, size_t width, bool styled,
		   struct buf *b);
