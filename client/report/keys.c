/* SPDX-License-Identifier: Apache-2.0 */

/* Names of keys. */

#include "client/report/keys.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "proto/base/near.h"

static const char *const names[] = {
	[KEY_KERNEL] = "kernel",   [KEY_NVTX] = "nvtx",	      [KEY_RANGE] = "range",
	[KEY_OP] = "op",	   [KEY_LAYER] = "layer",     [KEY_SHAPE] = "shape",
	[KEY_DIR] = "dir",	   [KEY_STEP] = "step",	      [KEY_DEVICE] = "device",
	[KEY_PROCESS] = "process", [KEY_STREAM] = "stream",   [KEY_THREAD] = "thread",
	[KEY_GRAPH] = "graph",	   [KEY_CAPTURE] = "capture", [KEY_RANK] = "rank",
	[KEY_TASK] = "task",	   [KEY_HOST] = "host",	      [KEY_END] = NULL,
};

const char *keys_name(enum key key)
{
	return names[key];
}

static bool refuse_unknown(struct buf *why, const char *word)
{
	const char *near = near_word(word, names);

	buf_text(why, "there is no key '");
	text_terminal(why, word);
	buf_printf(why, "'; %s%s%s", near ? "did you mean '" : "the keys are ", near ? near : "",
		   near ? "'?" : "");
	for (size_t i = 0; !near && names[i]; i++) {
		buf_printf(why, "%s%s", i > 0 ? ", " : "", names[i]);
	}
	return false;
}

static bool parse_depth(const char *text, struct keys *keys, struct buf *why)
{
	char *end;
	unsigned long depth = strtoul(text, &end, 10);

	if (*text < '1' || *text > '9' || *end || depth > 10000) {
		buf_text(why, "the depth in 'nvtx:");
		text_terminal(why, text);
		buf_text(why, "' is not a number of at least 1");
		return false;
	}
	keys->nvtx_depth = (unsigned)depth;
	return true;
}

static bool parse_one(char *word, struct keys *keys, struct buf *why)
{
	char *colon = strchr(word, ':');
	int key = 0;

	if (colon) {
		*colon = '\0';
	}
	while (names[key] && strcmp(names[key], word) != 0) {
		key++;
	}
	if (!names[key]) {
		return refuse_unknown(why, word);
	}
	if (colon && key != KEY_NVTX) {
		buf_printf(why, "'%s' has no depth; only 'nvtx' has one", word);
		return false;
	}
	for (unsigned i = 0; i < keys->n; i++) {
		if (keys->keys[i] == (enum key)key) {
			buf_printf(why, "'%s' is given twice", word);
			return false;
		}
	}
	if (keys->n == KEYS_MAX) {
		buf_printf(why, "at most %d keys can be given", KEYS_MAX);
		return false;
	}
	if (keys->nested < 0 && (key == KEY_NVTX || key == KEY_OP || key == KEY_LAYER)) {
		keys->nested = (int)keys->n;
	}
	keys->keys[keys->n++] = (enum key)key;
	return !colon || parse_depth(colon + 1, keys, why);
}

bool keys_parse(const char *list, struct keys *ret, struct buf *why)
{
	char *copy = strdup(list), *rest = copy, *word;
	struct keys keys = { .nested = -1 };
	bool ok = copy != NULL;

	while (ok && (word = strsep(&rest, ","))) {
		ok = parse_one(word, &keys, why);
	}
	if (!copy) {
		buf_text(why, "out of memory");
	}
	free(copy);
	if (ok) {
		*ret = keys;
	}
	return ok;
}
