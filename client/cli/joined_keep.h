/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The capture file of a joined trace. */

#include "client/cli/kept.h"
#include "client/report/attribution.h"
#include "client/store/reader.h"

struct joined_keep {
	struct store *store; /* NULL: no file is made */
	struct attributor *attributor;
	struct kept kept;
};

/* 0, -ENOMEM, or a STORE_E_* with the error filled in, as of all of these. */
int joined_keep_open(struct joined_keep *k, const char *path, bool force,
		     const struct store_info *info, struct store_error *error);
int joined_keep_process(struct joined_keep *k, const struct gpuctr_process *process);
int joined_keep_record(struct joined_keep *k, const struct gpuctr_record *record);
/* What the values are of; the GPU's text lives until the end. */
int joined_keep_sample(struct joined_keep *k, const struct kept_sample *sample);
int joined_keep_copy(struct joined_keep *k, const struct gpuctr_copy *copy);
/* unsampled: how many kernels have no value, by reason. */
int joined_keep_end(struct joined_keep *k, const struct store_info *info, const char *unsampled);
/* A file that was not finished stays, and reads as not complete. */
void joined_keep_close(struct joined_keep *k);
