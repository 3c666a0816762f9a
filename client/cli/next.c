/* SPDX-License-Identifier: Apache-2.0 */

/* The end of a run with a file says how to look into it. Names are as a shell takes them: of
 * several files their pattern, with a star for each letter. */

#include "client/cli/next.h"

#include <string.h>

#include "client/cli/text.h"

/* A path as one word of a shell, and neither an option nor what a terminal would obey. Of a pattern
 * each letter becomes a star, outside of the quotes. */
static void add_word(struct buf *b, const char *path, bool is_pattern)
{
	static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789/._-+:@%,=";
	bool quoted = path[strspn(path, harmless)] != '\0';
	CLEAN_BUF struct buf word = { 0 };

	buf_text(&word, *path == '-' ? "./" : "");
	buf_text(&word, quoted ? "'" : "");
	for (; *path; path++) {
		bool letter = is_pattern && *path == '%' && path[1] != '\0';

		path += letter;
		if (letter && *path != '%') {
			buf_text(&word, quoted ? "'*'" : "*");
		} else if (*path == '\'') {
			buf_text(&word, "'\\''");
		} else {
			buf_char(&word, *path);
		}
	}
	buf_text(&word, quoted ? "'" : "");
	text_terminal(b, buf_string(&word));
	b->failed |= word.failed;
}

static void add_page(struct buf *b, const char *path)
{
	static const char suffix[] = ".gpuctr";
	size_t n = strlen(path), end = n - (n < sizeof(suffix) - 1 ? n : sizeof(suffix) - 1);
	CLEAN_BUF struct buf page = { 0 };

	buf_add(&page, path, strcmp(path + end, suffix) == 0 ? end : n);
	buf_text(&page, ".html");
	add_word(b, buf_string(&page), false);
	b->failed |= page.failed;
}

void next_add(const struct run_options *o, const struct files *files, struct buf *b)
{
	const char *first;
	size_t n = files_made(files, &first);

	if (n == 0 && !o->capture_path && !o->stream_path && !selector_is_empty(&o->selector)) {
		buf_text(b, "next: with -o FILE this is kept, for gpuctr-client report FILE\n");
	} else if (n == 1) {
		buf_text(b, "next: gpuctr-client report ");
		add_word(b, first, false);
		buf_text(b, " --by kernel,shape\n      gpuctr-client report ");
		add_word(b, first, false);
		buf_text(b, " --html ");
		add_page(b, first);
		buf_char(b, '\n');
	} else if (n > 1) {
		buf_text(b, "next: gpuctr-client report ");
		add_word(b, o->capture_path, true);
		buf_text(b, " --by rank,process\n");
	}
}
