/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_WIRE_BLOCKING_H
#define GPUCTR_WIRE_BLOCKING_H

/* Metrics whose user ranges wait for the GPU: pushing and popping one of the SMs' writes registers
 * from the CPU, behind all work, which takes 0.8 ms on an H200 where a range of the memory's costs
 * 46 us and waits for nothing. The daemon plans by it, and the agent measures by it. */

#include <stdbool.h>
#include <stddef.h>

bool metric_blocks(const char *metric);
bool metrics_block(const char *const *metrics, size_t n); /* any of them */

#endif
