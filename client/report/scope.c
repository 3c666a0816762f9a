/* SPDX-License-Identifier: Apache-2.0 */

/* The tree of scopes: a hash set over (parent, domain, name, sizes, kind).
 *
 * A scope's path and layer repeat those of the scopes around it, and a program may nest any number
 * of ranges, with messages of 16 kB. So both are cut: a name without room becomes "..", and a scope
 * within a full one has the same path as that. Scopes themselves stay distinct. */

#include "client/report/scope.h"

#include <string.h>

#include "client/report/sizes.h"
#include "proto/base/buf.h"

enum { MAX_SIZES_BYTES = 256, MAX_PATH_BYTES = 2048, MAX_DEPTH = 1 << 12 };

void scopes_deinit(struct scopes *s)
{
	texts_deinit(&s->texts);
	map_deinit(&s->known);
	memset(s, 0, sizeof(*s));
}

/* --- what a scope says with those around it -------------------------------------------------- */

static const char *join(struct scopes *s, const char *left, char separator, const char *right)
{
	CLEAN_BUF struct buf b = { 0 };

	if (!*left) {
		return right;
	}
	buf_text(&b, left);
	buf_char(&b, separator);
	buf_text(&b, right);
	return b.failed ? NULL : texts_add(&s->texts, b.data, b.n);
}

/* Cuts a text between characters. */
static const char *cut(struct scopes *s, const char *text)
{
	char part[MAX_PATH_BYTES + sizeof("..")];
	size_t n = MAX_PATH_BYTES;

	if (!text || strlen(text) <= MAX_PATH_BYTES + 2) {
		return text;
	}
	while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
		n--;
	}
	memcpy(part, text, n);
	memcpy(part + n, "..", 3);
	return texts_add_string(&s->texts, part);
}

static const char *extend(struct scopes *s, const char *outer, const char *name)
{
	size_t n = strlen(outer);

	if (n == 0) {
		return cut(s, name);
	}
	if (n >= MAX_PATH_BYTES) {
		return outer;
	}
	return join(s, outer, '/', n + 1 + strlen(name) > MAX_PATH_BYTES ? ".." : name);
}

/* A module's name often begins with that of the module around it: "layer1", "layer1.0". */
static const char *find_layer(struct scopes *s, const struct scope *scope)
{
	const char *outer = scope->parent ? scope->parent->layer : "";
	const char *last = strrchr(outer, '/');
	size_t n;

	if (scope->kind != GPUCTR_SITE_LABEL) {
		return outer;
	}
	last = last ? last + 1 : outer;
	n = strlen(last);
	if (n > 0 && strncmp(scope->name, last, n) == 0 && scope->name[n] == '.') {
		CLEAN_BUF struct buf b = { 0 };
		const char *text;

		buf_add(&b, outer, (size_t)(last - outer));
		buf_text(&b, scope->name);
		text = b.failed ? NULL : texts_add(&s->texts, b.data, b.n);
		return cut(s, text);
	}
	return extend(s, outer, scope->name);
}

static bool derive(struct scopes *s, struct scope *scope)
{
	const struct scope *parent = scope->parent;

	scope->label = join(s, scope->domain, ':', scope->name);
	if (!scope->label) {
		return false;
	}
	scope->depth = parent ? parent->depth + 1 : 0;
	scope->op = scope->kind >= GPUCTR_SITE_OPERATOR ? scope : parent ? parent->op : NULL;
	scope->path = parent ? extend(s, parent->path, scope->label) : cut(s, scope->label);
	scope->layer = find_layer(s, scope);
	scope->step = scope->kind == GPUCTR_SITE_STEP ? scope->name : parent ? parent->step : "";
	scope->backward = (parent && parent->backward) || scope->kind == GPUCTR_SITE_NODE ||
			  scope->kind == GPUCTR_SITE_ENGINE;
	scope->optimizer = (parent && parent->optimizer) ||
			   strncmp(scope->name, "Optimizer.", strlen("Optimizer.")) == 0;
	return scope->path && scope->layer;
}

/* --- the set --------------------------------------------------------------------------------- */

static uint64_t hash_scope(const struct scope *scope)
{
	uint64_t hash = map_mix(scope->kind, (uintptr_t)scope->parent);

	hash = map_mix(hash, (uintptr_t)scope->name);
	hash = map_mix(hash, (uintptr_t)scope->domain);
	return map_mix(hash, (uintptr_t)scope->sizes);
}

static bool is_equal(const void *item, const void *key)
{
	const struct scope *a = item, *b = key;

	return a->parent == b->parent && a->name == b->name && a->sizes == b->sizes &&
	       a->domain == b->domain && a->kind == b->kind;
}

static const char *add_sizes(struct scopes *s, const char *list)
{
	char text[MAX_SIZES_BYTES];

	if (!sizes_format(list, text, sizeof(text) - 3)) {
		/* A list that was cut off must not pass for the whole list of another operator. */
		strcat(text, "..");
	}
	return texts_add_string(&s->texts, text);
}

static const struct scope *intern(struct scopes *s, struct scope *key);

/* Sets the chain of operators from the outermost to this scope, without other scopes. */
static bool find_chain(struct scopes *s, struct scope *scope)
{
	const struct scope *outer = scope->parent ? scope->parent->chain : NULL;
	struct scope key = *scope;

	if (scope->kind < GPUCTR_SITE_OPERATOR || outer == scope->parent) {
		scope->chain = scope->kind < GPUCTR_SITE_OPERATOR ? outer : scope;
		return true;
	}
	key.parent = outer;
	scope->chain = intern(s, &key);
	return scope->chain != NULL;
}

/* Returns the set's scope that equals the key, or adds one with its properties. */
static const struct scope *intern(struct scopes *s, struct scope *key)
{
	uint64_t hash = hash_scope(key);
	struct scope *scope = map_find(&s->known, hash, is_equal, key);

	if (scope) {
		return scope;
	}
	scope = texts_take(&s->texts, sizeof(*scope));
	if (!scope) {
		return NULL;
	}
	*scope = *key;
	if (!derive(s, scope) || map_add(&s->known, hash, scope)) {
		return NULL;
	}
	return find_chain(s, scope) ? scope : NULL;
}

static const struct scope *add(struct scopes *s, const struct scope *parent,
			       const struct gpuctr_site *site)
{
	struct scope key = { .parent = parent, .kind = site->kind };

	key.name = texts_add_string(&s->texts, site->name);
	key.domain = texts_add_string(&s->texts, site->domain);
	key.sizes = add_sizes(s, site->sizes);
	return key.name && key.domain && key.sizes ? intern(s, &key) : NULL;
}

/* --- of sites -------------------------------------------------------------------------------- */

void scopes_next_capture(struct scopes *s)
{
	memset(s->of_sites, 0, sizeof(s->of_sites));
}

const struct scope *scopes_of_site(struct scopes *s, const struct gpuctr_site *site)
{
	const struct gpuctr_site *path[MAX_DEPTH];
	const struct scope *scope = NULL;
	size_t n = 0, slot = 0;

	while (site->depth >= MAX_DEPTH) {
		site = site->parent;
	}
	for (; site; site = site->parent) {
		slot = map_mix(0, (uintptr_t)site) % SCOPE_SITES_SLOTS;
		if (s->of_sites[slot].site == site) {
			scope = s->of_sites[slot].scope;
			break;
		}
		path[n++] = site;
	}
	while (n > 0 && (scope = add(s, scope, path[n - 1]))) {
		site = path[--n];
		slot = map_mix(0, (uintptr_t)site) % SCOPE_SITES_SLOTS;
		s->of_sites[slot].site = site;
		s->of_sites[slot].scope = scope;
	}
	return n == 0 ? scope : NULL;
}
