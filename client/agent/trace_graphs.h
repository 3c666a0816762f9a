/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* In a trace, a launch of a CUDA graph becomes the launches of its kernels. */

struct batch;
struct capture;

/* Before tracing starts: decides between records of a graph's kernels and of whole graphs. */
void trace_graphs_begin(struct capture *c);

/* Puts kernels in place of a batch's launches of graphs, after activity_fill(). For the delivering
 * thread. */
void trace_graphs_split(struct capture *c, struct batch *b);

/* For a batch that is dropped: keeps the times of its launches as unrecorded work. Any thread may
 * call this. */
void trace_graphs_leave_out(struct capture *c, struct batch *b);

/* Queues kernels that came after their launches were delivered. */
void trace_graphs_flush(struct capture *c);

/* At the end: as trace_graphs_flush(), after a flush of CUPTI's records. */
void trace_graphs_finish(struct capture *c);

/* After tracing has stopped: counts the remaining kernels as dropped. */
void trace_graphs_end(struct capture *c);
