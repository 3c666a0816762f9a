/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/files.h"

struct file {
	char *path;
	struct store *store; /* NULL: could not be made */
	bool failed;	     /* writing failed, which was reported */
	bool keeps;	     /* samples that were recorded elsewhere */
	unsigned processes;
	unsigned running;	     /* of these */
	struct gpuctr_totals totals; /* of those that have ended */
};

/* What is of no file of the user's, beside these. NULL: there is no such place. */
static inline struct file *file_aside(const struct files *f)
{
	return f->recorded && !f->recorded->path ? f->recorded : NULL;
}

/* --- files.c */
/* Its name depends on processes. */
bool file_is_late(const struct run_options *o);
bool files_keep_samples(const struct files *f);
/* NULL: there is none. */
struct file *file_of(const struct files *f, unsigned process);
/* Reports the first failure. */
void file_check(struct file *file, int r);
/* Reopens a file. False: it cannot be written to. */
bool file_wake(struct file *file);
/* Closes the descriptor of a file whose processes have ended. */
void file_rest(const struct files *f, struct file *file);
