/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/sinks.h"

static inline void sinks_close_stream(struct sinks *s)
{
	s->stream_is_cut |= !stream_close(s->stream);
	s->stream = NULL;
}

/* --- sinks_sampled.c */
/* What has the values of records, where the file that is read has not; or NULL. */
struct sampled *sinks_sampled(const struct sinks *s);
/* The stream of a sampled run, of what was recorded. Its reader is waited for: nothing is dropped.
 */
void sinks_write_stream(struct sinks *s);
