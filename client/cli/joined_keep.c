/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/joined_keep.h"

#include <errno.h>

int joined_keep_open(struct joined_keep *k, const char *path, bool force,
		     const struct store_info *info, struct store_error *error)
{
	const struct store_options options = { .path = path,
					       .force = force,
					       .plan = &info->plan,
					       .driver = info->driver,
					       .version = info->version,
					       .sampled = true,
					       .keeps_samples = true,
					       .gpus = info->gpus,
					       .n_gpus = info->n_gpus,
					       .name_length = attribution_name_length };

	k->kept.n_metrics = info->plan.n_metrics;
	k->attributor = attributor_new();
	return k->attributor ? store_create(&options, error, &k->store) : -ENOMEM;
}

int joined_keep_process(struct joined_keep *k, const struct gpuctr_process *process)
{
	return k->store ? store_write_process(k->store, process) : 0;
}

int joined_keep_record(struct joined_keep *k, const struct gpuctr_record *record)
{
	struct store_attribution columns;
	struct attribution what;
	int r = 0;

	if (!k->store) {
		return 0;
	}
	r = attributor_take(k->attributor, record, &what);
	if (r == 0 && what.scope) {
		attribution_columns(&what, &columns);
		r = store_write_attribution(k->store, record, &columns);
	}
	return r ? r : store_write_record(k->store, record);
}

int joined_keep_sample(struct joined_keep *k, const struct kept_sample *sample)
{
	return k->store ? kept_sample(&k->kept, k->store, sample) : 0;
}

int joined_keep_copy(struct joined_keep *k, const struct gpuctr_copy *copy)
{
	return k->store ? kept_copy(&k->kept, k->store, copy) : 0;
}

int joined_keep_end(struct joined_keep *k, const struct store_info *info, const char *unsampled)
{
	const struct gpuctr_process_end process = { .process = 1,
						    .totals = info->totals,
						    .clean = true };
	const struct gpuctr_end end = { .totals = info->totals,
					.processes = 1,
					.error = { GPUCTR_OK, "", "" } };
	int r = k->store ? kept_flush(&k->kept, k->store) : 0;

	r = r || !k->store
		    ? r
		    : store_write_unsampled(k->store, unsampled, k->kept.gpus[0].block.interval_ns);
	r = r || !k->store ? r : store_write_process_end(k->store, &process);
	return r || !k->store ? r : store_finish(k->store, &end);
}

void joined_keep_close(struct joined_keep *k)
{
	kept_deinit(&k->kept);
	k->store = store_close(k->store);
	k->attributor = attributor_free(k->attributor);
}
