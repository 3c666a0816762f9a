/* SPDX-License-Identifier: Apache-2.0 */

/* A sampled run is recorded into one file: into the user's file, if that is one for all processes,
 * or else into a temporary one. When the capture ends, this file is read again, and records get
 * their values in the user's files. */

#include "client/cli/files_internal.h"

#include <errno.h>
#include <string.h>

#include "client/cli/say.h"

/* The file to record into; NULL: writing has failed, or there is none. */
static struct file *recording(const struct files *f)
{
	struct file *file = file_of_all(f);

	return file && !file->failed ? file : NULL;
}

void files_sample(struct files *f, const struct kept_sample *sample)
{
	struct file *file = recording(f);

	if (file) {
		f->kept.n_metrics = f->capture->plan->n_metrics;
		file_check(file, kept_sample(&f->kept, file->store, sample));
	}
}

void files_copy(struct files *f, const struct gpuctr_copy *copy)
{
	struct file *file = recording(f);

	if (file) {
		file_check(file, kept_copy(&f->kept, file->store, copy));
	}
}

void files_unknown(struct files *f, const struct store_unknown *unknown)
{
	struct file *file = recording(f);

	if (file) {
		file_check(file, store_write_unknown(file->store, unknown));
	}
}

void files_discard(struct files *f, int64_t since_ns)
{
	struct file *file = recording(f);

	if (file) {
		file_check(file, kept_discard(&f->kept, file->store, &since_ns));
		files_unknown(f, &(struct store_unknown){ "", since_ns, INT64_MAX });
	}
}

struct store_reader *files_read(struct files *f)
{
	struct file *file = file_of_all(f);
	struct store_error error = { 0 };
	struct store_reader *reader = NULL;

	if (recording(f)) {
		file_check(file, kept_flush(&f->kept, file->store));
	}
	if (f->kept.unkept > 0) {
		say("the first samples only were recorded, %llu more were too many: kernels behind "
		    "them have no value",
		    (unsigned long long)f->kept.unkept);
		f->kept.unkept = 0;
	}
	if (store_read_back(file->store, &error, &reader) != 0) {
		say_error(store_error_name(error.code), error.message, error.remedy);
	}
	return reader;
}

struct store_reader *files_next(struct files *f, size_t *at)
{
	struct store_reader *reader = NULL;
	struct store_error error;

	if (file_of_all(f)) {
		return (*at)++ == 0 ? files_read(f) : NULL;
	}
	while (!reader && *at < f->n) {
		struct file *file = &f->items[*at];

		if (*at > 0 && f->items[*at - 1].store) {
			file_check(&f->items[*at - 1], store_rest(f->items[*at - 1].store));
		}
		++*at;
		if ((file_wake(file) || file->store) &&
		    store_read_back(file->store, &error, &reader) != 0) {
			say_error(store_error_name(error.code), error.message, error.remedy);
		}
	}
	return reader;
}

void files_values(struct files *f, const struct gpuctr_record *record)
{
	struct file *file = file_of(f, record->process);

	if (file && file->path && file_wake(file)) {
		file_check(file, store_write_values(file->store, record));
	}
}

bool files_have_values(const struct files *f)
{
	return recording(f) && recording(f)->path;
}

void files_values_end(struct files *f, unsigned process)
{
	struct file *file = file_of(f, process);

	if (file) {
		file_rest(file);
	}
}

static bool has_gpu(const struct gpuctr_process *process, const char *gpu)
{
	for (size_t i = 0; i < process->n_devices; i++) {
		if (strcmp(process->devices[i].uuid, gpu) == 0) {
			return true;
		}
	}
	return false;
}

/* The file that has all processes of a GPU, so that the GPU's samples can be divided again without
 * other files. NULL: there is none. */
static struct file *owner_of(struct files *f, const struct store_info *info, const char *gpu)
{
	struct file *owner = NULL;

	for (size_t i = 0; i < info->n_processes; i++) {
		const struct gpuctr_process *process = &info->processes[i].process;
		struct file *file = has_gpu(process, gpu) ? file_of(f, process->process) : NULL;

		if (file && owner && file != owner) {
			return NULL;
		}
		owner = file ? file : owner;
	}
	return owner && file_wake(owner) ? owner : NULL;
}

static int keep_samples(struct files *f, struct store_reader *reader)
{
	const struct store_samples *samples;
	struct store_blocks *blocks;
	int r = store_samples(reader, &blocks);

	while (r == 0 && (r = store_next_samples(blocks, &samples)) == 0 && samples) {
		struct file *owner = owner_of(f, store_info(reader), samples->gpu);

		if (owner) {
			owner->keeps = true;
			file_check(owner, store_write_samples(owner->store, samples));
		}
	}
	store_blocks_free(blocks);
	return r;
}

static int keep_copies(struct files *f, struct store_reader *reader, unsigned process)
{
	struct file *file = file_of(f, process);
	const struct gpuctr_copy *copies;
	struct store_blocks *blocks;
	size_t n;
	int r = 0;

	if (!file || !file->keeps) {
		return 0;
	}
	r = store_copies(reader, process, &blocks);
	while (r == 0 && (r = store_next_copies(blocks, &copies, &n)) == 0 && copies) {
		file_check(file, store_write_copies(file->store, copies, n));
	}
	store_blocks_free(blocks);
	return r;
}

static void keep_unknown(struct files *f, const struct store_unknown *unknown)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].keeps) {
			file_check(&f->items[i], store_write_unknown(f->items[i].store, unknown));
		}
	}
}

int files_share(struct files *f, struct store_reader *reader)
{
	const struct store_info *info = store_info(reader);
	int r = file_is_late(f->options) ? keep_samples(f, reader) : 0;

	for (size_t i = 0; r == 0 && i < info->n_processes; i++) {
		r = keep_copies(f, reader, info->processes[i].process.process);
	}
	for (size_t i = 0; r == 0 && i < info->n_unknown; i++) {
		keep_unknown(f, &info->unknown[i]);
	}
	for (size_t i = 0; i < f->n; i++) {
		file_rest(&f->items[i]);
	}
	return r;
}

void files_unsampled(struct files *f, const char *text, uint64_t sample_ns)
{
	struct file *file = file_of_all(f);

	file_check(file, store_write_unsampled(file->store, text, sample_ns));
}
