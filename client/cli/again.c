/* SPDX-License-Identifier: Apache-2.0 */

/* The file is read twice: for what the attribution needs, and by whoever wants the records, which
 * then get their values by their order. */

#include "client/cli/again.h"

#include <errno.h>
#include <string.h>

#include "client/report/reading.h"
#include "client/sampler/sets.h"

enum { ALL_IN_ONE = 1 << 20 }; /* no result of the store's */

int again_samples(struct store_reader *reader,
		  int (*on_samples)(void *user, const struct store_samples *samples), void *user)
{
	const struct store_samples *samples;
	struct store_blocks *blocks;
	int r = store_samples(reader, &blocks);

	if (r) {
		return r;
	}
	while ((r = store_next_samples(blocks, &samples)) == 0 && samples) {
		r = on_samples(user, samples);
		if (r) {
			break;
		}
	}
	store_blocks_free(blocks);
	return r;
}

/* --- what the attribution needs -------------------------------------------------------------- */

struct pass {
	struct again *again;
	struct strings gpus;
	size_t n_metrics;
};

/* Until all metrics were sampled together. */
static int note_sets(void *user, const struct store_samples *samples)
{
	struct sampler_sets *sets = user;

	for (size_t i = 0; i < samples->n; i++) {
		sampler_sets_add(sets, samples->values + i * sets->n_metrics);
	}
	return sets->n == 1 ? ALL_IN_ONE : 0;
}

static int init_values(struct again *a, struct store_reader *reader)
{
	const struct gpuctr_plan *plan = &store_info(reader)->plan;
	struct sampler_sets sets;
	int r;

	sampler_sets_init(&sets, plan->n_metrics);
	r = sets.n > 1 ? again_samples(reader, note_sets, &sets) : 0;
	sampler_sets_finish(&sets);
	return r && r != ALL_IN_ONE ? r : sampled_values_init(&a->values, plan, sets.of);
}

static int find_gpu(const struct pass *p, const char *uuid)
{
	for (size_t i = 0; i < p->gpus.n; i++) {
		if (strcmp(p->gpus.items[i], uuid) == 0) {
			return (int)i;
		}
	}
	return -1;
}

static int add_gpu(void *user, const struct store_samples *samples)
{
	struct pass *p = user;

	if (find_gpu(p, samples->gpu) >= 0) {
		return 0;
	}
	return strings_add(&p->gpus, samples->gpu, strlen(samples->gpu)) &&
			       sampled_add_gpu(p->again->values.sampled, samples->gpu) >= 0
		       ? 0
		       : -ENOMEM;
}

static int add_samples(void *user, const struct store_samples *s)
{
	struct pass *p = user;
	int gpu = find_gpu(p, s->gpu), r = 0;

	for (size_t i = 0; r == 0 && gpu >= 0 && i < s->n; i++) {
		r = sampled_values_sample(&p->again->values, gpu, s->times[i][0], s->times[i][1],
					  s->values + i * p->n_metrics);
	}
	return r;
}

static void add_unknown(struct pass *p, const struct store_info *info)
{
	for (size_t i = 0; i < info->n_unknown; i++) {
		const struct store_unknown *u = &info->unknown[i];

		if (!*u->gpu || find_gpu(p, u->gpu) >= 0) {
			sampled_note_unknown(p->again->values.sampled,
					     &(struct sampled_unknown){ find_gpu(p, u->gpu),
									u->start_ns, u->end_ns });
		}
	}
}

/* What its end left unknown was noted then. */
static void add_process(struct pass *p, const struct gpuctr_process *process)
{
	sampled_process(p->again->values.sampled, process);
	sampled_process_end(
		p->again->values.sampled,
		&(struct gpuctr_process_end){ .process = process->process, .clean = true }, 0);
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
		for (size_t i = 0; i < n && r == 0; i++) {
			r = sampled_values_copy(&p->again->values, &copies[i]);
		}
		if (r) {
			break;
		}
	}
	store_blocks_free(blocks);
	return r;
}

static int on_record(const struct gpuctr_record *record, const struct attribution *what,
		     void *userdata)
{
	return sampled_values_record(&((struct pass *)userdata)->again->values, record);
}

static int add_all(struct pass *p, struct store_reader *reader, const char *path,
		   struct store_error *error)
{
	const struct reading_handler handler = { .on_record = on_record,
						 .without = STORE_ACTIVE | STORE_LOOKS };
	const struct store_info *info = store_info(reader);
	int r = again_samples(reader, add_gpu, p);

	for (size_t i = 0; r == 0 && i < info->n_processes; i++) {
		add_process(p, &info->processes[i].process);
	}
	add_unknown(p, info);
	r = r ? r : reading_capture(path, &handler, p, error);
	for (size_t i = 0; r == 0 && i < info->n_processes; i++) {
		r = add_copies(p, reader, info->processes[i].process.process);
	}
	return r ? r : again_samples(reader, add_samples, p);
}

int again_open(struct again *a, const char *path, struct store_error *error)
{
	struct pass pass = { .again = a };
	struct store_reader *reader;
	const struct store_info *info;
	int r;

	memset(error, 0, sizeof(*error));
	r = store_open(path, error, &a->reader);
	if (r) {
		return r;
	}
	reader = a->reader;
	info = store_info(reader);
	pass.n_metrics = info->plan.n_metrics;
	r = !info->has_samples || info->plan.n_terms == 0 ? AGAIN_NO_SAMPLES
							  : init_values(a, reader);
	r = r ? r : add_all(&pass, reader, path, error);
	r = r ? r : sampled_values_finish(&a->values);
	if (r > 0 && r != AGAIN_NO_SAMPLES && error->code == 0 &&
	    store_reader_error(reader)->code) {
		*error = *store_reader_error(reader);
	}
	strings_deinit(&pass.gpus);
	return r;
}

void again_close(struct again *a)
{
	sampled_values_deinit(&a->values);
	a->reader = store_reader_free(a->reader);
}

const char *again_apply(struct again *a, struct gpuctr_record *record)
{
	return a->next < a->values.n ? sampled_values_apply(&a->values, a->next++, record) : NULL;
}
