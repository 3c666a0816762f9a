/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/doctor/finding.h"

enum { APART_PATIENCE_MS = 20000 };

/* Runs look in a process of its own and passes on its findings. When that process ends by a signal,
 * or does not end in time, the step that it was at becomes a fault. */
void apart_run(struct finding_sink *sink, void (*look)(struct finding_sink *sink, void *userdata),
	       void *userdata);
