/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_DOCTOR_OUTSIDE_H
#define GPUCTR_DOCTOR_OUTSIDE_H

#include <stdbool.h>

#include "daemon/config/config.h"
#include "daemon/doctor/finding.h"

/* Looks at the socket and at a running daemon, and asks the daemon for its status. Starts no
 * daemon. True: one runs. */
bool outside_look(const struct config *config, struct finding_sink *sink);

#endif
