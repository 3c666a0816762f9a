/* SPDX-License-Identifier: Apache-2.0 */

/* Texts that the formats keep between records. */

#include "client/cli/fragments.h"

#include <stdlib.h>

#include "proto/base/array.h"

enum { MAX_DEVICES = 1024 };

struct fragments *fragments_new(void)
{
	return calloc(1, sizeof(struct fragments));
}

struct fragments *fragments_free(struct fragments *fragments)
{
	for (size_t i = 0; fragments && i < FRAGMENT_SLOTS; i++) {
		buf_deinit(&fragments->slots[i].text);
	}
	free(fragments);
	return NULL;
}

void processes_deinit(struct processes *processes)
{
	for (size_t i = 0; i < processes->n; i++) {
		for (size_t j = 0; j < processes->items[i].n_devices; j++) {
			buf_deinit(&processes->items[i].devices[j]);
		}
		free(processes->items[i].devices);
	}
	free(processes->items);
	memset(processes, 0, sizeof(*processes));
}

/* Where the process is, or would be: they are sorted by number. */
static size_t find_place(const struct processes *processes, unsigned process)
{
	return ARRAY_FIND_PLACE(processes->items, processes->n, process, process);
}

const struct process_texts *processes_find(const struct processes *processes, unsigned process)
{
	size_t at = find_place(processes, process);

	return at < processes->n && processes->items[at].process == process ? &processes->items[at]
									    : NULL;
}

static struct process_texts *find_or_add(struct processes *processes, unsigned process)
{
	struct process_texts *items = (struct process_texts *)processes_find(processes, process);
	size_t at = find_place(processes, process);

	if (items) {
		return items;
	}
	if (!array_make_room(&processes->items, sizeof(*items), processes->n, &processes->max)) {
		return NULL;
	}
	items = &processes->items[at];
	memmove(items + 1, items, (processes->n++ - at) * sizeof(*items));
	*items = (struct process_texts){ .process = process };
	return items;
}

static bool has_device(struct process_texts *texts, unsigned index)
{
	struct buf *devices;

	if (index < texts->n_devices) {
		return true;
	}
	devices = index < MAX_DEVICES ? realloc(texts->devices, (index + 1) * sizeof(*devices))
				      : NULL;
	if (!devices) {
		return false;
	}
	memset(devices + texts->n_devices, 0, (index + 1 - texts->n_devices) * sizeof(*devices));
	texts->devices = devices;
	texts->n_devices = index + 1;
	return true;
}

bool processes_add(struct processes *processes, const struct gpuctr_process *process,
		   void (*write)(struct buf *b, const struct gpuctr_device *device))
{
	struct process_texts *texts = find_or_add(processes, process->process);

	if (!texts) {
		return false;
	}
	texts->pid = process->pid;
	for (size_t i = 0; i < process->n_devices; i++) {
		unsigned index = process->devices[i].index;

		if (!has_device(texts, index)) {
			return false;
		}
		buf_clear(&texts->devices[index]);
		write(&texts->devices[index], &process->devices[i]);
	}
	return true;
}
