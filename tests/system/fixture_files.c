/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/fixture.h"

/* The files of a test's folder, and what programs have written to them. */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void remove_folder(const char *path)
{
	nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fixture_path(const struct fixture *f, const char *name)
{
	static char paths[64][64 + 256]; /* the oldest is used again */
	static unsigned next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];

	snprintf(path, sizeof(paths[0]), "%s/%s", f->folder, name);
	return path;
}

const char *stream_to(const char *path)
{
	static char options[64][sizeof("--stream=") + 64 + 256]; /* the oldest is used again */
	static unsigned next;
	char *option = options[next++ % ARRAY_SIZE(options)];

	snprintf(option, sizeof(options[0]), "--stream=%s", path);
	return option;
}

const char *fixture_write(const struct fixture *f, const char *name, const char *text)
{
	const char *path = fixture_path(f, name), *written = fixture_path(f, "written");
	FILE *file = fopen(written, "we");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(rename(written, path), 0);
	return path;
}

char *read_file(const char *path)
{
	CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0, room = 65536;
	char *text = malloc(room + 1);
	ssize_t r = 0;

	while (fd >= 0 && (r = read(fd, text + n, room - n)) > 0) {
		n += (size_t)r;
		if (n == room) {
			text = realloc(text, 2 * room + 1);
			room *= 2;
		}
	}
	text[n] = '\0';
	return text;
}

size_t count_text(const char *path, const char *text)
{
	CLEAN_FREE char *content = read_file(path);
	size_t n = 0;

	for (const char *p = content; (p = strstr(p, text)) != NULL; p += strlen(text)) {
		n++;
	}
	return n;
}

static bool is_at(const char *p, const char *text)
{
	while (*text && (*p == *text || (*text == ' ' && *p == '\n'))) {
		p++;
		text++;
	}
	return *text == '\0';
}

size_t count_message(const char *path, const char *text)
{
	const char first[] = { text[0], text[0] == ' ' ? '\n' : '\0', '\0' };
	CLEAN_FREE char *content = read_file(path);
	size_t n = 0;

	for (const char *p = content; (p = strpbrk(p, first)) != NULL;) {
		bool found = is_at(p, text);

		n += found;
		p += found ? strlen(text) : 1;
	}
	return n;
}

void expect_text_soon(const char *path, const char *text)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (count_text(path, text) == 0) {
		if (now_ms() >= by) {
			CLEAN_FREE char *content = read_file(path);

			print_error("%s", content);
			fail_msg("%s: '%s' does not come", path, text);
		}
		sleep_ms(2);
	}
}

void fixture_use_sampler(struct fixture *f, const char *text)
{
	const char *path = fixture_write(f, "sampler", text);

	assert_int_equal(chmod(path, 0755), 0);
	setenv("GPUCTR_SAMPLER", path, 1);
}

void fixture_kill_sampler(const struct program *client, int signo)
{
	pid_t sampler = process_child(client->pid, "gpuctr-sampler");

	assert_true(sampler > 0);
	kill(sampler, signo);
}
