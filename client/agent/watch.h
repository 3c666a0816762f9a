/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_WATCH_H
#define GPUCTR_AGENT_WATCH_H

struct capture;

/* Looks for what has not moved for ten seconds, tells it with kernel and stream, and has the
 * capture ended where the measuring may be the cause. On the delivering thread, now and then. */
void watch_look(struct capture *c);

#endif
