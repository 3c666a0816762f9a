/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A context's profiler object, for ranges.c. All functions need the context's lock held. */

#include "client/agent/ranges.h"

/* The first members of the parameters of CUPTI's calls for r. */
#define RANGES_PARAMS(call, r)                                         \
	.structSize = CUpti_RangeProfiler_##call##_Params_STRUCT_SIZE, \
	.pRangeProfilerObject = (r)->object

/* Frees images and configuration of a context that has ended. */
void ranges_forget_images(struct ranges *r);

/* Moves from NEW to OFF, with room for r->size ranges in a batch. False: the state is BROKEN or
 * WAITING, and the reason was reported. */
bool ranges_setup(struct capture *c, struct ranges *r);

/* The largest batch size within the limits for images; needs images. */
size_t ranges_size_most(const struct ranges *r);

/* To be called before each Start: gives CUPTI an empty image for r->measured_pass. */
CUptiResult ranges_renew_image(struct capture *c, struct ranges *r);

/* Reports why a context is not measured, given CUPTI's result, and moves to BROKEN, the final
 * state. */
void ranges_give_up(struct capture *c, struct ranges *r, const char *call, CUptiResult result);

/* CUPTI reported that another process has the counters: moves to WAITING, reports it once, and
 * tries again later. */
void ranges_wait(struct capture *c, struct ranges *r, const char *call);
