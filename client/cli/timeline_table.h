/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A capture of samples without kernels ("capture --timeline"), as a table over time. */

#include "client/store/reader.h"
#include "proto/base/buf.h"

/* Does the file hold a timeline? */
bool timeline_is(const struct store_info *info);

/* Appends, for each GPU, the table and a line that counts its samples; nothing where there is no
 * sample. 0, -ENOMEM, or what the reader returned. */
int timeline_print(struct store_reader *reader, size_t width, bool styled, struct buf *b);
