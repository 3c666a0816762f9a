/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/utf8.h"
#include "proto/wire/limits.h"

/* A mangled name may refer to its own parts, so that 300 bytes can stand for more text than any
 * memory holds. libiberty passes its output on piece by piece and holds no memory meanwhile. So
 * when the output is too long, jumping out of it is the only way, and a safe one. */

struct output {
	jmp_buf full;
	size_t n;
	char *text; /* room for LIMIT_STRING_BYTES and the NUL */
};

static void on_piece(const char *piece, size_t n, void *userdata)
{
	struct output *to = userdata;

	if (n > LIMIT_STRING_BYTES - to->n) {
		longjmp(to->full, 1);
	}
	memcpy(to->text + to->n, piece, n);
	to->n += n;
	to->text[to->n] = '\0';
}

static bool demangle(const char *mangled, char *text)
{
	struct output to = { .text = text };

	text[0] = '\0';
	return setjmp(to.full) == 0 &&
	       cplus_demangle_v3_callback(mangled, DMGL_PARAMS | DMGL_ANSI, on_piece, &to);
}

char *demangle_nothing(const char *mangled)
{
	char *name = strndup(mangled, LIMIT_STRING_BYTES);

	if (name) {
		utf8_repair(name);
	}
	return name;
}

char *demangle_kernel(const char *mangled)
{
	char *name = demangle_nothing(mangled), *text;

	if (!name) {
		return NULL;
	}
	text = malloc(LIMIT_STRING_BYTES + 1);
	if (text && demangle(name, text)) {
		free(name);
		return text;
	}
	free(text);
	return name;
}

/* The next component inwards, towards the function's name; NULL: c is the name. */
static const struct demangle_component *step_inwards(const struct demangle_component *c)
{
	switch (c->type) {
	case DEMANGLE_COMPONENT_QUAL_NAME:
	case DEMANGLE_COMPONENT_LOCAL_NAME:
		return c->u.s_binary.right;
	case DEMANGLE_COMPONENT_TYPED_NAME:
	case DEMANGLE_COMPONENT_TEMPLATE:
	case DEMANGLE_COMPONENT_TAGGED_NAME:
	case DEMANGLE_COMPONENT_CLONE:
		return c->u.s_binary.left;
	default:
		return NULL;
	}
}

char *demangle_function(const char *mangled)
{
	char *plain = demangle_nothing(mangled), *name = NULL;
	const struct demangle_component *c, *inner;
	void *memory = NULL;

	if (!plain) {
		return NULL;
	}
	c = cplus_demangle_v3_components(plain, DMGL_PARAMS | DMGL_ANSI, &memory);
	while (c && (inner = step_inwards(c)) != NULL) {
		c = inner;
	}
	if (c && c->type == DEMANGLE_COMPONENT_NAME) {
		name = strndup(c->u.s_name.s, (size_t)c->u.s_name.len);
	}
	free(memory);
	if (!name) {
		return plain;
	}
	free(plain);
	return name;
}
