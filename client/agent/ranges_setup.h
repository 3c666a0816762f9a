/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_RANGES_SETUP_H
#define GPUCTR_AGENT_RANGES_SETUP_H

/* A context's profiler object, for ranges.c. All with the context's lock held. */

#include "client/agent/ranges.h"

/* Of a new context: which pass comes first. */
void ranges_init_turns(struct capture *c, struct ranges *r);

/* And the configuration. Its context has ended. */
void ranges_forget_images(struct ranges *r);

/* NEW -> OFF, with room for r->size ranges a batch; false: BROKEN or WAITING, and the reason was
 * told.
 */
bool ranges_setup(struct capture *c, struct ranges *r);

/* For which all images have room, once there are some. */
size_t ranges_size_most(const struct ranges *r);

/* Before each Start: the image of r->measured_pass, with nothing in it. */
CUptiResult ranges_renew_image(struct capture *c, struct ranges *r);

/* Says why a context is not measured, by what CUPTI answered. */
void ranges_tell_failure(struct capture *c, struct ranges *r, const char *call, CUptiResult result);

/* The same, for good: BROKEN. */
void ranges_give_up(struct capture *c, struct ranges *r, const char *call, CUptiResult result);

/* CUPTI says that the counters are someone else's: told once, and tried again later. WAITING. */
void ranges_wait(struct capture *c, struct ranges *r, const char *call);

#endif
