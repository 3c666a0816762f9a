/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Takes the place of gpuctr-sampler: writes the samples of a recording. */

#include "client/store/reader.h"

/* Writes the samples of a GPU to standard output in the format of client/sampler/stream.h. metrics:
 * the names to write, as "a,b". If standard input is a pipe, waits until it ends, and then writes
 * the end of the stream. Returns an exit status of gpuctr-sampler. */
int samples_play(struct store_reader *reader, const char *gpu, const char *metrics);
