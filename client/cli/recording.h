/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"
#include "client/store/store.h"

/* The capture file that gpuctr-replay plays. */
struct recording {
	const char *path; /* the word of the command that names the file; NULL: none does */
	char *chip;	  /* NULL: not known */
	bool is_sampled;  /* it holds samples of these GPUs, and no counter data of launches */
	struct strings gpus;
	struct store_error error; /* from reading its samples */
};

/* Looks for a capture file among the words of a command, behind its first, and appends the file's
 * metrics to metrics, unless metrics is NULL. */
void recording_find(char *const *command, struct strings *metrics, struct recording *ret);
void recording_deinit(struct recording *r);
