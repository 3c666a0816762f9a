/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/format.h"
#include "client/cli/kept.h"
#include "client/report/attribution.h"
#include "proto/base/buf.h"

/* A capture as JSON lines, live or from a file: functions that append whole lines to a buffer. One
 * object serves one stream, in one thread. */
struct jsonl;

/* NULL: out of memory. */
struct jsonl *jsonl_new(const struct format_capture *capture);
struct jsonl *jsonl_free(struct jsonl *j); /* takes NULL, returns NULL */

/* The first line. The capture's plan must live until the last record is written. */
void jsonl_head(const struct jsonl *j, struct buf *b);
void jsonl_process(struct jsonl *j, struct buf *b, const struct gpuctr_process *process);
void jsonl_record(const struct jsonl *j, struct buf *b, const struct gpuctr_record *record,
		  const struct attribution *what);
void jsonl_mark(struct buf *b, const struct gpuctr_mark *mark);
/* The sample has a value for each metric of the plan. */
void jsonl_sample(const struct jsonl *j, struct buf *b, const struct kept_sample *sample);
void jsonl_notice(struct buf *b, const struct gpuctr_notice *notice);
void jsonl_process_end(struct buf *b, const struct gpuctr_process_end *end);
void jsonl_end(struct buf *b, const struct gpuctr_end *end);
