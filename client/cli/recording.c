/* SPDX-License-Identifier: Apache-2.0 */

/* A recording has the metrics of its own capture, and one chip. What the user does not name is
 * therefore read from the file that gpuctr-replay will play; the usual defaults would be refused
 * for most recordings. */

#include "client/cli/recording.h"

#include <string.h>

#include "client/store/reader.h"

static void take_metrics(const struct gpuctr_plan *plan, struct strings *metrics)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		strings_add(metrics, plan->columns[i].name, strlen(plan->columns[i].name));
	}
}

bool recording_find(char *const *command, struct strings *metrics, char **ret_chip)
{
	struct store_reader *reader = NULL;
	const struct gpuctr_plan *plan;

	for (size_t i = 1; command[i] && !reader; i++) {
		if (command[i][0] != '-' && store_open(command[i], NULL, &reader) != 0) {
			reader = NULL;
		}
	}
	if (!reader) {
		return false;
	}
	plan = &store_info(reader)->plan;
	if (metrics) {
		take_metrics(plan, metrics);
	}
	*ret_chip = plan->chip[0] ? strdup(plan->chip) : NULL;
	store_reader_free(reader);
	return true;
}
