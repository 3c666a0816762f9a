/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

static int flush_samples(struct kept_gpu *gpu, struct store *store)
{
	int r = gpu->block.n > 0 ? store_write_samples(store, &gpu->block) : 0;

	gpu->block.n = 0;
	return r;
}

static int flush_copies(struct kept *k, struct store *store)
{
	int r = k->n_copies > 0 ? store_write_copies(store, k->copies, k->n_copies) : 0;

	k->n_copies = 0;
	return r;
}

/* NULL: out of memory. */
static struct kept_gpu *find_gpu(struct kept *k, const char *uuid)
{
	struct kept_gpu *gpu = k->gpus;

	for (; gpu < k->gpus + k->n_gpus; gpu++) {
		if (strcmp(gpu->block.gpu, uuid) == 0) {
			return gpu;
		}
	}
	if (k->n_gpus == KEPT_GPUS_MAX) {
		return NULL;
	}
	gpu->times = calloc(STORE_BLOCK_MAX, sizeof(*gpu->times));
	gpu->values = calloc(STORE_BLOCK_MAX * k->n_metrics, sizeof(*gpu->values));
	if (!gpu->times || !gpu->values) {
		free(gpu->times);
		free(gpu->values);
		return NULL;
	}
	gpu->block = (struct store_samples){ .gpu = uuid,
					     .times = (const int64_t(*)[2])gpu->times,
					     .values = gpu->values };
	k->n_gpus++;
	return gpu;
}

/* Has the sample a valid time? In the file the samples of a GPU are in the order of time. */
static bool has_time(const struct kept_gpu *gpu, const struct kept_sample *sample)
{
	return sample->start_ns > 0 && sample->start_ns >= gpu->last_ns &&
	       sample->end_ns > sample->start_ns && sample->end_ns <= CLOCK_NS_MOST;
}

int kept_sample(struct kept *k, struct store *store, const struct kept_sample *sample)
{
	struct kept_gpu *gpu = find_gpu(k, sample->gpu);
	size_t i;
	int r = 0;

	if (!gpu) {
		return -ENOMEM;
	}
	if (k->until_ns != 0 && sample->end_ns > k->until_ns) {
		return 0;
	}
	if (!has_time(gpu, sample)) {
		k->bad++;
		return 0;
	}
	k->numbers += 1 + k->n_metrics;
	if (k->numbers > KEPT_NUMBERS_MAX) {
		k->unkept++;
		return 0;
	}
	if (gpu->block.n > 0 && gpu->block.interval_ns != sample->interval_ns) {
		r = flush_samples(gpu, store);
	}
	i = gpu->block.n++;
	gpu->block.interval_ns = sample->interval_ns;
	gpu->times[i][0] = sample->start_ns;
	gpu->times[i][1] = gpu->last_ns = sample->end_ns;
	memcpy(gpu->values + i * k->n_metrics, sample->values, k->n_metrics * sizeof(*gpu->values));
	return r || gpu->block.n < STORE_BLOCK_MAX ? r : flush_samples(gpu, store);
}

int kept_copy(struct kept *k, struct store *store, const struct gpuctr_copy *copy)
{
	int r = 0;

	if (!k->copies) {
		k->copies = calloc(STORE_BLOCK_MAX, sizeof(*k->copies));
	}
	if (!k->copies) {
		return -ENOMEM;
	}
	if (k->n_copies == STORE_BLOCK_MAX ||
	    (k->n_copies > 0 && k->copies[0].process != copy->process)) {
		r = flush_copies(k, store);
	}
	k->copies[k->n_copies++] = *copy;
	return r;
}

int kept_flush(struct kept *k, struct store *store)
{
	int r = flush_copies(k, store);

	for (size_t i = 0; r == 0 && i < k->n_gpus; i++) {
		r = flush_samples(&k->gpus[i], store);
	}
	return r;
}

int kept_discard(struct kept *k, struct store *store, int64_t *since_ns)
{
	int r = kept_flush(k, store);

	for (size_t i = 0; r == 0 && i < k->n_gpus; i++) {
		r = store_drop_samples(store, k->gpus[i].block.gpu, since_ns);
	}
	k->until_ns = *since_ns;
	return r;
}

void kept_deinit(struct kept *k)
{
	for (size_t i = 0; i < k->n_gpus; i++) {
		free(k->gpus[i].times);
		free(k->gpus[i].values);
	}
	free(k->copies);
	*k = (struct kept){ 0 };
}
