/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"
#include "client/store/store.h"

/* What is played. */
struct recording {
	const char *path; /* a word of the command; NULL: none was found */
	char *chip;	  /* NULL: not known */
	bool is_sampled;  /* it holds samples of these GPUs, and no counter data of launches */
	struct strings gpus;
	struct store_error error; /* of its samples */
};

/* Looks for a capture file among the words of a command, behind its first, and appends its metrics
 * to metrics unless that is NULL. */
void recording_find(char *const *command, struct strings *metrics, struct recording *ret);
void recording_deinit(struct recording *r);
