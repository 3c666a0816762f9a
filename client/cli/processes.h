/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include <gpuctr/gpuctr.h>

/* Facts of a process that its records lack, and output lines show. */
struct known_process {
	unsigned process, pid;
	char *recorded_from; /* "": measured here */
	char **uuids;	     /* of devices, by index; NULL: no device has this index */
	size_t n_devices;
};

/* Sorted by the processes' numbers. Zero-initialised by the caller. */
struct processes {
	struct known_process *items;
	size_t n, max;
};

void processes_deinit(struct processes *processes);
/* False: out of memory. */
bool processes_add(struct processes *processes, const struct gpuctr_process *process);
/* NULL: no process with this number was added. */
const struct known_process *processes_find(const struct processes *processes, unsigned process);
/* The UUID of a device; "": not known. process may be NULL. */
const char *processes_uuid(const struct known_process *process, unsigned device);
