/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/run_options.h"

/* "capture --timeline": samples a GPU and shows its counters over time. Returns the exit status. */
int timeline_run(const struct run_options *o);
