/* SPDX-License-Identifier: Apache-2.0 */

/* A recording has one chip and the metrics of its own capture. Where the user names none, they are
 * read from the file that gpuctr-replay will play, because most recordings lack the default
 * metrics. */

#include "client/cli/recording.h"

#include <stdlib.h>
#include <string.h>

#include "client/store/reader.h"

static void take_metrics(const struct gpuctr_plan *plan, struct strings *metrics)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		strings_add(metrics, plan->columns[i].name, strlen(plan->columns[i].name));
	}
}

static void take_gpus(struct store_reader *reader, struct recording *ret)
{
	const char *const *gpus;
	size_t n;

	if (store_sampled_gpus(reader, &gpus, &n) != 0) {
		ret->error = *store_reader_error(reader);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		strings_add(&ret->gpus, gpus[i], strlen(gpus[i]));
	}
}

void recording_find(char *const *command, struct strings *metrics, struct recording *ret)
{
	struct store_reader *reader = NULL;
	const struct store_info *info;

	*ret = (struct recording){ 0 };
	for (size_t i = 1; command[i] && !reader; i++) {
		if (command[i][0] != '-' && store_open(command[i], NULL, &reader) != 0) {
			reader = NULL;
		}
		ret->path = command[i];
	}
	if (!reader) {
		ret->path = NULL;
		return;
	}
	info = store_info(reader);
	if (metrics) {
		take_metrics(&info->plan, metrics);
	}
	ret->chip = info->plan.chip[0] ? strdup(info->plan.chip) : NULL;
	ret->is_sampled = info->has_samples;
	take_gpus(reader, ret);
	store_reader_free(reader);
}

void recording_deinit(struct recording *r)
{
	free(r->chip);
	strings_deinit(&r->gpus);
}
