/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_PEAKS_H
#define CLIENT_REPORT_PEAKS_H

/* What a device could do at most, from its name and clocks: what a capture tells of it. */

#include <gpuctr/gpuctr.h>

/* 0: not known. */
unsigned peaks_multiprocessors(const struct gpuctr_device *device);
/* Bytes a nanosecond between device and its memory at its highest clock. */
double peaks_bytes_a_ns(const struct gpuctr_device *device);

#endif
