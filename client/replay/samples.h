/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Takes the place of gpuctr-sampler: what it wrote when the recording was made comes out of the
 * file. */

#include "client/store/reader.h"

/* Writes the samples of a GPU to standard output, the metrics "a,b" alone, as
 * client/sampler/stream.h has it, waits until standard input ends, where that is a pipe, and writes
 * the end. Returns gpuctr-sampler's exit status. */
int samples_play(struct store_reader *reader, const char *gpu, const char *metrics);
