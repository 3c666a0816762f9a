/* SPDX-License-Identifier: Apache-2.0 */

/* The pattern of -o becomes one file when none of its letters depends on a process; files_open()
 * creates it. Otherwise files_process() expands the pattern for each process, and processes of
 * the same name share a file. Such a file is closed when its last process has ended and reopened
 * for later writes (a later process of the same name, a notice to all, the end), so that there
 * may be more files than descriptors. Numbers of processes are small and dense. */

#include "client/cli/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/expand.h"
#include "client/cli/say.h"
#include "client/report/estimated.h"

struct file {
	char *path;
	struct store *store; /* NULL: could not be made */
	bool failed;	     /* writing failed, which was reported */
	unsigned processes;
	unsigned running;	     /* of these */
	struct gpuctr_totals totals; /* of those that have ended */
};

static bool is_late(const struct run_options *o)
{
	return o->capture_path && expand_has(o->capture_path, o->late ? o->late : "");
}

/* The path of a pattern that depends on no process. NULL: out of memory. */
static char *early_path(const struct run_options *o)
{
	struct claims claims = claims_of_self();

	return expand_pattern(o->capture_path, &claims, 0);
}

/* --- making ---------------------------------------------------------------------------------- */

/* Checks the folder of a pattern that depends on processes, up to its first such letter. */
static bool check_folder(const struct run_options *o)
{
	struct claims claims = claims_of_self();
	char *pattern = strndup(o->capture_path, expand_before(o->capture_path, o->late));
	char *slash = pattern ? strrchr(pattern, '/') : NULL;
	char *folder;
	int r;

	if (pattern && slash) {
		slash[1] = '\0';
	}
	folder = pattern ? expand_pattern(slash ? pattern : "./", &claims, 0) : NULL;
	free(pattern);
	r = folder ? expand_make_folders(folder) : -ENOMEM;
	if (r == 0 && access(folder, W_OK | X_OK) < 0) {
		r = -errno;
	}
	if (r < 0) {
		say_usage("-o %s: %s: %s", o->capture_path, folder ? folder : "", strerror(-r));
	}
	free(folder);
	return r == 0;
}

bool files_check(const struct run_options *o)
{
	struct store_error error;
	char *path;
	int r = 0;

	if (!o->capture_path) {
		return true;
	}
	if (is_late(o)) {
		return check_folder(o);
	}
	path = early_path(o);
	/* Folders are made when there is something to put into them. */
	if (path && strchr(o->capture_path, '%')) {
		r = expand_make_folders(path);
	}
	if (!path || r < 0) {
		say_usage("-o %s: %s", path ? path : o->capture_path, strerror(path ? -r : ENOMEM));
		free(path);
		return false;
	}
	r = store_check(path, o->force, &error);
	if (r > 0) {
		say_error(store_error_name(error.code), error.message, error.remedy);
	}
	free(path);
	return r == 0;
}

/* Samples are of whole GPUs, and go into one file of all processes or none. */
static bool keeps_samples(const struct files *f)
{
	return f->capture->sampled && !f->options->no_samples && !is_late(f->options);
}

static int create(struct files *f, const char *path, struct store **ret)
{
	const struct store_options options = { .path = path,
					       .force = f->options->force,
					       .plan = f->capture->plan,
					       .command = f->capture->command,
					       .driver = f->driver,
					       .version = gpuctr_version(),
					       .budget_ppm = f->options->budget.ppm,
					       .seed = f->options->budget.seed,
					       .sampled = f->capture->sampled,
					       .keeps_samples = keeps_samples(f),
					       .graphs = f->capture->graphs,
					       .gpus = f->capture->gpus,
					       .n_gpus = f->capture->n_gpus,
					       .name_length = attribution_name_length };
	struct store_error error;
	int r = strchr(f->options->capture_path, '%') ? expand_make_folders(path) : 0;

	if (r < 0) {
		say_usage("-o %s: %s", path, strerror(-r));
		return r;
	}
	r = store_create(&options, &error, ret);
	if (r != 0) {
		say_error(store_error_name(r), error.message, error.remedy);
	}
	return r;
}

/* Takes path. NULL: out of memory. */
static struct file *add_file(struct files *f, char *path)
{
	struct file *items = realloc(f->items, (f->n + 1) * sizeof(*items));

	if (!items) {
		free(path);
		return NULL;
	}
	f->items = items;
	items[f->n] = (struct file){ .path = path };
	return &items[f->n++];
}

bool files_open(struct files *f, const struct run_options *options,
		const struct format_capture *capture, const char *driver)
{
	struct file *file;
	char *path;

	f->options = options;
	f->capture = capture;
	f->driver = driver;
	if (!options->capture_path) {
		return true;
	}
	if (is_late(options)) {
		return true;
	}
	path = early_path(options);
	file = path ? add_file(f, path) : NULL;
	if (!file) {
		say_usage("out of memory");
		return false;
	}
	return create(f, file->path, &file->store) == 0;
}

/* --- a process's file ------------------------------------------------------------------------ */

static bool grow(struct files *f, unsigned process)
{
	size_t *grown;

	if (process < f->n_processes) {
		return true;
	}
	grown = realloc(f->of_process, ((size_t)process + 1) * sizeof(*grown));
	if (!grown) {
		return false;
	}
	memset(grown + f->n_processes, 0, (process + 1 - f->n_processes) * sizeof(*grown));
	f->of_process = grown;
	f->n_processes = (size_t)process + 1;
	return true;
}

static struct file *find_path(struct files *f, const char *path)
{
	for (size_t i = 0; i < f->n; i++) {
		if (strcmp(f->items[i].path, path) == 0) {
			return &f->items[i];
		}
	}
	return NULL;
}

/* The file of this name: one that exists already, or a new one. NULL: out of memory. */
static struct file *file_for(struct files *f, const struct claims *claims, unsigned pid)
{
	char *path = expand_pattern(f->options->capture_path, claims, (pid_t)pid);
	struct file *file = path ? find_path(f, path) : NULL;

	if (file || !path) {
		free(path);
		return file;
	}
	file = add_file(f, path);
	if (file && create(f, file->path, &file->store) != 0) {
		say("what is measured of process %u is not kept; the program goes on", pid);
		file->failed = true;
	}
	return file;
}

static struct file *file_of(struct files *f, unsigned process)
{
	if (process < f->n_processes && f->of_process[process] > 0) {
		return &f->items[f->of_process[process] - 1];
	}
	return NULL;
}

static void check(struct file *file, int r)
{
	const struct store_error *error;

	if (r == 0 || file->failed) {
		return;
	}
	file->failed = true;
	error = store_last_error(file->store);
	say_warning(store_error_name(error->code), error->message, error->remedy);
	say("the program goes on; the file keeps what was written before");
}

/* Reopens a file. False: it cannot be written to. */
static bool wake(struct file *file)
{
	if (file->store && store_wake(file->store) != 0) {
		check(file, store_last_error(file->store)->code);
	}
	return file->store && store_last_error(file->store)->code == 0;
}

/* Closes the descriptor of a file whose processes have ended. */
static void rest(const struct files *f, struct file *file)
{
	if (file->store && file->running == 0 && is_late(f->options)) {
		check(file, store_rest(file->store));
	}
}

static void write_claims(struct file *file, unsigned process, const struct claims *claims)
{
	for (size_t i = 0; i < claims->n && file->store; i++) {
		check(file, store_write_claim(file->store, process, claims->items[i]));
	}
}

/* The first message of a process: chooses its file and writes its claims. */
static struct file *begin(struct files *f, const struct gpuctr_process *process)
{
	struct claims claims = { process->claims, process->n_claims };
	struct file *file;

	if (!f->options->capture_path || !grow(f, process->process)) {
		return NULL;
	}
	file = is_late(f->options) ? file_for(f, &claims, process->pid) : &f->items[0];
	if (file) {
		f->of_process[process->process] = (size_t)(file - f->items) + 1;
		file->processes++;
		file->running++;
		wake(file);
		write_claims(file, process->process, &claims);
	}
	return file;
}

/* --- records --------------------------------------------------------------------------------- */

void files_process(struct files *f, const struct gpuctr_process *process)
{
	struct file *file = file_of(f, process->process);

	file = file ? file : begin(f, process);
	if (file && file->store) {
		check(file, store_write_process(file->store, process));
	}
}

void files_record(struct files *f, const struct gpuctr_record *record,
		  const struct attribution *what)
{
	struct file *file = file_of(f, record->process);
	struct store_attribution columns;

	if (file && file->store) {
		if (what->scope) {
			attribution_columns(what, &columns);
			check(file, store_write_attribution(file->store, record, &columns));
		}
		check(file, store_write_record(file->store, record));
	} else if (f->options && f->options->capture_path) {
		f->unmade++;
	}
}

void files_stratum(struct files *f, const struct gpuctr_stratum *stratum)
{
	struct file *file = file_of(f, stratum->process);

	if (file && file->store) {
		check(file, store_write_stratum(file->store, stratum));
	}
}

static int write_estimates(struct store *s, const struct view *kernels, const struct group *row)
{
	int r = 0;

	for (size_t i = MEASURE_TIME + 1; r == 0 && i < kernels->n_measures; i++) {
		const struct measure *m = &kernels->measures[i];
		const struct estimate_total *t = &row->estimated->total[i];
		struct estimate e = fields_told(m, i, row);

		r = store_write_estimate(s, &(struct store_estimate){
						    .kernel = row->labels[0],
						    .metric = m->name,
						    .of = m->adds_up ? "sum" : "mean",
						    .kind = estimated_kind_name(e.kind),
						    .launches = (uint64_t)group_launches(row, true),
						    .measured = t->measured,
						    .without_error = t->once,
						    .unknown = t->unknown,
						    .value = e.value,
						    .error = e.error });
	}
	return r;
}

void files_estimates(struct files *f, const struct view *kernels)
{
	struct file *file = f->n == 1 && !is_late(f->options) ? &f->items[0] : NULL;

	for (size_t i = 0; file && file->store && i < kernels->n_rows; i++) {
		if (kernels->rows[i]->estimated) {
			check(file, write_estimates(file->store, kernels, kernels->rows[i]));
		}
	}
}

/* NULL: there is none. */
static struct file *file_of_samples(struct files *f)
{
	bool keeps = f->n > 0 && keeps_samples(f) && f->items[0].store;

	return keeps && !f->items[0].failed ? &f->items[0] : NULL;
}

static void tell_unkept(const struct files *f, const struct file *file)
{
	if (f->kept.unkept > 0) {
		say("%s keeps the first samples only, %llu samples and copies more were too many: "
		    "kernels behind them have values, which cannot be attributed again",
		    file->path, (unsigned long long)f->kept.unkept);
	}
}

void files_unsampled(struct files *f, const char *text, uint64_t sample_ns)
{
	struct file *file = f->n == 1 && !is_late(f->options) ? &f->items[0] : NULL;
	struct file *of_samples = file_of_samples(f);

	/* Here, because the end of a capture may never come. */
	if (of_samples) {
		check(of_samples, kept_flush(&f->kept, of_samples->store));
		tell_unkept(f, of_samples);
	}
	if (file && file->store) {
		check(file, store_write_unsampled(file->store, text, sample_ns));
	}
}

void files_mark(struct files *f, const struct gpuctr_mark *mark)
{
	struct file *file = file_of(f, mark->process);

	if (file && file->store) {
		check(file, store_write_mark(file->store, mark));
	}
}

void files_image(struct files *f, const struct gpuctr_image *image)
{
	struct file *file = file_of(f, image->process);

	if (file && file->store) {
		check(file, store_write_image(file->store, image));
	}
}

void files_sample(struct files *f, const struct kept_sample *sample)
{
	struct file *file = file_of_samples(f);

	if (file) {
		f->kept.n_metrics = f->capture->plan->n_metrics;
		check(file, kept_sample(&f->kept, file->store, sample));
	}
}

void files_copy(struct files *f, const struct gpuctr_copy *copy)
{
	struct file *file = file_of_samples(f);

	if (file) {
		check(file, kept_copy(&f->kept, file->store, copy));
	}
}

void files_unknown(struct files *f, const struct store_unknown *unknown)
{
	struct file *file = file_of_samples(f);

	if (file) {
		check(file, store_write_unknown(file->store, unknown));
	}
}

/* A notice about no process goes to all files. */
void files_notice(struct files *f, const struct gpuctr_notice *notice)
{
	struct file *of_process = file_of(f, notice->process);

	for (size_t i = 0; i < f->n; i++) {
		struct file *file = &f->items[i];

		if ((!of_process || of_process == file) && wake(file)) {
			check(file, store_write_notice(file->store, notice));
			rest(f, file);
		}
	}
}

void files_process_end(struct files *f, const struct gpuctr_process_end *end)
{
	struct file *file = file_of(f, end->process);

	if (!file) {
		return;
	}
#define ADD_TOTAL(name) file->totals.name += end->totals.name;
	GPUCTR_TOTALS(ADD_TOTAL)
#undef ADD_TOTAL
	if (file->store) {
		check(file, store_write_process_end(file->store, end));
	}
	file->running -= file->running > 0;
	rest(f, file);
}

void files_flush(struct files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].store) {
			check(&f->items[i], store_tick(f->items[i].store));
		}
	}
}

void files_end(struct files *f, const struct gpuctr_end *end)
{
	for (size_t i = 0; i < f->n; i++) {
		struct file *file = &f->items[i];
		struct gpuctr_end part = *end;

		if (is_late(f->options)) {
			part.totals = file->totals;
			part.processes = file->processes;
		}
		if (wake(file)) {
			check(file, store_finish(file->store, &part));
			rest(f, file);
		}
	}
}

void files_write_names(const struct files *f, const char *node, FILE *out)
{
	for (size_t i = 0; i < f->n; i++) {
		const char *path = f->items[i].path;
		struct stat st;

		/* A name with an end of a line in it is left out. */
		if (f->items[i].store && !strpbrk(path, "\t\n") && stat(path, &st) == 0) {
			fprintf(out, "file\t%s\t%ju\t%jd\t%jd.%09ld\t%s\n", node,
				(uintmax_t)st.st_ino, (intmax_t)st.st_size,
				(intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, path);
		}
	}
}

size_t files_made(const struct files *f, const char **ret_first)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].store && !f->items[i].failed) {
			*ret_first = n++ == 0 ? f->items[i].path : *ret_first;
		}
	}
	return n;
}

uint64_t files_unsaved(const struct files *f)
{
	uint64_t unsaved = f->unmade;

	for (size_t i = 0; i < f->n; i++) {
		unsaved += f->items[i].store ? store_unsaved(f->items[i].store) : 0;
	}
	return unsaved;
}

bool files_are_whole(const struct files *f)
{
	bool whole = files_unsaved(f) == 0;

	for (size_t i = 0; i < f->n; i++) {
		whole &= !f->items[i].failed;
	}
	return whole;
}

void files_close(struct files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		store_close(f->items[i].store);
		free(f->items[i].path);
	}
	kept_deinit(&f->kept);
	free(f->items);
	free(f->of_process);
	*f = (struct files){ 0 };
}
