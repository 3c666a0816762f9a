/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_TENANCY_H
#define GPUCTR_FRONT_TENANCY_H

#include "daemon/front/front.h"

/* Counters of units that all contexts share (DRAM, L2, NVLink, PCIe) show what runs beside. Unless
 * the administrator says `sharing = shared`, a GPU is leased only while nobody else computes on it.
 */

/* Looks who runs on c's GPUs; calls on_known with NULL when c may have its lease, else with why
 * not. While the gpu process is not there nothing is called: ask again when it is back. */
typedef void (*tenancy_on_known)(struct front *f, struct capture *c, const struct refusal *why_not);
void tenancy_check(struct front *f, struct capture *c, tenancy_on_known on_known);

/* Looks again at all leased GPUs when it is time to; on_foreign is called for each lease that must
 * end. */
void tenancy_tick(struct front *f, uint64_t now_ns, tenancy_on_known on_foreign);

#endif
