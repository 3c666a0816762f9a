/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/hello.h"

#include <string.h>

#include "proto/base/clock.h"
#include "proto/wire/limits.h"

enum { HELLO_TIMEOUT_S = 5 };

bool hello_keep(const struct wire_message *m, struct arena *arena, struct wire_agent_welcome *ret)
{
	struct wire_message copy;

	if (wire_copy(arena, m, &copy) < 0) {
		return false;
	}
	*ret = copy.agent_welcome;
	return true;
}

int hello_say(struct connection *l, const char *socket_path, const struct wire_agent_hello *hello,
	      struct arena *arena, struct wire_agent_welcome *ret, struct refusal *r)
{
	struct wire_message m = { .type = WIRE_AGENT_HELLO, .agent_hello = *hello };
	int e = connection_open(l, socket_path);

	m.agent_hello.version = PROTO_VERSION;
	if (e == 0) {
		e = connection_send(l, &m, -1, HELLO_TIMEOUT_S * CLOCK_NS_PER_S);
	}
	if (e == 0) {
		e = connection_receive(l, &m, HELLO_TIMEOUT_S * CLOCK_NS_PER_S);
	}
	if (e < 0) {
		refusal_set(r, GPUCTR_E_NO_DAEMON, "Start it through gpuctr-client.",
			    "no gpucountd answers at %s (%s)", socket_path, strerror(-e));
	} else if (m.type == WIRE_REFUSAL) {
		refusal_set(r, refusal_code(m.refusal.code), m.refusal.remedy, "%s",
			    m.refusal.message);
	} else if (m.type != WIRE_AGENT_WELCOME || !hello_keep(&m, arena, ret)) {
		refusal_set(r, GPUCTR_E_PROTOCOL, "Use an agent and daemon of the same release.",
			    "the daemon's answer was not understood");
	} else {
		return 0;
	}
	connection_close(l);
	return r->code;
}
