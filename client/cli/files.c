/* SPDX-License-Identifier: Apache-2.0 */

/* The pattern of -o becomes one file when none of its letters depends on a process; files_open()
 * creates it. Otherwise files_process() expands the pattern for each process, and processes of the
 * same name share a file. Such a file is closed when its last process has ended, and reopened for
 * later writes (a later process of the same name, a notice to all files, the end), so that there
 * may be more files than descriptors. Numbers of processes are small and dense. */

#include "client/cli/files_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/expand.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"

bool file_is_late(const struct run_options *o)
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

bool files_spare_recording(const struct run_options *o, const char *option, const char *path)
{
	for (size_t i = 1; o->recorded && o->command[i]; i++) {
		if (!outfile_spares(option, path, o->command[i])) {
			return false;
		}
	}
	return true;
}

/* Refuses a path whose file this run also writes or reads by another name. A path of -o may only be
 * known when a process comes. */
static bool spares_others(const struct run_options *o, const char *path)
{
	if (o->stream_path && outfile_is_same(path, o->stream_path)) {
		say_usage("-o %s and --stream=%s name the same file: give one of them another name",
			  path, o->stream_path);
		return false;
	}
	return files_spare_recording(o, "-o", path);
}

/* May -f replace this file? Not if processes have chosen its name and belong to another user, who
 * would then choose which of the client's files is replaced. */
static bool may_replace(const struct files *f, const char *path)
{
	struct stat st;

	if (!f->options->force || !file_is_late(f->options) || !f->capture->is_foreign ||
	    lstat(path, &st) < 0) {
		return true;
	}
	say_usage("-o %s: this file exists, and a process of another user chose that name, so -f "
		  "does not replace it: remove the file, or name an empty folder in -o",
		  path);
	return false;
}

bool files_check(const struct run_options *o)
{
	struct store_error error;
	char *path;
	int r = 0;

	if (!o->capture_path) {
		return true;
	}
	if (file_is_late(o)) {
		return check_folder(o);
	}
	path = early_path(o);
	/* Makes folders only if the pattern has letters. */
	if (path && strchr(o->capture_path, '%')) {
		r = expand_make_folders(path);
	}
	if (!path || r < 0) {
		say_usage("-o %s: %s", path ? path : o->capture_path, strerror(path ? -r : ENOMEM));
		free(path);
		return false;
	}
	if (!spares_others(o, path)) {
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

/* The options to create a file; path NULL: a temporary one. */
static struct store_options options_of(const struct files *f, const char *path)
{
	return (struct store_options){ .path = path,
				       .force = f->options->force,
				       .plan = f->capture->plan,
				       .command = f->capture->command,
				       .driver = f->driver,
				       .version = gpuctr_version(),
				       .sampled = f->capture->sampled,
				       .keeps_samples = !path || f->capture->sampled,
				       .graphs = f->capture->graphs,
				       .gpus = f->capture->gpus,
				       .n_gpus = f->capture->n_gpus };
}

static int create(struct files *f, const char *path, struct store **ret)
{
	const struct store_options options = options_of(f, path);
	struct store_error error;
	int r = strchr(f->options->capture_path, '%') ? expand_make_folders(path) : 0;

	if (r < 0) {
		say_usage("-o %s: %s", path, strerror(-r));
		return r;
	}
	if (!spares_others(f->options, path) || !may_replace(f, path)) {
		return -EEXIST;
	}
	r = store_create(&options, &error, ret);
	if (r != 0) {
		say_error(store_error_name(r), error.message, error.remedy);
	}
	return r;
}

/* Adds a file, which takes path; path NULL: a temporary one. Returns NULL if out of memory. */
static struct file *add_file(struct files *f, char *path)
{
	struct file *items = realloc(f->items, (f->n + 1) * sizeof(*items));

	if (!items) {
		free(path);
		return NULL;
	}
	f->items = items;
	items[f->n] =
		(struct file){ .path = path, .is_of_all = !path || !file_is_late(f->options) };
	return &items[f->n++];
}

static bool open_early(struct files *f)
{
	char *path = early_path(f->options);
	struct file *file = path ? add_file(f, path) : NULL;

	if (!file) {
		say_usage("out of memory");
		return false;
	}
	return create(f, file->path, &file->store) == 0;
}

/* Creates the temporary file. A sampled run needs it, because values are only known at the end.
 * False: the reason was reported. */
static bool record_aside(struct files *f)
{
	const struct store_options options = options_of(f, NULL);
	struct store_error error = { 0 };
	struct store *store;

	if (store_create(&options, &error, &store) == 0) {
		struct file *file = add_file(f, NULL);

		if (file) {
			file->store = store;
			return true;
		}
		store_close(store);
	}
	if (f->capture->sampled) {
		say_error(store_error_name(error.code), error.message, error.remedy);
		return false;
	}
	say_warning(store_error_name(error.code), error.message, error.remedy);
	say("the program is measured all the same: there is no table at the end");
	return true;
}

bool files_open(struct files *f, const struct run_options *options,
		const struct format_capture *capture, const char *driver)
{
	f->options = options;
	f->capture = capture;
	f->driver = driver;
	if (options->capture_path && !file_is_late(options)) {
		return open_early(f);
	}
	return (options->capture_path && !capture->sampled) || record_aside(f);
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
		if (f->items[i].path && strcmp(f->items[i].path, path) == 0) {
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

struct file *file_of(const struct files *f, unsigned process)
{
	if (process < f->n_processes && f->of_process[process] > 0) {
		return &f->items[f->of_process[process] - 1];
	}
	return NULL;
}

void file_check(struct file *file, int r)
{
	const struct store_error *error;

	if (r == 0 || file->failed) {
		return;
	}
	file->failed = true;
	error = store_last_error(file->store);
	say_warning(store_error_name(error->code), error->message, error->remedy);
	say(!file->path ? "the program goes on; what was recorded before is reported at its end"
			: "the program goes on; the file keeps what was written before");
}

bool file_wake(struct file *file)
{
	if (file->store && store_wake(file->store) != 0) {
		file_check(file, store_last_error(file->store)->code);
	}
	return file->store && store_last_error(file->store)->code == 0;
}

void file_rest(struct file *file)
{
	if (file->store && file->running == 0 && !file->is_of_all) {
		file_check(file, store_rest(file->store));
	}
}

/* Chooses the file of a process, at its first message. */
static void begin(struct files *f, const struct gpuctr_process *process,
		  const struct claims *claims)
{
	struct file *file;

	if (!grow(f, process->process)) {
		return;
	}
	file = file_is_late(f->options) ? file_for(f, claims, process->pid) : file_of_all(f);
	if (file) {
		f->of_process[process->process] = (size_t)(file - f->items) + 1;
		file->processes++;
		file->running++;
		file_wake(file);
	}
}

enum { FILES_OF_PROCESS = 2 };

/* Fills ret with the files that get this process's messages. Returns their number. */
static size_t files_of(const struct files *f, unsigned process, struct file *ret[FILES_OF_PROCESS])
{
	struct file *own = file_of(f, process), *all = file_of_all(f);
	size_t n = 0;

	if (all && all->store) {
		ret[n++] = all;
	}
	if (own && own != all && own->store) {
		ret[n++] = own;
	}
	return n;
}

/* --- records --------------------------------------------------------------------------------- */

void files_process(struct files *f, const struct gpuctr_process *process)
{
	const struct claims claims = { process->claims, process->n_claims };
	bool is_new = !file_of(f, process->process);
	struct file *to[FILES_OF_PROCESS];
	size_t n;

	if (is_new) {
		begin(f, process, &claims);
	}
	n = files_of(f, process->process, to);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; is_new && k < claims.n; k++) {
			file_check(to[i], store_write_claim(to[i]->store, process->process,
							    claims.items[k]));
		}
		file_check(to[i], store_write_process(to[i]->store, process));
	}
}

void files_record(struct files *f, const struct gpuctr_record *of_capture,
		  const struct attribution *what)
{
	struct gpuctr_record copy = *of_capture;
	const struct gpuctr_record *record = f->capture->sampled ? &copy : of_capture;
	const struct file *own = file_of(f, record->process);
	struct file *to[FILES_OF_PROCESS];
	size_t n = files_of(f, record->process, to);
	struct store_attribution columns;

	copy.values = copy.errors = NULL; /* a sampled run has values only at the end */
	attribution_columns(what, &columns);
	for (size_t i = 0; i < n; i++) {
		file_check(to[i], store_write_record(to[i]->store, record, &columns));
	}
	f->unmade += f->options && f->options->capture_path && !(own && own->store);
}

void files_mark(struct files *f, const struct gpuctr_mark *mark)
{
	struct file *to[FILES_OF_PROCESS];
	size_t n = files_of(f, mark->process, to);

	for (size_t i = 0; i < n; i++) {
		file_check(to[i], store_write_mark(to[i]->store, mark));
	}
}

void files_image(struct files *f, const struct gpuctr_image *image)
{
	struct file *to[FILES_OF_PROCESS];
	size_t n = files_of(f, image->process, to);

	for (size_t i = 0; i < n; i++) {
		file_check(to[i], store_write_image(to[i]->store, image));
	}
}

/* A notice about no process goes to all files. */
void files_notice(struct files *f, const struct gpuctr_notice *notice)
{
	struct file *of_process = file_of(f, notice->process);

	for (size_t i = 0; i < f->n; i++) {
		struct file *file = &f->items[i];

		if ((!of_process || of_process == file || file->is_of_all) && file_wake(file)) {
			file_check(file, store_write_notice(file->store, notice));
			file_rest(file);
		}
	}
}

void files_process_end(struct files *f, const struct gpuctr_process_end *end)
{
	struct file *own = file_of(f, end->process), *to[FILES_OF_PROCESS];
	size_t n = files_of(f, end->process, to);

	for (size_t i = 0; i < n; i++) {
		file_check(to[i], store_write_process_end(to[i]->store, end));
	}
	if (own) {
#define ADD_TOTAL(name) own->totals.name += end->totals.name;
		GPUCTR_TOTALS(ADD_TOTAL)
#undef ADD_TOTAL
		own->running -= own->running > 0;
		file_rest(own);
	}
}

void files_flush(struct files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].store) {
			file_check(&f->items[i], store_tick(f->items[i].store));
		}
	}
}

void files_end(struct files *f, const struct gpuctr_end *end)
{
	for (size_t i = 0; i < f->n; i++) {
		struct file *file = &f->items[i];
		struct gpuctr_end part = *end;

		if (!file->is_of_all) {
			part.totals = file->totals;
			part.processes = file->processes;
		}
		if (file_wake(file)) {
			file_check(file, store_finish(file->store, &part));
			file_rest(file);
		}
	}
}

void files_write_names(const struct files *f, const char *node, FILE *out)
{
	for (size_t i = 0; i < f->n; i++) {
		const char *path = f->items[i].path;
		struct stat st;

		/* A name with a tab or a newline is left out. */
		if (f->items[i].store && path && !strpbrk(path, "\t\n") && stat(path, &st) == 0) {
			fprintf(out, "file\t%s\t%ju\t%s\n", node, (uintmax_t)st.st_ino, path);
		}
	}
}

size_t files_made(const struct files *f, const char **ret_first)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].path && f->items[i].store && !f->items[i].failed) {
			*ret_first = n++ == 0 ? f->items[i].path : *ret_first;
		}
	}
	return n;
}

uint64_t files_unsaved(const struct files *f)
{
	uint64_t unsaved = f->unmade;

	for (size_t i = 0; i < f->n; i++) {
		/* A temporary file does not count beside files of the user. */
		bool counts = f->items[i].path || f->n == 1;

		unsaved += counts && f->items[i].store ? store_unsaved(f->items[i].store) : 0;
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
