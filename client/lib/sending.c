/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "client/lib/internal.h"
#include "proto/base/utf8.h"

/* What all files of the library need: the last error, options, and the output buffer. Calls append
 * messages to this buffer, and send as much of it as the socket takes. */

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
	if (r == 0) { /* an error here shows at the next read */
		buffer_send(&g->out, g->fd, MSG_DONTWAIT);
	}
	return r;
}

void connection_name(const char *program, char *name, size_t size)
{
	snprintf(name, size, "%s", program ? program : "");
	utf8_repair(name);
}

/* The error that gpuctr_last_error() returns. */

int connection_fail(struct gpuctr *g, int code, const char *message, const char *remedy)
{
	refusal_set(&g->refusal, code, remedy, "%s", message);
	g->error = (struct gpuctr_error){ code, g->refusal.message, g->refusal.remedy };
	return code;
}

int connection_refuse(struct gpuctr *g, const struct refusal *r)
{
	return connection_fail(g, r->code, r->message, r->remedy);
}

const struct gpuctr_error *gpuctr_last_error(const struct gpuctr *g)
{
	return &g->error;
}

/* A struct that a program passes in begins with its size as the program was compiled. A shorter
 * struct comes from an older program: the members that it lacks are set to zero, which selects the
 * behaviour before these members existed. A longer struct comes from a newer program, and is
 * accepted if the members that this library does not know are zero. */

int options_copy(struct gpuctr *g, void *ret, size_t size, const void *given)
{
	size_t given_size;

	memcpy(&given_size, given, sizeof(given_size));
	if (given_size < sizeof(given_size)) {
		return connection_fail(g, GPUCTR_E_BAD_REQUEST,
				       "a struct given to libgpuctr does not begin with its size",
				       "Initialize it with GPUCTR_INIT.");
	}
	for (size_t i = size; i < given_size; i++) {
		if (((const unsigned char *)given)[i] != 0) {
			return connection_fail(g, GPUCTR_E_BAD_REQUEST,
					       "the program asks for something that came after "
					       "libgpuctr " GPUCTR_VERSION,
					       "Install the libgpuctr that it was built with.");
		}
	}
	memset(ret, 0, size);
	memcpy(ret, given, given_size < size ? given_size : size);
	return 0;
}
