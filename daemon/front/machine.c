/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/machine.h"

#include <stdlib.h>

#include "proto/wire/limits.h"

struct machine *machine_new(const struct wire_message *m)
{
	struct machine *machine = calloc(1, sizeof(*machine));
	struct wire_message copy;

	if (!machine) {
		return NULL;
	}
	arena_init(&machine->arena, LIMIT_UNPACKED_BYTES);
	if (wire_copy(&machine->arena, m, &copy) < 0) {
		return machine_free(machine);
	}
	machine->status = copy.status_reply;
	return machine;
}

struct machine *machine_free(struct machine *m)
{
	if (m) {
		arena_deinit(&m->arena);
		free(m);
	}
	return NULL;
}

size_t machine_uuids(const struct machine *m, uint64_t gpus, const char **v)
{
	size_t n = 0;

	for (size_t i = 0; m && i < m->status.gpus.n && i < LIMIT_GPUS; i++) {
		if ((gpus >> i & 1) != 0) {
			v[n++] = m->status.gpus.v[i].uuid;
		}
	}
	return n;
}
