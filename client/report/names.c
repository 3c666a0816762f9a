/* SPDX-License-Identifier: Apache-2.0 */

/* Names are made different in three tries, each for those that look alike after the try before:
 *
 *	1. the name as text_kernel() cuts it, or its begin and end
 *	2. its begin, and what follows the position where the names that look alike differ
 *	3. its begin and a number, "~2", because names may differ at several distant positions, or
 *	   in nothing that can be seen
 *
 * The third try always succeeds, because some number is free. */

#include "client/report/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/texts.h"

enum { WORD_MAX = 20 };

struct naming {
	const char *const *texts;
	size_t n, width;
	bool kernels;
	char **shown;
	size_t *order; /* indices, sorted by shown name, then by position */
};

/* --- cutting --------------------------------------------------------------------------------- */

static const char *text_of(const struct naming *g, size_t i)
{
	return *g->texts[i] ? g->texts[i] : TEXT_UNKNOWN;
}

static char *show(const struct naming *g, const char *text)
{
	struct buf b = { 0 }, safe = { 0 };

	if (g->kernels) {
		text_kernel(&b, text, g->width);
	} else {
		text_terminal(&safe, text);
		text_middle_cut(&b, buf_string(&safe), (g->width - 2) / 3, g->width);
		b.failed |= safe.failed;
		buf_deinit(&safe);
	}
	return buf_take(&b);
}

/* The uncut name; if bare, without what C++ adds to names of kernels. */
static char *show_whole(const struct naming *g, const char *text, bool bare)
{
	CLEAN_BUF struct buf name = { 0 };
	struct buf b = { 0 };

	if (bare && g->kernels) {
		text_kernel_bare(&name, text);
		text_kernel_unwrap(&name);
	} else {
		buf_text(&name, text);
	}
	text_terminal(&b, buf_string(&name));
	b.failed |= name.failed;
	return buf_take(&b);
}

/* --- what looks alike ------------------------------------------------------------------------ */

static int compare(const void *a, const void *b, void *userdata)
{
	const struct naming *g = userdata;
	size_t i = *(const size_t *)a, j = *(const size_t *)b;
	int order = strcmp(g->shown[i], g->shown[j]);

	return order ? order : (i > j) - (i < j);
}

/* The index behind the names that look the same as order[at]. */
static size_t find_run(const struct naming *g, size_t at)
{
	size_t end = at + 1;

	while (end < g->n && strcmp(g->shown[g->order[at]], g->shown[g->order[end]]) == 0) {
		end++;
	}
	return end;
}

static void sort(struct naming *g)
{
	for (size_t i = 0; i < g->n; i++) {
		g->order[i] = i;
	}
	if (g->n > 1) {
		qsort_r(g->order, g->n, sizeof(*g->order), compare, g);
	}
}

/* --- the position where they differ ---------------------------------------------------------- */

/* Length of the beginning that all names share, cut at the begin of a word. */
static size_t common_prefix(char *const *names, size_t n_names)
{
	const char *first = names[0];
	size_t n = strlen(first), back = 0;

	for (size_t i = 1; i < n_names; i++) {
		size_t same = 0;

		while (same < n && first[same] == names[i][same]) {
			same++;
		}
		n = same;
	}
	while (n > 0 && ((unsigned char)first[n] & 0xc0) == 0x80) {
		n--;
	}
	while (back < WORD_MAX && back < n && !strchr("<>(,:/_ [", first[n - back - 1])) {
		back++;
	}
	return back < WORD_MAX ? n - back : n;
}

static void add_cut(struct buf *b, const char *text, size_t width)
{
	size_t n = strlen(text);

	if (text_width(text, n) <= width) {
		buf_text(b, text);
		return;
	}
	buf_add(b, text, text_fit(text, n, width - 2));
	buf_text(b, "..");
}

static char *show_difference(const struct naming *g, const char *whole, size_t prefix)
{
	const char *rest = whole + prefix;
	size_t n_rest = text_width(rest, strlen(rest)), head = (g->width - 2) / 2;
	struct buf b = { 0 };

	/* A short rest leaves room for more of the beginning. */
	if (head + n_rest + 2 < g->width) {
		head = g->width - 2 - n_rest;
	}
	if (text_width(whole, prefix) <= head) {
		buf_add(&b, whole, prefix);
	} else {
		buf_add(&b, whole, text_fit(whole, prefix, head));
		buf_text(&b, "..");
	}
	add_cut(&b, rest, g->width - (b.n ? text_width(b.data, b.n) : 0));
	return buf_take(&b);
}

/* Uncut names of the run from at to end. *ret_differ: they all differ. NULL: out of memory. */
static char **whole_names(const struct naming *g, size_t at, size_t end, bool bare,
			  bool *ret_differ)
{
	char **names = calloc(end - at, sizeof(*names));
	struct texts seen = { 0 };
	bool ok = names != NULL;

	for (size_t i = 0; ok && i < end - at; i++) {
		names[i] = show_whole(g, text_of(g, g->order[at + i]), bare);
		ok = names[i] && texts_add_string(&seen, names[i]);
	}
	*ret_differ = seen.known.n == end - at;
	texts_deinit(&seen);
	if (!ok) {
		names_free(names, names ? end - at : 0);
	}
	return ok ? names : NULL;
}

/* What C++ adds to a name is only shown if the names do not differ otherwise. */
static bool tell_run_apart(struct naming *g, size_t at, size_t end)
{
	bool differ, ok;
	char **names = whole_names(g, at, end, true, &differ);
	size_t prefix;

	if (names && !differ) {
		names_free(names, end - at);
		names = whole_names(g, at, end, false, &differ);
	}
	ok = names != NULL;
	prefix = ok ? common_prefix(names, end - at) : 0;
	for (size_t i = at; ok && i < end; i++) {
		/* Breaks the order by name, but find_run() does not look here again. */
		free(g->shown[g->order[i]]);
		g->shown[g->order[i]] = show_difference(g, names[i - at], prefix);
		ok = g->shown[g->order[i]] != NULL;
	}
	names_free(names, end - at);
	return ok;
}

static bool tell_apart(struct naming *g)
{
	bool ok = true;

	sort(g);
	for (size_t at = 0, end; at < g->n && ok; at = end) {
		end = find_run(g, at);
		ok = end == at + 1 || tell_run_apart(g, at, end);
	}
	return ok;
}

/* --- numbers --------------------------------------------------------------------------------- */

static char *show_number(const struct naming *g, const char *shown, size_t number)
{
	char mark[24];
	size_t n = (size_t)snprintf(mark, sizeof(mark), "~%zu", number);
	struct buf b = { 0 };

	buf_add(&b, shown, text_fit(shown, strlen(shown), g->width - n));
	buf_text(&b, mark);
	return buf_take(&b);
}

/* Adds a number to all names of a run but the first. */
static bool number_run(struct naming *g, size_t at, size_t end, struct texts *taken)
{
	const char *base = g->shown[g->order[at]];
	size_t number = 2, had;

	for (size_t i = at + 1; i < end; i++) {
		char *shown = NULL;

		do {
			free(shown);
			shown = show_number(g, base, number++);
			had = taken->known.n;
		} while (shown && texts_add_string(taken, shown) && taken->known.n == had);
		if (!shown) {
			return false;
		}
		free(g->shown[g->order[i]]);
		g->shown[g->order[i]] = shown;
	}
	return true;
}

static bool number(struct naming *g)
{
	struct texts taken = { 0 };
	bool ok = true;

	sort(g);
	for (size_t i = 0; i < g->n && ok; i++) {
		ok = texts_add_string(&taken, g->shown[i]) != NULL;
	}
	for (size_t at = 0, end; at < g->n && ok; at = end) {
		end = find_run(g, at);
		ok = number_run(g, at, end, &taken);
	}
	texts_deinit(&taken);
	return ok;
}

/* --- all ------------------------------------------------------------------------------------- */

static bool shorten(struct naming *g)
{
	bool ok;

	g->shown = calloc(g->n + 1, sizeof(char *));
	g->order = calloc(g->n + 1, sizeof(*g->order));
	ok = g->shown && g->order;
	for (size_t i = 0; i < g->n && ok; i++) {
		g->shown[i] = show(g, text_of(g, i));
		ok = g->shown[i] != NULL;
	}
	ok = ok && tell_apart(g) && number(g);
	free(g->order);
	return ok;
}

int names_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t names_sort_once(const char **texts, size_t n)
{
	size_t kept = 0;

	if (n > 0) {
		qsort(texts, n, sizeof(*texts), names_compare);
	}
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || strcmp(texts[kept - 1], texts[i]) != 0) {
			texts[kept++] = texts[i];
		}
	}
	return kept;
}

/* The shown name of each text, copied from those of the distinct texts. NULL: out of memory. */
static char **give_each(const struct naming *g, const char *const *texts, size_t n)
{
	char **shown = calloc(n + 1, sizeof(*shown));
	bool ok = shown != NULL;

	for (size_t i = 0; i < n && ok; i++) {
		const char *const *found =
			bsearch(&texts[i], g->texts, g->n, sizeof(*g->texts), names_compare);

		shown[i] = strdup(g->shown[found - g->texts]);
		ok = shown[i] != NULL;
	}
	if (!ok) {
		names_free(shown, n);
	}
	return ok ? shown : NULL;
}

char **names_shorten(const char *const *texts, size_t n, size_t width, bool kernels)
{
	const char **different = calloc(n + 1, sizeof(*different));
	struct naming g = { .texts = different,
			    .width = width < NAMES_MIN_WIDTH ? NAMES_MIN_WIDTH : width,
			    .kernels = kernels };
	char **shown;

	for (size_t i = 0; different && i < n; i++) {
		different[i] = texts[i];
	}
	g.n = different ? names_sort_once(different, n) : 0;
	shown = different && shorten(&g) ? give_each(&g, texts, n) : NULL;
	names_free(g.shown, g.n);
	free(different);
	return shown;
}

void names_free(char **shown, size_t n)
{
	for (size_t i = 0; shown && i < n; i++) {
		free(shown[i]);
	}
	free(shown);
}
