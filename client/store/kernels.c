/* SPDX-License-Identifier: Apache-2.0 */

/* The kernels of a process are read at once, into an array sorted by id. */

#include <limits.h>
#include <stdio.h>

#include "client/store/reader_internal.h"
#include "proto/base/array.h"

enum { MAX_KERNELS = 1 << 28 };

/* Looks at index id - 1 first, because ids mostly have no gaps. */
const struct gpuctr_kernel *reader_find_kernel(const struct store_kernels *kernels, unsigned id)
{
	const struct gpuctr_kernel *items = kernels->items;
	size_t n = kernels->n, i = id - (size_t)1;

	if (i >= n || items[i].id != id) {
		i = ARRAY_FIND_INDEX(items, n, id, id);
	}
	return i < n && items[i].id == id ? &items[i] : NULL;
}

static void take_kernel(struct row *row, size_t i, void *userdata)
{
	struct gpuctr_kernel *kernel = (struct gpuctr_kernel *)userdata + i;

	kernel->id = (unsigned)row_int(row, 0, 1, UINT32_MAX);
	kernel->name = row_text(row, 1);
	kernel->mangled = row_text(row, 2);
	kernel->static_shared_bytes = (int)row_int(row, 3, -1, INT_MAX);
	kernel->registers = (int)row_int(row, 4, -1, INT_MAX);
}

int store_load_kernels(struct store_reader *r, unsigned process, struct store_kernels *ret)
{
	const struct store_process *p = info_find_process(r, process);
	struct store_kernels *kept = p ? &r->kernels[p - r->processes] : NULL;
	char from[64];
	const struct reader_list list = { "id, name, mangled, static_shared_bytes, registers",
					  from,
					  "id",
					  MAX_KERNELS,
					  sizeof(struct gpuctr_kernel),
					  take_kernel };
	int result;

	if (kept && kept->items) {
		*ret = *kept;
		return 0;
	}
	snprintf(from, sizeof(from), "kernel WHERE process = %u", process);
	result = reader_list(r, &list, &ret->items, &ret->n);
	if (result == 0 && kept) {
		*kept = *ret;
	}
	return result;
}
