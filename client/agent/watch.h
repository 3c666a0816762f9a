/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_WATCH_H
#define GPUCTR_AGENT_WATCH_H

struct capture;

/* On the delivering thread, now and then: tells of what stands still on the GPU. */
void watch_look(struct capture *c);

/* On any thread, now and then: tells of calls that have not returned, and lets the program go on
 * without them. Calls nothing that could wait for CUPTI or the driver itself. */
void watch_calls(struct capture *c);

#endif
