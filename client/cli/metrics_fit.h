/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"

/* Prints how many passes the metrics need, and which fit together. socket, chip: NULL: the default.
 * Returns the exit status. */
int metrics_fit(const char *socket, const char *chip, const struct strings *metrics);
