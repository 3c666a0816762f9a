/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Settings in a file that a daemon reads again. The test listens on $NOTIFY_SOCKET, where the
 * daemon says when the new ones hold, so that nothing is waited for by the clock. */

#include "tests/system/fixture.h"

struct settings {
	struct fixture *f;
	char path[128];
	int notify;
};

/* Starts a daemon that lets in whom the text says, and nobody else. */
void settings_start_daemon(struct settings *s, struct fixture *f, const char *text);

/* Writes the text in place of the old one; it holds when this returns. */
void settings_reload(struct settings *s, const char *text);
