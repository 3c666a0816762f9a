/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/run_options.h"

/* CUPTI's names of what is asked for. False: the reason was reported; deinit ret in any case. */
bool timeline_metrics(const struct run_options *o, struct strings *ret);
