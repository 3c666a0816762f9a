/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/files.h"

struct file {
	char *path;	     /* NULL: a temporary file */
	struct store *store; /* NULL: could not be made */
	bool is_of_all;	     /* holds all processes; else those with this name */
	bool failed;	     /* writing failed, which was reported */
	bool keeps;	     /* gets samples from the temporary file */
	unsigned processes;
	unsigned running;	     /* processes that have not ended */
	struct gpuctr_totals totals; /* of processes that have ended */
};

/* The file with all that was recorded: the user's only file, or else a temporary one. NULL: the
 * file could not be created, or there are several files and nothing is sampled. */
static inline struct file *file_of_all(const struct files *f)
{
	return f->n > 0 && f->items[0].is_of_all ? &f->items[0] : NULL;
}

/* --- files.c */
/* Does the name of a file depend on processes? */
bool file_is_late(const struct run_options *o);
/* The file of a process; NULL: there is none. */
struct file *file_of(const struct files *f, unsigned process);
/* Reports the first failure of a file. r: result of a store function. */
void file_check(struct file *file, int r);
/* Reopens a file. False: it cannot be written to. */
bool file_wake(struct file *file);
/* Closes the descriptor of a file whose processes have ended. */
void file_rest(struct file *file);
