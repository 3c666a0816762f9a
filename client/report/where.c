/* SPDX-License-Identifier: Apache-2.0 */

/* A condition matches the label that groups would give the record. Records with the same labels
 * share a leaf of groups, which keeps the result. */

#include "client/report/where.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/groups_internal.h"

struct condition {
	char *text;   /* "op=conv" */
	unsigned key; /* index of the key in the groups */
	regex_t regex;
};

struct where {
	struct keys keys;
	struct groups *groups; /* made at the first capture, for labels; nothing is added up */
	struct condition *conditions;
	size_t n;
};

struct where *where_new(void)
{
	struct where *w = calloc(1, sizeof(*w));

	if (w) {
		w->keys.nested = -1;
	}
	return w;
}

struct where *where_free(struct where *w)
{
	for (size_t i = 0; w && i < w->n; i++) {
		regfree(&w->conditions[i].regex);
		free(w->conditions[i].text);
	}
	if (w) {
		groups_free(w->groups);
		free(w->conditions);
		free(w);
	}
	return NULL;
}

/* --- conditions ------------------------------------------------------------------------------ */

/* Returns the index of the key among the keys that conditions use, after adding it if needed. */
static int take_key(struct where *w, const char *text, size_t n, unsigned *ret, struct buf *why)
{
	struct keys one = { 0 };
	char *name = strndup(text, n);
	bool ok = name && keys_parse(name, &one, why);
	int r = ok ? 0 : name ? -EINVAL : -ENOMEM;

	free(name);
	if (r == 0 && (one.n != 1 || one.nvtx_depth > 0)) {
		buf_text(why, "a condition has one key, and nvtx stands for all levels: it takes "
			      "no depth");
		return -EINVAL;
	}
	for (*ret = 0; r == 0 && *ret < w->keys.n && w->keys.keys[*ret] != one.keys[0]; (*ret)++) {
	}
	if (r == 0 && *ret == w->keys.n && w->keys.n == KEYS_MAX) {
		buf_printf(why, "at most %d keys can be given", KEYS_MAX);
		return -EINVAL;
	}
	if (r == 0 && *ret == w->keys.n) {
		w->keys.keys[w->keys.n++] = one.keys[0];
	}
	return r;
}

static int compile(struct condition *c, const char *pattern, struct buf *why)
{
	char text[128];
	int e = regcomp(&c->regex, pattern, REG_EXTENDED | REG_NOSUB);

	if (e == 0) {
		return 0;
	}
	regerror(e, &c->regex, text, sizeof(text));
	buf_char(why, '\'');
	text_terminal(why, pattern);
	buf_printf(why, "' is not a regular expression: %s", text);
	return e == REG_ESPACE ? -ENOMEM : -EINVAL;
}

int where_add(struct where *w, const char *text, struct buf *why)
{
	const char *equals = strchr(text, '=');
	struct condition *conditions, *c;
	int r;

	if (!equals) {
		buf_char(why, '\'');
		text_terminal(why, text);
		buf_text(why, "' is not KEY=REGEX; for example: op=conv");
		return -EINVAL;
	}
	conditions = realloc(w->conditions, (w->n + 1) * sizeof(*conditions));
	if (!conditions) {
		return -ENOMEM;
	}
	w->conditions = conditions;
	c = &conditions[w->n];
	*c = (struct condition){ 0 };
	r = take_key(w, text, (size_t)(equals - text), &c->key, why);
	r = r ? r : compile(c, equals + 1, why);
	if (r) {
		return r;
	}
	w->n++;
	c->text = strdup(text);
	return c->text ? 0 : -ENOMEM;
}

bool where_is_empty(const struct where *w)
{
	return w->n == 0;
}

void where_print(const struct where *w, struct buf *b)
{
	for (size_t i = 0; i < w->n; i++) {
		buf_text(b, i > 0 ? " and " : "");
		text_terminal(b, w->conditions[i].text);
	}
}

/* --- what comes ------------------------------------------------------------------------------ */

int where_begin(struct where *w, const char *name, const char *host)
{
	static const struct gpuctr_plan plan = { 0 };
	int r;

	w->groups = w->groups ? w->groups : groups_new(&w->keys);
	r = w->groups ? groups_begin(w->groups, &plan, name, NULL) : -ENOMEM;
	return r ? r : groups_host(w->groups, host);
}

int where_process(struct where *w, const struct gpuctr_process *process)
{
	return groups_process(w->groups, process);
}

static bool all_hold(const struct where *w, const void *const *labels)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct condition *c = &w->conditions[i];

		if (regexec(&c->regex, labels[c->key], 0, NULL, 0) != 0) {
			return false;
		}
	}
	return true;
}

int where_record(struct where *w, const struct gpuctr_record *record,
		 const struct attribution *what, bool *ret)
{
	const struct groups_launch *launch = groups_find(w->groups, record, what);
	struct leaf *leaf = launch ? launch->leaf : NULL;

	if (leaf && leaf->wanted == WANTED_UNKNOWN) {
		leaf->wanted = all_hold(w, leaf->dims) ? WANTED : UNWANTED;
	}
	*ret = leaf && leaf->wanted == WANTED;
	return leaf ? 0 : -ENOMEM;
}
