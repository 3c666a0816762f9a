/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_TIMELINE_METRICS_H
#define CLIENT_CLI_TIMELINE_METRICS_H

#include "client/cli/run_options.h"

/* CUPTI's names of what is asked for. False: the reason was reported; deinit ret in any case. */
bool timeline_metrics(const struct run_options *o, struct strings *ret);

#endif
