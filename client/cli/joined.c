/* SPDX-License-Identifier: Apache-2.0 */

/* All kernels of the trace are given to the attribution, then the samples, one file after the
 * other, each of which goes through in pieces. Values are known at the end alone, and are told in
 * the order of launches.
 *
 * Clocks. Samples have Unix time. The times of a trace count from what it calls
 * baseTimeNanoseconds, or, of an older PyTorch, from 1970. Seconds apart are refused; up to 3 ms
 * the attribution finds. */

#include "client/cli/joined.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/joined_keep.h"
#include "client/cli/sampled_values.h"
#include "client/cli/samples_in.h"
#include "client/cli/text.h"
#include "client/report/torch.h"

enum { FILES_MAX = 16, LENGTHS_MAX = 1000 };

#define NO_DEVICE UINT64_MAX

struct file {
	char *path;
	uint64_t device; /* of the trace */
	struct samples_in *in;
	struct samples_in_sample first;
	bool has_first;
	int64_t end_ns; /* of its last sample */
	bool is_cut;
	uint64_t lost; /* samples */
	uint64_t interval_ns;
	int64_t lengths_ns[LENGTHS_MAX]; /* of its first samples */
	size_t n_lengths;
	char uuid[SAMPLER_UUID_BYTES];
	int gpu;
};

struct joined {
	const struct joined_options *options;
	const struct reading_handler *handler;
	void *userdata;
	struct exporter_refusal *refusal;
	struct buf *told;

	struct torch torch;
	struct file files[FILES_MAX];
	size_t n_files;
	const char *metrics[ATTRIBUTION_METRICS_MAX];
	size_t chosen[ATTRIBUTION_METRICS_MAX]; /* of the files' metrics */
	struct gpuctr_column columns[ATTRIBUTION_METRICS_MAX];
	struct gpuctr_term terms[ATTRIBUTION_METRICS_MAX];
	struct gpuctr_gpu gpus[FILES_MAX];
	struct store_process process;
	struct store_info info;

	struct sampled_values values;
	int64_t shift_ns; /* of samples, to the clock of the trace */
	struct joined_keep keep;
};

/* --- refusals -------------------------------------------------------------------------------- */

static int refuse(struct joined *j, const char *code, const char *remedy)
{
	j->refusal->code = code;
	j->refusal->remedy = remedy;
	return j->refusal->why.failed ? -ENOMEM : EXPORTER_REFUSES;
}

static int refuse_trace(struct joined *j, int r, const char *why)
{
	if (r == -ENOMEM) {
		return r;
	}
	text_terminal(&j->refusal->why, j->options->trace);
	buf_printf(&j->refusal->why, ": %s", *why ? why : strerror(-r));
	return refuse(j, "trace",
		      "Name a trace that torch.profiler's export_chrome_trace() has written, of a "
		      "run on a GPU.");
}

static int refuse_samples(struct joined *j, const struct file *f, struct buf *why)
{
	if (why->n == 0 || why->failed) {
		return -ENOMEM;
	}
	text_terminal(&j->refusal->why, f->path);
	buf_printf(&j->refusal->why, ": %s", buf_string(why));
	return refuse(j, "samples",
		      "Name what capture --timeline --format jsonl --output FILE has written.");
}

static int refuse_store(struct joined *j, int r, const struct store_error *error)
{
	if (r <= 0) {
		return r;
	}
	buf_text(&j->refusal->why, error->message);
	return refuse(j, store_error_name(r), *error->remedy ? error->remedy : "");
}

/* Of the capture file. */
static int of_store(struct joined *j, int r)
{
	return r > 0 ? refuse_store(j, r, store_last_error(j->keep.store)) : r;
}

/* --- files of samples ------------------------------------------------------------------------ */

size_t joined_path_length(const char *samples, uint64_t *ret_gpu)
{
	const char *colon = strrchr(samples, ':');
	bool numbered = colon && colon > samples && options_parse_u64(colon + 1, ret_gpu) &&
			*ret_gpu <= UINT32_MAX;

	*ret_gpu = numbered ? *ret_gpu : NO_DEVICE;
	return numbered ? (size_t)(colon - samples) : strlen(samples);
}

static int open_file(struct joined *j, const char *text)
{
	struct file *f = &j->files[j->n_files++];
	struct buf why = { 0 };
	int r = 0;

	f->gpu = -1;
	f->path = strndup(text, joined_path_length(text, &f->device));
	if (!f->path) {
		return -ENOMEM;
	}
	f->in = samples_in_open(f->path, &why);
	r = f->in ? samples_in_next(f->in, &f->first, &why) : -EINVAL;
	f->has_first = r == 1;
	if (r == 0) {
		buf_text(&why, "there is no sample in it");
	}
	r = r == 1 ? 0 : refuse_samples(j, f, &why);
	buf_deinit(&why);
	return r;
}

static int open_files(struct joined *j)
{
	const struct strings *paths = &j->options->samples;
	int r = 0;

	if (paths->n > FILES_MAX) {
		buf_printf(&j->refusal->why, "--samples: %zu files are more than %d", paths->n,
			   FILES_MAX);
		return refuse(j, "samples", "Merge the samples of fewer GPUs.");
	}
	for (size_t i = 0; i < paths->n && r == 0; i++) {
		r = open_file(j, paths->items[i]);
	}
	return r;
}

/* --- metrics --------------------------------------------------------------------------------- */

static const char *unit_of(const char *metric)
{
	static const char *const words[][2] = { { "bytes", "byte" },
						{ "sectors", "sector" },
						{ "cycles", "cycle" },
						{ "requests", "request" },
						{ "inst_", "instruction" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strstr(metric, words[i][0])) {
			return words[i][1];
		}
	}
	return "";
}

static void add_metric(struct joined *j, size_t of_file, const char *name)
{
	struct gpuctr_plan *plan = &j->info.plan;
	unsigned i = (unsigned)plan->n_metrics++;

	j->chosen[i] = of_file;
	j->metrics[i] = name;
	j->columns[i] = (struct gpuctr_column){ .name = name, .unit = unit_of(name) };
	j->terms[i] = (struct gpuctr_term){ .column = i, .metric = i, .weight = 1 };
	plan->n_columns = plan->n_terms = plan->n_metrics;
}

static bool same_metrics(const struct file *a, const struct file *b)
{
	const char *const *x, *const *y;
	size_t n = samples_in_metrics(a->in, &x);

	if (samples_in_metrics(b->in, &y) != n) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (strcmp(x[i], y[i]) != 0) {
			return false;
		}
	}
	return true;
}

/* Those that add up over time; the others are named. */
static int choose_metrics(struct joined *j)
{
	const char *const *names;
	size_t n = samples_in_metrics(j->files[0].in, &names), left_out = 0;

	j->info.plan = (struct gpuctr_plan){ .chip = "",
					     .passes = 1,
					     .groups = 1,
					     .columns = j->columns,
					     .metrics = j->metrics,
					     .terms = j->terms };
	for (size_t i = 0; i < n; i++) {
		if (sampled_adds_up(names[i]) && j->info.plan.n_metrics < ATTRIBUTION_METRICS_MAX) {
			add_metric(j, i, names[i]);
		} else {
			buf_text(j->told, left_out++ == 0 ? "not divided among kernels: " : ", ");
			text_terminal(j->told, names[i]);
		}
	}
	buf_text(j->told, left_out > 0 ? "\n" : "");
	for (size_t i = 1; i < j->n_files; i++) {
		if (!same_metrics(&j->files[0], &j->files[i])) {
			buf_text(&j->refusal->why, "the files of --samples have different metrics");
			return refuse(j, "samples", "Sample all GPUs with the same --metrics.");
		}
	}
	if (j->info.plan.n_metrics == 0) {
		buf_text(&j->refusal->why, "no metric of the samples is a sum over time, which "
					   "could be divided among kernels");
		return refuse(j, "samples", "Sample metrics that end with .sum.");
	}
	return 0;
}

/* --- GPUs ------------------------------------------------------------------------------------ */

static void add_devices(const struct joined *j, struct buf *b)
{
	for (size_t i = 0; i < j->torch.n_devices; i++) {
		buf_printf(b, "%s%u", i > 0 ? ", " : "", j->torch.devices[i].index);
	}
}

static struct gpuctr_device *find_device(struct joined *j, uint64_t index)
{
	for (size_t i = 0; i < j->torch.n_devices; i++) {
		if (j->torch.devices[i].index == index) {
			return &j->torch.devices[i];
		}
	}
	return NULL;
}

static int refuse_device(struct joined *j, const struct file *f)
{
	struct buf *b = &j->refusal->why;

	text_terminal(b, f->path);
	buf_text(b, f->device == NO_DEVICE ? ": the trace has several GPUs ("
					   : ": the trace has no such GPU, or another file is of "
					     "it; there are ");
	add_devices(j, b);
	buf_text(b, f->device == NO_DEVICE ? "), and the samples are of one" : "");
	return refuse(j, "samples", "Say which it is of: --samples FILE:N, N as in the trace.");
}

static int assign_gpu(struct joined *j, struct file *f)
{
	const char *uuid = samples_in_gpu(f->in);
	struct gpuctr_device *device;

	if (f->device == NO_DEVICE && j->torch.n_devices == 1) {
		f->device = j->torch.devices[0].index;
	}
	device = find_device(j, f->device);
	if (!device || *device->uuid) {
		return refuse_device(j, f);
	}
	if (*uuid) {
		snprintf(f->uuid, sizeof(f->uuid), "%s", uuid);
	} else {
		snprintf(f->uuid, sizeof(f->uuid), "GPU %u of the trace", device->index);
	}
	for (size_t i = 0; i < j->n_files; i++) {
		if (&j->files[i] != f && strcmp(j->files[i].uuid, f->uuid) == 0) {
			buf_text(&j->refusal->why, "two files of --samples are of one GPU, ");
			text_terminal(&j->refusal->why, f->uuid);
			return refuse(j, "samples", "Name one file for each GPU.");
		}
	}
	device->uuid = f->uuid;
	j->gpus[j->info.n_gpus++] = (struct gpuctr_gpu){ .index = device->index,
							 .uuid = f->uuid,
							 .name = device->name,
							 .chip = "",
							 .job = "",
							 .job_user = "" };
	return 0;
}

static int assign_gpus(struct joined *j)
{
	int r = 0;

	for (size_t i = 0; i < j->n_files && r == 0; i++) {
		r = assign_gpu(j, &j->files[i]);
	}
	return r;
}

/* --- clocks ---------------------------------------------------------------------------------- */

static int refuse_times(struct joined *j, int64_t apart_ns, const char *which)
{
	struct buf *b = &j->refusal->why;

	text_terminal(b, j->options->trace);
	buf_text(b, ": its kernels ran ");
	text_duration(b, (uint64_t)apart_ns);
	buf_printf(b, " %s", which);
	return refuse(j, "samples",
		      "Take samples and trace in the same seconds, on machines with one clock.");
}

/* Where the trace's clock begins: the first of what it says and of 1970 by which a kernel may have
 * run after the first sample. */
static int choose_base(struct joined *j)
{
	struct torch *t = &j->torch;
	const int64_t day_ns = INT64_C(86400) * 1000000000;
	int64_t first_ns = INT64_MAX;

	for (size_t i = 0; i < j->n_files; i++) {
		first_ns = j->files[i].first.start_ns < first_ns ? j->files[i].first.start_ns
								 : first_ns;
	}
	if (t->has_base && t->base_ns + t->end_ns <= first_ns && t->end_ns > first_ns) {
		t->base_ns = 0;
	}
	if (t->base_ns + t->end_ns <= first_ns) {
		return refuse_times(j, first_ns - t->base_ns - t->end_ns,
				    "before the first sample");
	}
	return t->base_ns + t->begin_ns - first_ns > day_ns
		       ? refuse_times(j, t->base_ns + t->begin_ns - first_ns,
				      "after the first sample")
		       : 0;
}

static int check_ends(struct joined *j)
{
	int64_t end_ns = INT64_MIN;

	for (size_t i = 0; i < j->n_files; i++) {
		end_ns = j->files[i].end_ns > end_ns ? j->files[i].end_ns : end_ns;
	}
	return end_ns <= j->torch.base_ns + j->torch.begin_ns
		       ? refuse_times(j, j->torch.base_ns + j->torch.begin_ns - end_ns,
				      "after the last sample")
		       : 0;
}

/* --- what is attributed ---------------------------------------------------------------------- */

static int tell(struct joined *j, size_t i)
{
	const struct reading_handler *h = j->handler;
	struct attribution what = { .layer = "", .step = "", .seq = -1 };
	struct gpuctr_record record;
	int r;

	torch_record(&j->torch, i, &record);
	r = h->attributor ? attributor_take(h->attributor, &record, &what) : 0;
	what.unsampled = sampled_values_apply(&j->values, i, &record);
	r = r ? r : of_store(j, joined_keep_record(&j->keep, &record));
	return r || !h->on_record ? r : h->on_record(&record, &what, j->userdata);
}

static int add_kernels(struct joined *j)
{
	struct gpuctr_record record;
	struct gpuctr_copy copy;
	int r = 0;

	for (size_t i = 0; i < j->torch.n_kernels && r == 0; i++) {
		torch_record(&j->torch, i, &record);
		r = sampled_values_record(&j->values, &record);
	}
	for (size_t i = 0; i < j->torch.n_copies && r == 0; i++) {
		torch_copy(&j->torch, i, &copy);
		r = sampled_values_copy(&j->values, &copy);
	}
	return r;
}

static void choose_values(const struct joined *j, const struct samples_in_sample *sample,
			  double *values)
{
	for (size_t i = 0; i < j->info.plan.n_metrics; i++) {
		values[i] = sample->values[j->chosen[i]];
	}
}

static int add_sample(struct joined *j, struct file *f, const struct samples_in_sample *sample)
{
	double values[ATTRIBUTION_METRICS_MAX];

	choose_values(j, sample, values);
	f->end_ns = sample->end_ns;
	if (f->n_lengths < LENGTHS_MAX) {
		f->lengths_ns[f->n_lengths++] = sample->end_ns - sample->start_ns;
	}
	return sampled_values_sample(&j->values, f->gpu, sample->start_ns, sample->end_ns, values);
}

/* The samples of a file from its beginning on, by the clock of the trace. */
static int each_sample(struct joined *j, struct file *f,
		       int (*take)(struct joined *j, struct file *f,
				   const struct samples_in_sample *sample))
{
	struct samples_in_sample sample;
	struct buf why = { 0 };
	struct samples_in *in = samples_in_open(f->path, &why);
	int r = 0, more = in ? samples_in_next(in, &sample, &why) : -EINVAL;

	while (r == 0 && more == 1) {
		sample.start_ns += j->shift_ns;
		sample.end_ns += j->shift_ns;
		r = sample.start_ns > 0 ? take(j, f, &sample) : 0;
		more = r ? more : samples_in_next(in, &sample, &why);
	}
	r = r == 0 && more < 0 ? refuse_samples(j, f, &why) : r;
	f->is_cut = in && samples_in_is_cut(in);
	f->lost = in ? samples_in_lost(in) : 0;
	samples_in_close(in);
	buf_deinit(&why);
	return r;
}

static int add_gpus(struct joined *j)
{
	for (size_t i = 0; i < j->n_files; i++) {
		j->files[i].gpu = sampled_add_gpu(j->values.sampled, j->files[i].uuid);
		if (j->files[i].gpu < 0) {
			return -ENOMEM;
		}
	}
	sampled_process(j->values.sampled, &j->torch.process);
	sampled_process_end(j->values.sampled,
			    &(struct gpuctr_process_end){ .process = 1, .clean = true }, 0);
	return 0;
}

static int attribute_once(struct joined *j)
{
	int r = sampled_values_init(&j->values, &j->info.plan, NULL);

	r = r ? r : add_gpus(j);
	r = r ? r : add_kernels(j);
	for (size_t i = 0; i < j->n_files && r == 0; i++) {
		r = each_sample(j, &j->files[i], add_sample);
	}
	r = r ? r : check_ends(j);
	return r ? r : sampled_values_finish(&j->values);
}

/* Clocks that are further apart than the attribution looks for are brought together once, as far
 * as it can say by how much. */
static int attribute(struct joined *j)
{
	int r = attribute_once(j);
	int64_t apart_ns = r ? 0 : sampled_counts(j->values.sampled)->apart_ns;

	if (apart_ns == 0) {
		return r;
	}
	j->shift_ns = apart_ns;
	sampled_values_deinit(&j->values);
	r = attribute_once(j);
	if (r == 0 && sampled_counts(j->values.sampled)->apart_ns == 0) {
		buf_text(j->told, "the clocks of samples and trace differ by about ");
		text_time(j->told, (double)(apart_ns < 0 ? -apart_ns : apart_ns));
		buf_text(j->told, ", which was taken into account\n");
	}
	return r;
}

/* --- the whole ------------------------------------------------------------------------------- */

static int prepare(struct joined *j)
{
	struct buf why = { 0 };
	int r = open_files(j);

	r = r ? r : choose_metrics(j);
	if (r == 0) {
		r = torch_read(&j->torch, j->options->trace, &why);
		r = r ? refuse_trace(j, r, buf_string(&why)) : 0;
	}
	buf_deinit(&why);
	r = r ? r : choose_base(j);
	return r ? r : assign_gpus(j);
}

static void describe(struct joined *j)
{
	const struct torch *t = &j->torch;
	uint64_t n = t->n_kernels;

	j->process = (struct store_process){ .process = t->process,
					     .totals = { .seen = n, .measured = n },
					     .ended = true,
					     .clean = true };
	j->info.path = j->options->trace;
	j->info.version = gpuctr_version();
	j->info.command = j->info.host = j->info.user = j->info.driver = "";
	j->info.recorded_from = j->info.end_message = "";
	j->info.created_ns = t->base_ns + t->begin_ns;
	j->info.complete = true;
	j->info.totals = j->process.totals;
	j->info.sampled = true;
	j->info.gpus = j->gpus;
	j->info.processes = &j->process;
	j->info.n_processes = 1;
}

static int begin(struct joined *j)
{
	const struct reading_handler *h = j->handler;
	struct store_error error = { 0 };
	int r = 0;

	describe(j);
	if (j->options->capture) {
		r = joined_keep_open(&j->keep, j->options->capture, j->options->force, &j->info,
				     &error);
		r = refuse_store(j, r, &error);
	}
	r = r || !h->on_capture ? r : h->on_capture(&j->info, j->userdata);
	r = r || !h->on_process ? r : h->on_process(&j->process, j->userdata);
	return r ? r : joined_keep_process(&j->keep, &j->torch.process);
}

static int compare_lengths(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* A CSV does not say it, and lengths of neighbours differ: the median of the first. */
static void find_interval(struct file *f)
{
	f->interval_ns = samples_in_interval_ns(f->in);
	if (f->interval_ns == 0 && f->n_lengths > 0) {
		qsort(f->lengths_ns, f->n_lengths, sizeof(f->lengths_ns[0]), compare_lengths);
		f->interval_ns = (uint64_t)f->lengths_ns[f->n_lengths / 2];
	}
}

static int keep_sample(struct joined *j, struct file *f, const struct samples_in_sample *sample)
{
	double values[ATTRIBUTION_METRICS_MAX];
	const struct kept_sample kept = {
		.gpu = f->uuid,
		.interval_ns = f->interval_ns,
		.start_ns = sample->start_ns,
		.end_ns = sample->end_ns,
		.values = values,
	};

	choose_values(j, sample, values);
	return of_store(j, joined_keep_sample(&j->keep, &kept));
}

/* The capture file is made when all is known to be good, so samples are read once more. */
static int keep_all(struct joined *j)
{
	struct gpuctr_copy copy;
	int r = 0;

	for (size_t i = 0; i < j->torch.n_copies && r == 0; i++) {
		torch_copy(&j->torch, i, &copy);
		r = of_store(j, joined_keep_copy(&j->keep, &copy));
	}
	for (size_t i = 0; i < j->n_files && r == 0; i++) {
		find_interval(&j->files[i]);
		r = each_sample(j, &j->files[i], keep_sample);
	}
	return r;
}

static void tell_file(struct joined *j, const struct file *f)
{
	if (f->is_cut) {
		text_terminal(j->told, f->path);
		buf_text(j->told, " has no end: samples behind its last line are missing\n");
	}
	if (f->lost > 0) {
		text_terminal(j->told, f->path);
		buf_text(j->told, ": samples lost ");
		text_count(j->told, f->lost);
		buf_char(j->told, '\n');
	}
}

static int end(struct joined *j)
{
	const struct reading_handler *h = j->handler;
	CLEAN_BUF struct buf unsampled = { 0 };
	int r = j->options->capture ? keep_all(j) : 0;

	sampled_describe(j->values.sampled, &unsampled);
	r = r ? r : of_store(j, joined_keep_end(&j->keep, &j->info, buf_string(&unsampled)));
	r = r || !h->on_process_end ? r : h->on_process_end(&j->process, j->userdata);
	r = r || !h->on_end ? r : h->on_end(&j->info, j->userdata);
	for (size_t i = 0; i < j->n_files; i++) {
		tell_file(j, &j->files[i]);
	}
	if (j->torch.timeless_copies > 0) {
		text_terminal(j->told, j->options->trace);
		buf_text(j->told, ": copies and fills without a time, whose part of the samples "
				  "others have ");
		text_count(j->told, j->torch.timeless_copies);
		buf_char(j->told, '\n');
	}
	if (j->keep.kept.unkept > 0) {
		text_terminal(j->told, j->options->capture);
		buf_text(j->told, " keeps the first samples only, too many for it are ");
		text_count(j->told, j->keep.kept.unkept);
		buf_text(j->told, " samples and copies\n");
	}
	buf_printf(j->told, "%s\n", buf_string(&unsampled));
	return r;
}

static int run(struct joined *j)
{
	int r = prepare(j);

	r = r ? r : attribute(j);
	r = r ? r : begin(j);
	for (size_t i = 0; i < j->torch.n_kernels && r == 0; i++) {
		r = tell(j, i);
	}
	return r ? r : end(j);
}

static void deinit(struct joined *j)
{
	for (size_t i = 0; i < j->n_files; i++) {
		samples_in_close(j->files[i].in);
		free(j->files[i].path);
	}
	joined_keep_close(&j->keep);
	sampled_values_deinit(&j->values);
	torch_deinit(&j->torch);
}

int joined_read(const struct joined_options *options, const struct reading_handler *handler,
		void *userdata, struct exporter_refusal *refusal, struct buf *told)
{
	struct joined *j = calloc(1, sizeof(*j));
	int r;

	if (!j) {
		return -ENOMEM;
	}
	j->options = options;
	j->handler = handler;
	j->userdata = userdata;
	j->refusal = refusal;
	j->told = told;
	r = run(j);
	deinit(j);
	free(j);
	return r;
}
