/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "daemon/config/config.h"
#include "daemon/doctor/finding.h"

struct outside_result {
	bool runs;    /* a daemon runs at this socket */
	bool is_well; /* and says that it is well */
};

/* Looks at the socket and at a running daemon, and asks the daemon for its status. Starts no
 * daemon. */
struct outside_result outside_look(const struct config *config, struct finding_sink *sink);
