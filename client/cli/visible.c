/* SPDX-License-Identifier: Apache-2.0 */

/* CUDA_VISIBLE_DEVICES as the CUDA C++ Programming Guide describes it: numbers, or unambiguous
 * beginnings of UUIDs. The first entry that means no GPU hides itself and all entries behind it. An
 * entry that occurs twice hides all GPUs.
 *
 * A number is an index among the GPUs that CUDA would see without the variable. It equals the
 * daemon's index only under two conditions. First, this process may use all GPUs of the machine: a
 * container or a scheduler's cgroup may have fewer, counted from 0. Second, CUDA orders the GPUs by
 * bus: with CUDA_DEVICE_ORDER=PCI_BUS_ID, or if all are of one kind, so none is the fastest. */

#include "client/cli/visible.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/say.h"

enum { ENTRY_HIDES = -1, ENTRY_UNKNOWN = -2, MINORS = 256 };

/* Returns the index of the GPU that an entry of the list means, or an ENTRY_ value. */
static int find_uuid(const char *entry, size_t length, const struct gpuctr_gpu *gpus, size_t n)
{
	int found = ENTRY_HIDES;

	for (size_t i = 0; i < n; i++) {
		if (strncmp(gpus[i].uuid, entry, length) == 0) {
			if (found >= 0) {
				return ENTRY_HIDES;
			}
			found = (int)i;
		}
	}
	return found;
}

static int find_number(const char *entry, size_t length, size_t n)
{
	char *end;
	unsigned long i = strtoul(entry, &end, 10);

	return end == entry + length && i < n ? (int)i : ENTRY_HIDES;
}

static int find_entry(const char *entry, size_t length, const struct gpuctr_gpu *gpus, size_t n,
		      bool numbered)
{
	if (length > 0 && isdigit((unsigned char)*entry)) {
		return numbered ? find_number(entry, length, n) : ENTRY_UNKNOWN;
	}
	if (length >= 4 && strncmp(entry, "MIG-", 4) == 0) {
		return ENTRY_UNKNOWN;
	}
	return length > 4 && strncmp(entry, "GPU-", 4) == 0 ? find_uuid(entry, length, gpus, n)
							    : ENTRY_HIDES;
}

int visible_choose(const char *list, const struct gpuctr_gpu *gpus, size_t n, bool numbered,
		   size_t *ret)
{
	uint64_t seen = 0;
	int found = 0;

	for (const char *p = list;; p += strcspn(p, ",") + 1) {
		size_t length;
		int gpu;

		p += strspn(p, " \t");
		length = strcspn(p, ", \t");
		gpu = find_entry(p, length, gpus, n < 64 ? n : 64, numbered);
		if (gpu == ENTRY_UNKNOWN) {
			return -1;
		}
		if (gpu < 0) {
			return found;
		}
		if ((seen >> gpu & 1) != 0) {
			return 0;
		}
		seen |= UINT64_C(1) << gpu;
		ret[found++] = (size_t)gpu;
		if (p[strcspn(p, ",")] == '\0') {
			return found;
		}
	}
}

/* Counts the GPUs that the cgroup's device rules allow: access(2) applies these rules, and opens
 * nothing. */
static size_t count_devices(void)
{
	char path[32];
	size_t n = 0;

	for (int i = 0; i < MINORS; i++) {
		snprintf(path, sizeof(path), "/dev/nvidia%d", i);
		n += access(path, R_OK | W_OK) == 0;
	}
	return n;
}

static bool are_numbered(const struct gpuctr_gpu *gpus, size_t n)
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	bool alike = true;

	for (size_t i = 1; i < n; i++) {
		alike = alike && strcmp(gpus[i].name, gpus[0].name) == 0;
	}
	return (alike || (order && strcmp(order, "PCI_BUS_ID") == 0)) && count_devices() == n;
}

struct question {
	const char *list;
	struct strings *found;
	bool done;
};

static void on_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
		      void *userdata)
{
	struct question *q = userdata;
	size_t chosen[64];
	int n;

	q->done = true;
	if (error || status->n_gpus == 0) {
		return;
	}
	n = visible_choose(q->list, status->gpus, status->n_gpus,
			   are_numbered(status->gpus, status->n_gpus), chosen);
	if (n == 0) {
		say("CUDA_VISIBLE_DEVICES leaves no GPU: all are leased, for a command that sets "
		    "it anew");
	}
	for (int i = 0; i < n && (size_t)n < status->n_gpus; i++) {
		const char *uuid = status->gpus[chosen[i]].uuid;

		if (!strings_add(q->found, uuid, strlen(uuid))) {
			strings_deinit(q->found);
			return;
		}
	}
}

void visible_find(struct gpuctr *g, struct strings *ret)
{
	struct question q = { .list = getenv("CUDA_VISIBLE_DEVICES"), .found = ret };
	int r;

	if (!q.list) {
		return;
	}
	r = gpuctr_get_status(g, on_status, &q);
	while (r == 0 && !q.done) {
		r = gpuctr_dispatch(g, -1);
	}
}
