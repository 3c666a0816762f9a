/* SPDX-License-Identifier: Apache-2.0 */

/* A capture file, or what a run has recorded so far, is attributed in one pass: its GPUs, its
 * processes, its records and copies, then its samples. */

#include "client/cli/sampled.h"

#include <errno.h>
#include <string.h>

#include "client/report/reading.h"
#include "client/sampler/sets.h"

enum { ALL_IN_ONE = 1 << 20 }; /* no function of client/store returns this */

struct pass {
	struct sampled *sampled;
	struct sampler_sets sets;
	size_t n_metrics;
};

/* Joins metrics that were sampled together; ends early when all are in one set. */
static int note_sets(const struct store_samples *samples, void *userdata)
{
	struct pass *p = userdata;

	for (size_t i = 0; i < samples->n; i++) {
		sampler_sets_add(&p->sets, samples->values + i * p->n_metrics);
	}
	return p->sets.n == 1 ? ALL_IN_ONE : 0;
}

static int find_sets(struct pass *p, struct store_reader *reader)
{
	int r;

	sampler_sets_init(&p->sets, p->n_metrics);
	r = p->sets.n > 1 ? store_each_samples(reader, note_sets, p) : 0;
	sampler_sets_finish(&p->sets);
	return r == ALL_IN_ONE ? 0 : r;
}

static int add_gpus(struct pass *p, struct store_reader *reader)
{
	const char *const *gpus;
	size_t n;
	int r = store_sampled_gpus(reader, &gpus, &n);

	for (size_t i = 0; i < n && r == 0; i++) {
		r = sampled_add_gpu(p->sampled, gpus[i]) < 0 ? -ENOMEM : 0;
	}
	return r;
}

static void add_unknown(struct pass *p, const struct store_info *info)
{
	for (size_t i = 0; i < info->n_unknown; i++) {
		const struct store_unknown *u = &info->unknown[i];
		int gpu = sampled_find_gpu(p->sampled, u->gpu);

		if (!*u->gpu || gpu >= 0) {
			sampled_unknown(p->sampled, gpu, u->start_ns, u->end_ns);
		}
	}
}

static int add_copies(struct pass *p, struct store_reader *reader, unsigned process)
{
	struct store_blocks *blocks;
	const struct gpuctr_copy *copies;
	size_t n;
	int r = store_copies(reader, process, &blocks);

	if (r) {
		return r;
	}
	while ((r = store_next_copies(blocks, &copies, &n)) == 0 && copies) {
		for (size_t i = 0; i < n; i++) {
			sampled_copy(p->sampled, &copies[i]);
		}
	}
	store_blocks_free(blocks);
	return r;
}

/* Equal names of steps are the same pointer. */
static int on_record(const struct gpuctr_record *record, const struct attribution *what,
		     void *userdata)
{
	const struct pass *p = userdata;

	uint64_t step = map_mix((uintptr_t)what->step, (uint64_t)what->step_number);

	sampled_record(p->sampled, record, *what->step ? step : 0);
	return 0;
}

static int add_samples(const struct store_samples *s, void *userdata)
{
	const struct pass *p = userdata;
	int gpu = sampled_find_gpu(p->sampled, s->gpu);

	for (size_t i = 0; gpu >= 0 && i < s->n; i++) {
		sampled_sample(p->sampled, gpu, s->times[i][0], s->times[i][1],
			       s->values + i * p->n_metrics);
	}
	return 0;
}

static int add_all(struct pass *p, struct store_reader *reader)
{
	struct scopes scopes = { 0 };
	const struct reading_handler handler = { .on_record = on_record,
						 .brief = true,
						 .scopes = &scopes };
	const struct store_info *info = store_info(reader);
	struct store_error error;
	int r = add_gpus(p, reader);

	for (size_t i = 0; r == 0 && i < info->n_processes; i++) {
		sampled_process(p->sampled, &info->processes[i].process);
	}
	add_unknown(p, info);
	r = r ? r : reading_reader(reader, &handler, p, &error);
	scopes_deinit(&scopes);
	for (size_t i = 0; r == 0 && i < info->n_processes; i++) {
		r = add_copies(p, reader, info->processes[i].process.process);
	}
	return r ? r : store_each_samples(reader, add_samples, p);
}

int sampled_read(struct store_reader *reader, sampled_on_pause *on_pause, void *user,
		 struct sampled **ret)
{
	const struct gpuctr_plan *plan = &store_info(reader)->plan;
	struct pass p = { .n_metrics = plan->n_metrics };
	int r = !store_info(reader)->has_samples || plan->n_terms == 0 ? SAMPLED_NO_SAMPLES
								       : find_sets(&p, reader);

	if (r) {
		return r;
	}
	p.sampled = sampled_new(plan, p.sets.of);
	if (!p.sampled) {
		return -ENOMEM;
	}
	sampled_hear_pauses(p.sampled, on_pause, user);
	r = add_all(&p, reader);
	if (r) {
		sampled_free(p.sampled);
		return r;
	}
	sampled_finish(p.sampled);
	*ret = p.sampled;
	return 0;
}
