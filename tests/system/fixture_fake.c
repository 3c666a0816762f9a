/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <unistd.h>

#include "tests/system/fixture.h"

/* The fixture's calls of the fake driver, by fakectl and by files in the fake's folder. */

/* Returns what fakectl prints; the caller frees it. Leaks of fakectl are not checked, because the
 * check takes time and tests set knobs at exact moments. */
static char *ask_fake(struct fixture *f, const char *verb, const char *name, const char *value)
{
	bool checks = fixture_check_leaks(false);
	struct program *p = fixture_run(f, USER_SELF, TEST_FAKECTL, verb, name, value, NULL);
	char *text;

	fixture_check_leaks(checks);
	expect_exit(p, 0);
	text = read_file(p->out);
	f->n_programs--; /* its place is used again */
	unlink(p->out);
	return text;
}

void fixture_set_knob(struct fixture *f, const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	free(ask_fake(f, "set", name, text));
}

void fixture_set_process(const struct fixture *f, int gpu, pid_t pid)
{
	char text[64] = "";

	if (pid != 0) {
		snprintf(text, sizeof(text), "%d %d\n", gpu, (int)pid);
	}
	fixture_write(f, "nvml_processes", text);
}

int fixture_knob(struct fixture *f, const char *name)
{
	CLEAN_FREE char *text = ask_fake(f, "get", name, NULL);

	return (int)strtol(text, NULL, 10);
}

uint64_t fixture_counter(struct fixture *f, const char *name)
{
	CLEAN_FREE char *text = ask_fake(f, "counters", NULL, NULL);
	const char *line = strstr(text, name);

	assert_non_null(line);
	return strtoull(line + strlen(name), NULL, 10);
}

size_t fixture_count(struct fixture *f, const char *verb, const char *text)
{
	CLEAN_FREE char *lines = ask_fake(f, verb, NULL, NULL);
	char *save = NULL;
	size_t n = 0;

	for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		n += strstr(line, text) != NULL;
	}
	return n;
}

/* True when fakectl prints nothing for this verb. */
static bool fake_has_none(struct fixture *f, const char *verb)
{
	CLEAN_FREE char *text = ask_fake(f, verb, NULL, NULL);

	return text[0] == '\0';
}

/* Within a second on a machine that does nothing else: how soon is r8's to say. */
static void expect_none(struct fixture *f, const char *verb)
{
	uint64_t by = now_ms() + (getenv("GPUCTR_TEST_FULL") ? 1000 : PATIENCE_MS);

	while (!fake_has_none(f, verb)) {
		if (now_ms() >= by) {
			CLEAN_FREE char *text = ask_fake(f, verb, NULL, NULL);

			print_error("%s", text);
			fail_msg("the fake driver still has %s", verb);
		}
		sleep_ms(10);
	}
}

void expect_no_owner(struct fixture *f)
{
	expect_none(f, "owners");
}

void expect_no_objects(struct fixture *f)
{
	expect_none(f, "objects");
}

/* --- programs that wait --- */

/* Calls act for each program that waits at its place, and counts them. */
static size_t for_each_held(const struct fixture *f, int (*act)(const char *path))
{
	DIR *folder = opendir(f->folder);
	struct dirent *entry;
	size_t n = 0;

	while (folder && (entry = readdir(folder))) {
		if (strncmp(entry->d_name, "held.", 5) == 0) {
			n++;
			if (act) {
				act(fixture_path(f, entry->d_name));
			}
		}
	}
	if (folder) {
		closedir(folder);
	}
	return n;
}

void fixture_wait_held(struct fixture *f, size_t n)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (for_each_held(f, NULL) < n) {
		if (now_ms() >= by) {
			fail_msg("%zu of %zu programs wait at their places", for_each_held(f, NULL),
				 n);
		}
		sleep_ms(2);
	}
}

void fixture_release(struct fixture *f)
{
	for_each_held(f, unlink);
}
