/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_TENANCY_H
#define GPUCTR_FRONT_TENANCY_H

#include "daemon/front/front.h"

/* Counters of units that all contexts share (DRAM, L2, NVLink, PCIe) show what runs beside. Unless
 * the administrator says `sharing = shared`, a GPU is leased only while nobody else computes on it.
 */

/* Looks who runs on c's GPUs; session_on_tenants_known() hears whether c may have its lease,
 * perhaps at once. While the gpu process is not there nobody hears: ask again when it is back. */
void tenancy_check(struct front *f, struct capture *c);

/* Looks again at all leased GPUs when it is time to; session_on_foreign_tenant() hears of each
 * lease that must end. */
void tenancy_tick(struct front *f, uint64_t now_ns);

#endif
