/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/front/front.h"

/* Counters of units that all contexts share (DRAM, L2, NVLink, PCIe) also show what others run at
 * the same time. So a GPU is leased only while nobody else computes on it, unless the administrator
 * says `sharing = shared`. */

/* Asks who computes on c's GPUs. c gets EVENT_ALONE or EVENT_ACCOMPANIED, perhaps before this
 * returns. While there is no gpu process it gets no event: ask again when there is one. */
void tenancy_check(struct front *f, struct capture *c);

/* Looks at all leased GPUs when it is time to. Captures whose lease must end get EVENT_FOREIGN. */
void tenancy_tick(struct front *f, uint64_t now_ns);
