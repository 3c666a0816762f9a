/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/exporter/scrape.h"

/* HTTP. One thread serves all connections. What a client may occupy is bounded: at most
 * SERVER_CONNECTIONS at a socket, SERVER_CONNECTIONS_OF_ONE of one user or address, and
 * SERVER_PATIENCE_S from the begin of a connection to the end of its one answer. A user's further
 * connections are refused. Behind an address there may be anybody, so there, and when a socket has
 * all of its connections, the oldest gives way to a new one. */

enum {
	SERVER_SOCKETS = 4,
	SERVER_CONNECTIONS = 64,
	SERVER_CONNECTIONS_OF_ONE = 8,
	SERVER_CONNECTIONS_ENDING =
		16, /* connections that gave way, and that the library has not closed yet */
	SERVER_PATIENCE_S = 10,
	SERVER_MEMORY_BYTES =
		16 * 1024, /* the memory of one connection, for the head of a request */
};

struct MHD_Daemon;

struct server_client {
	int fd;			   /* the library's */
	struct MHD_Daemon *daemon; /* of its socket */
	uid_t uid;
	struct in6_addr address; /* without has_uid; of IPv4 its first bytes */
	uint64_t since_ns;
	bool used, has_uid;
	bool cut; /* is shut down */
};

struct server {
	struct scrape *scrape;
	struct MHD_Daemon *daemons[SERVER_SOCKETS];
	size_t n;
	struct server_client
		clients[SERVER_SOCKETS * (SERVER_CONNECTIONS + SERVER_CONNECTIONS_ENDING)];
};

/* Consumes fd. 0, or -1 after printing why. */
int server_add(struct server *s, int fd);

/* Serves until a signal arrives at the descriptor signals. */
void server_run(struct server *s, int signals);
void server_stop(struct server *s);
