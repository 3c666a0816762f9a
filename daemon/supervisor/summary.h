/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/supervisor/workers.h"

/* Tells systemd in its status line the front's latest report, and how many workers were
 * replaced. */
void supervisor_tell_systemd(struct supervisor *s);
