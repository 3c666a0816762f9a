/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/ask.h"

#include <errno.h>
#include <string.h>

#include "client/agent/connection.h"
#include "proto/base/clock.h"

bool ask_is_allocation(int fd, unsigned long request, const void *argument, struct allocation *ret)
{
	const struct rm_alloc *p = argument; /* struct rm_alloc_short begins alike */

	if ((request != RM_IOCTL_ALLOC && request != RM_IOCTL_ALLOC_SHORT) ||
	    p->object_class != RM_CLASS_PROFILER_DEVICE) {
		return false;
	}
	*ret = (struct allocation){ fd, p->root, p->parent, p->object, { 0 } };
	if (p->parameters != 0) {
		memcpy(&ret->parameters, (const void *)(uintptr_t)p->parameters,
		       sizeof(ret->parameters));
	}
	return true;
}

int ask_daemon(const struct question *question, const struct allocation *a, uint32_t *ret_status,
	       struct refusal *ret)
{
	struct wire_message q = { .type = WIRE_PERMISSION_REQUEST }, m;
	struct connection l;
	int r = connection_open(&l, question->socket_path);

	if (r < 0) {
		return r;
	}
	q.permission_request = (struct wire_permission_request){
		question->token,
		a->root,
		a->parent,
		a->object,
		RM_CLASS_PROFILER_DEVICE,
		a->parameters.client_target,
		a->parameters.context_target,
	};
	r = connection_send(&l, &q, a->fd, ASK_TIMEOUT_S * CLOCK_NS_PER_S);
	if (r == 0) {
		r = connection_receive(&l, &m, ASK_TIMEOUT_S * CLOCK_NS_PER_S);
	}
	if (r == 0 && m.type == WIRE_PERMISSION_REPLY) {
		*ret_status = m.permission_reply.status;
		refusal_set(ret, (int)m.permission_reply.code, m.permission_reply.remedy, "%s",
			    m.permission_reply.message);
	} else if (r == 0) {
		r = -EPROTO;
	}
	connection_close(&l);
	return r;
}

void ask_answer(unsigned long request, void *argument, uint32_t status)
{
	if (request == RM_IOCTL_ALLOC_SHORT) {
		((struct rm_alloc_short *)argument)->status = status;
	} else {
		((struct rm_alloc *)argument)->status = status;
	}
}
