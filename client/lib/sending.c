/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "client/lib/internal.h"
#include "proto/base/utf8.h"

/* Calls of the program append to the output, and send what the socket takes. */

void sending_flush(struct gpuctr *g)
{
	while (!g->broken && buffer_length(&g->out) > 0) {
		ssize_t n = send(g->fd, g->out.data + g->out.start, buffer_length(&g->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EINTR) {
				continue;
			}
			return; /* full: sent later; broken: reading will show it */
		}
		buffer_consume(&g->out, (size_t)n);
	}
}

int connection_send(struct gpuctr *g, const struct wire_message *m)
{
	int r;

	if (g->broken) {
		return connection_fail(g, GPUCTR_E_DISCONNECTED,
				       "the connection to gpucountd is over", "Connect again.");
	}
	r = wire_encode(&g->scratch, &g->out, m);
	arena_reset(&g->scratch);
	if (r == -EMSGSIZE) {
		return connection_fail(g, GPUCTR_E_BAD_REQUEST,
				       "the request is longer than the protocol allows",
				       "Shorten the regular expression or the list of metrics.");
	}
	if (r == 0) {
		sending_flush(g);
	}
	return r;
}

void connection_name(const char *program, char *name, size_t size)
{
	snprintf(name, size, "%s", program ? program : "");
	utf8_repair(name);
}
