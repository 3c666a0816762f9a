/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_EXPORTER_SERVER_H
#define CLIENT_EXPORTER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/exporter/scrape.h"

/* HTTP. One thread serves all connections. What a client may occupy is bounded: at most
 * SERVER_CONNECTIONS at a socket, SERVER_CONNECTIONS_OF_ONE of one user or address, and
 * SERVER_PATIENCE_S from the begin of a connection, or from its last answer, to its next answer. */

enum {
	SERVER_SOCKETS = 4,
	SERVER_CONNECTIONS = 64,
	SERVER_CONNECTIONS_OF_ONE = 8,
	SERVER_PATIENCE_S = 10,
	SERVER_MEMORY_BYTES = 16 * 1024, /* of one connection: what a request's head may take */
};

struct MHD_Daemon;

struct server_client {
	int fd; /* the library's */
	uid_t uid;
	uint64_t since_ns;
	bool used, has_uid;
};

struct server {
	struct scrape *scrape;
	struct MHD_Daemon *daemons[SERVER_SOCKETS];
	size_t n;
	struct server_client clients[SERVER_SOCKETS * SERVER_CONNECTIONS];
};

/* Consumes fd. 0, or -1 after printing why. */
int server_add(struct server *s, int fd);

/* Serves until a signal arrives at the descriptor signals. */
void server_run(struct server *s, int signals);
void server_stop(struct server *s);

#endif
