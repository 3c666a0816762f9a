/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/* Asks a running daemon for its status. */

enum ask_result {
	ASK_WELL,
	ASK_TROUBLED, /* nothing can be measured: message and remedy are set */
	ASK_REFUSED,  /* this user may not ask: message is set */
	ASK_SILENT,   /* no answer: message is set */
};

struct ask_answer {
	char message[640];
	char remedy[640];
};

enum { ASK_PATIENCE_S = 5 };

/* The process that made the socket listen: a daemon, or the manager that started the daemon. 0:
 * none. */
pid_t ask_listener(const char *path);

enum ask_result ask_daemon(const char *path, struct ask_answer *ret);
