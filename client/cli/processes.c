/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/processes.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

enum { MAX_DEVICES = 1024 };

static void forget(struct known_process *p)
{
	for (size_t i = 0; i < p->n_devices; i++) {
		free(p->uuids[i]);
	}
	free(p->uuids);
	free(p->recorded_from);
	*p = (struct known_process){ .process = p->process };
}

void processes_deinit(struct processes *processes)
{
	for (size_t i = 0; i < processes->n; i++) {
		forget(&processes->items[i]);
	}
	free(processes->items);
	memset(processes, 0, sizeof(*processes));
}

/* The index of the process, or where it is to be inserted: processes are sorted by number. */
static size_t process_index(const struct processes *processes, unsigned process)
{
	return ARRAY_FIND_INDEX(processes->items, processes->n, process, process);
}

const struct known_process *processes_find(const struct processes *processes, unsigned process)
{
	size_t at = process_index(processes, process);

	return at < processes->n && processes->items[at].process == process ? &processes->items[at]
									    : NULL;
}

const char *processes_uuid(const struct known_process *process, unsigned device)
{
	const char *uuid = process && device < process->n_devices ? process->uuids[device] : NULL;

	return uuid ? uuid : "";
}

static bool take_devices(struct known_process *p, const struct gpuctr_process *process)
{
	unsigned n = 0;

	for (size_t i = 0; i < process->n_devices; i++) {
		n = process->devices[i].index >= n ? process->devices[i].index + 1 : n;
	}
	p->uuids = n <= MAX_DEVICES ? calloc(n + 1, sizeof(*p->uuids)) : NULL;
	p->n_devices = p->uuids ? n : 0;
	for (size_t i = 0; p->uuids && i < process->n_devices; i++) {
		char **uuid = &p->uuids[process->devices[i].index];

		free(*uuid);
		*uuid = strdup(process->devices[i].uuid);
	}
	return p->uuids;
}

bool processes_add(struct processes *processes, const struct gpuctr_process *process)
{
	size_t at = process_index(processes, process->process);
	struct known_process *p;

	if (!processes_find(processes, process->process)) {
		if (!array_make_room(&processes->items, sizeof(*p), processes->n,
				     &processes->max)) {
			return false;
		}
		p = &processes->items[at];
		memmove(p + 1, p, (processes->n++ - at) * sizeof(*p));
		*p = (struct known_process){ .process = process->process };
	}
	p = &processes->items[at];
	forget(p);
	p->pid = process->pid;
	p->recorded_from = strdup(process->recorded_from ? process->recorded_from : "");
	return take_devices(p, process) && p->recorded_from;
}
