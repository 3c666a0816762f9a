/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What CUPTI's records say, for activity.c. All with the lock of v. */

#include "client/agent/activity.h"

void records_take(struct activity *v, const CUpti_Activity *record);

/* Of a buffer that is given up: a kernel's counts as dropped, and its launch lacks it. */
void records_give_up(struct activity *v, const CUpti_Activity *record);
