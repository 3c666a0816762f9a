/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* In a trace, a launch of a CUDA graph becomes the launches of its kernels. */

struct batch;
struct capture;

/* Before tracing starts: are kernels of graphs told, or whole graphs? */
void trace_graphs_begin(struct capture *c);

/* A batch, after activity_fill(): for the delivering thread. */
void trace_graphs_split(struct capture *c, struct batch *b);

/* A batch that is dropped: its launches ran all the same. By any thread. */
void trace_graphs_leave_out(struct capture *c, struct batch *b);

/* Queues kernels whose launches were delivered before they came. */
void trace_graphs_flush(struct capture *c);

/* At the end: as trace_graphs_flush(), of all that have ended. */
void trace_graphs_finish(struct capture *c);

/* After tracing has stopped: counts what is still there as dropped. */
void trace_graphs_end(struct capture *c);
