/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at and changes the fake driver of $GPUCTR_FAKE_DIR while programs use it.
 *
 *	fakectl set KNOB VALUE    fakectl get KNOB    fakectl counters
 *	fakectl objects           one line per object: file root parent object class pid holders
 *	fakectl owners            one line per owned GPU: gpu pid
 *	fakectl log               ioctl.log without the zeros behind it
 *
 * The real driver frees the objects of a file when its last descriptor closes. The fake does not
 * see closes: `objects` looks through /proc for the descriptors first and frees what nobody holds
 * (it must be able to read other users' /proc/PID/fd). holders is the number of descriptors. */

#include "tests/fake/state.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_HELD = 65536 };

static struct {
	uint64_t file;
	unsigned int holders;
} held[MAX_HELD];
static size_t held_count;

static void count_holder(uint64_t file)
{
	for (size_t i = 0; i < held_count; i++) {
		if (held[i].file == file) {
			held[i].holders++;
			return;
		}
	}
	if (held_count < MAX_HELD) {
		held[held_count].file = file;
		held[held_count++].holders = 1;
	}
}

static unsigned int holders_of(uint64_t file)
{
	for (size_t i = 0; i < held_count; i++) {
		if (held[i].file == file) {
			return held[i].holders;
		}
	}
	return 0;
}

/* By its name, which the kernel knows: stat() of a file on somebody's FUSE may never return. */
static bool is_memory_file(const char *path)
{
	static const char name[] = "/memfd:nvidiactl (deleted)";
	char text[sizeof(name)];

	return readlink(path, text, sizeof(text)) == sizeof(name) - 1 &&
	       memcmp(text, name, sizeof(name) - 1) == 0;
}

static void scan_process(const char *pid)
{
	char path[PATH_MAX];
	struct dirent *entry;
	struct stat info;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	fds = opendir(path);
	while (fds && (entry = readdir(fds))) {
		snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, entry->d_name);
		if (is_memory_file(path) && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
		    info.st_size == FAKE_CONTROL_FILE_BYTES) {
			count_holder(info.st_ino);
		}
	}
	if (fds) {
		closedir(fds);
	}
}

static void scan_processes(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
			scan_process(entry->d_name);
		}
	}
	if (proc) {
		closedir(proc);
	}
}

static int show_objects(struct fake_state *st)
{
	scan_processes();
	fake_lock(st);
	for (uint32_t i = 0; i < FAKE_MAX_OBJECTS; i++) {
		struct fake_object *o = &st->objects[i];

		if (o->used && !holders_of(o->file)) {
			fake_object_remove(st, o);
		}
		if (o->used) {
			printf("%llu 0x%x 0x%x 0x%x 0x%x %d %u\n", (unsigned long long)o->file,
			       o->h_root, o->h_parent, o->h_object, o->h_class, o->pid,
			       holders_of(o->file));
		}
	}
	fake_unlock(st);
	return 0;
}

static int show_owners(struct fake_state *st)
{
	for (int gpu = 0; gpu < FAKE_MAX_GPUS; gpu++) {
		if (!fake_gpu_is_free(gpu)) {
			printf("%d %d\n", gpu, st->owners[gpu].pid);
		}
	}
	return 0;
}

static int show_counters(const struct fake_state *st)
{
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{ "allocs", st->counters.allocs },
		{ "profiler_allocs", st->counters.profiler_allocs },
		{ "profiler_granted", st->counters.profiler_granted },
		{ "profiler_refused", st->counters.profiler_refused },
		{ "frees", st->counters.frees },
		{ "frees_not_found", st->counters.frees_not_found },
		{ "malformed", st->counters.malformed },
		{ "foreign", st->counters.foreign },
		{ "violations", st->counters.violations },
		{ "log_lost", st->counters.log_lost },
		{ "hangs", st->counters.hangs },
		{ "untraced_captures", st->counters.untraced_captures },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		printf("%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
	}
	return 0;
}

static int show_log(void)
{
	char path[PATH_MAX], line[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/ioctl.log", getenv("GPUCTR_FAKE_DIR"));
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file) && line[0]) {
		fputs(line, stdout);
	}
	return file ? fclose(file) : 1;
}

/* Writes the file as well, so that a process that starts later does not bring the old value
 * back. */
static int set_knob(struct fake_state *st, const char *name, const char *value)
{
	_Atomic int32_t *knob = fake_knob(st, name);
	char path[PATH_MAX];
	FILE *file;

	if (!knob) {
		return 1;
	}
	snprintf(path, sizeof(path), "%s/%s", getenv("GPUCTR_FAKE_DIR"), name);
	file = fopen(path, "we");
	if (!file) {
		return 1;
	}
	fprintf(file, "%s\n", value);
	fclose(file);
	atomic_store(knob, (int32_t)strtol(value, NULL, 0));
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	struct fake_state *st = fake_state();

	if (!getenv("GPUCTR_FAKE_DIR")) {
		fprintf(stderr, "fakectl: GPUCTR_FAKE_DIR is not set\n");
		return 2;
	}
	if (strcmp(verb, "set") == 0 && argc == 4) {
		return set_knob(st, argv[2], argv[3]);
	}
	if (strcmp(verb, "get") == 0 && argc == 3 && fake_knob(st, argv[2])) {
		printf("%d\n", *fake_knob(st, argv[2]));
		return 0;
	}
	if (strcmp(verb, "objects") == 0) {
		return show_objects(st);
	}
	if (strcmp(verb, "owners") == 0) {
		return show_owners(st);
	}
	if (strcmp(verb, "counters") == 0) {
		return show_counters(st);
	}
	if (strcmp(verb, "log") == 0) {
		return show_log();
	}
	fprintf(stderr, "usage: fakectl set|get|counters|objects|owners|log ...\n");
	return 2;
}
