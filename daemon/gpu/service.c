/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "daemon/base/log.h"
#include "proto/wire/limits.h"

int service_reply(struct service *s, const struct wire_message *m)
{
	int r = wire_encode(&s->answer, &s->out, m);

	return r < 0 ? r : buffer_send(&s->out, s->link, 0);
}

int service_refuse(struct service *s, uint32_t request, const struct refusal *refusal)
{
	const struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = { request, (uint32_t)refusal->code, refusal->message, refusal->remedy },
	};

	return service_reply(s, &m);
}

enum { READ_BYTES = 64 * 1024 };

static int handle(struct service *s, const struct wire_message *m)
{
	arena_reset(&s->answer);
	for (size_t i = 0; i < s->n_handlers; i++) {
		if (s->handlers[i].type == m->type) {
			return s->handlers[i].handle(s, m);
		}
	}
	return -EPROTO;
}

static int serve_one(struct service *s)
{
	struct wire_message m;
	int r = wire_next(&s->in, &s->request, &m);

	if (r == FRAME_E_MORE) {
		return buffer_receive(&s->in, s->link, READ_BYTES, 0);
	}
	return r < 0 ? r : handle(s, &m);
}

/* Removes the variables from which the driver's libraries would take settings. */
static void clean_environment(void)
{
	static const char *const names[] = {
		"CUDA_VISIBLE_DEVICES",
		"CUDA_INJECTION64_PATH",
		"NVTX_INJECTION64_PATH",
		"CUDA_DEVICE_ORDER",
		"CUDA_HOME",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		unsetenv(names[i]);
	}
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
}

void service_init(struct service *s, int link, const struct service_handler *handlers, size_t n)
{
	*s = (struct service){ .link = link, .handlers = handlers, .n_handlers = n };
	clean_environment();
	arena_init(&s->request, LIMIT_UNPACKED_BYTES);
	arena_init(&s->answer, 4 * LIMIT_UNPACKED_BYTES);
	vendor_open_host(&s->vendor, &s->no_vendor);
}

int service_run(struct service *s)
{
	int r;

	do {
		r = serve_one(s);
	} while (r == 0);
	if (r != -EPIPE && r != -ECONNRESET) {
		log_error("stopped: %s", strerror(-r));
		return 1;
	}
	return 0;
}

void service_deinit(struct service *s)
{
	arena_deinit(&s->request);
	arena_deinit(&s->answer);
	buffer_deinit(&s->in);
	buffer_deinit(&s->out);
	close(s->link);
}
