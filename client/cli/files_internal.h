/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/files.h"

struct file {
	char *path;	     /* NULL: a temporary file */
	struct store *store; /* NULL: could not be made */
	bool is_of_all;	     /* processes; else of those that chose this name */
	bool failed;	     /* writing failed, which was reported */
	bool keeps;	     /* samples that were recorded elsewhere */
	unsigned processes;
	unsigned running;	     /* of these */
	struct gpuctr_totals totals; /* of those that have ended */
};

/* All that was recorded: the user's only file, or else a temporary one. NULL: it could not be made,
 * or there are several files and nothing is sampled. */
static inline struct file *file_of_all(const struct files *f)
{
	return f->n > 0 && f->items[0].is_of_all ? &f->items[0] : NULL;
}

/* --- files.c */
/* Its name depends on processes. */
bool file_is_late(const struct run_options *o);
/* NULL: there is none. */
struct file *file_of(const struct files *f, unsigned process);
/* Reports the first failure. */
void file_check(struct file *file, int r);
/* Reopens a file. False: it cannot be written to. */
bool file_wake(struct file *file);
/* Closes the descriptor of a file whose processes have ended. */
void file_rest(struct file *file);
