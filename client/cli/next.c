/* SPDX-License-Identifier: Apache-2.0 */

/* The end of a run with a file says how to look into it. Names are as a shell takes them: of
 * several files their pattern, with a star for each letter. */

#include "client/cli/next.h"

#include <ctype.h>
#include <string.h>

#include "client/cli/text.h"

static bool is_plain(const char *text)
{
	for (; *text; text++) {
		if (!isalnum((unsigned char)*text) && !strchr("/._-+:@%", *text)) {
			return false;
		}
	}
	return true;
}

static void add_quoted(struct buf *b, const char *text)
{
	if (is_plain(text)) {
		buf_text(b, text);
		return;
	}
	buf_char(b, '\'');
	for (; *text; text++) {
		if (*text == '\'') {
			buf_text(b, "'\\''");
		} else {
			buf_char(b, *text);
		}
	}
	buf_char(b, '\'');
}

/* Neither an option, nor what a terminal would obey. */
static void add_word(struct buf *b, const char *path)
{
	struct buf word = { 0 };

	buf_text(&word, *path == '-' ? "./" : "");
	add_quoted(&word, path);
	text_terminal(b, buf_string(&word));
	b->failed |= word.failed;
	buf_deinit(&word);
}

/* "rank*.gpuctr" of "rank%r.gpuctr" */
static void add_pattern(struct buf *b, const char *pattern)
{
	struct buf word = { 0 }, piece = { 0 };

	buf_text(&word, *pattern == '-' ? "./" : "");
	for (; *pattern; pattern++) {
		bool letter = *pattern == '%' && pattern[1] != '\0';

		pattern += letter;
		if (letter && *pattern != '%') {
			add_quoted(&word, buf_string(&piece));
			buf_char(&word, '*');
			buf_clear(&piece);
		} else {
			buf_char(&piece, *pattern);
		}
	}
	add_quoted(&word, buf_string(&piece));
	text_terminal(b, buf_string(&word));
	b->failed |= word.failed || piece.failed;
	buf_deinit(&word);
	buf_deinit(&piece);
}

static void add_page(struct buf *b, const char *path)
{
	static const char suffix[] = ".gpuctr";
	size_t n = strlen(path), end = n - (n < sizeof(suffix) - 1 ? n : sizeof(suffix) - 1);
	struct buf page = { 0 };

	buf_add(&page, path, strcmp(path + end, suffix) == 0 ? end : n);
	buf_text(&page, ".html");
	add_word(b, buf_string(&page));
	b->failed |= page.failed;
	buf_deinit(&page);
}

void next_add(const struct run_options *o, const struct files *files, struct buf *b)
{
	const char *first;
	size_t n = files_made(files, &first);

	if (n == 0 && !o->capture_path && !o->stream_path && !selector_is_empty(&o->selector)) {
		buf_text(b, "next: with -o FILE this is kept, for gpuctr-client report FILE\n");
	} else if (n == 1) {
		buf_text(b, "next: gpuctr-client report ");
		add_word(b, first);
		buf_text(b, " --by kernel,shape\n      gpuctr-client report ");
		add_word(b, first);
		buf_text(b, " --html ");
		add_page(b, first);
		buf_char(b, '\n');
	} else if (n > 1) {
		buf_text(b, "next: gpuctr-client report ");
		add_pattern(b, o->capture_path);
		buf_text(b, " --by rank,process\n");
	}
}
