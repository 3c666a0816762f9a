/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_PEAKS_H
#define CLIENT_REPORT_PEAKS_H

/* What a device could do at most, from its name and clocks: what a capture tells of it. */

#include <gpuctr/gpuctr.h>

/* 0: not known. */
unsigned peaks_multiprocessors(const struct gpuctr_device *device);
/* Bytes a nanosecond between device and its memory at its highest clock. */
double peaks_bytes_a_ns(const struct gpuctr_device *device);

/* What tensor cores multiply; each has a rate of its own. */
enum peaks_precision { PEAKS_HALF /* bf16 and fp16 */, PEAKS_TF32, PEAKS_FP8, PEAKS_PRECISIONS };

/* Operations a nanosecond of all tensor cores, of dense matrices, at the highest clock. 0: not
 * known. */
double peaks_flop_a_ns(const struct gpuctr_device *device, enum peaks_precision precision);

/* "bf16 and fp16" */
const char *peaks_precision_name(enum peaks_precision precision);

#endif
