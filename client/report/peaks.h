/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Peaks of a device, computed from the device's name and clocks in the capture. */

#include <gpuctr/gpuctr.h>

/* Number of multiprocessors of the device. 0: unknown. */
unsigned peaks_multiprocessors(const struct gpuctr_device *device);
/* Bytes per nanosecond between the device and its memory, at the highest clock. 0: unknown. */
double peaks_bytes_a_ns(const struct gpuctr_device *device);

/* Types that tensor cores multiply, each with its own peak. */
enum peaks_precision { PEAKS_HALF /* bf16 and fp16 */, PEAKS_TF32, PEAKS_FP8, PEAKS_PRECISIONS };

/* Operations per nanosecond of all tensor cores, for dense matrices, at the highest clock. 0:
 * unknown. */
double peaks_flop_a_ns(const struct gpuctr_device *device, enum peaks_precision precision);

/* "bf16 and fp16" */
const char *peaks_precision_name(enum peaks_precision precision);
