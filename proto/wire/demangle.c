/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/own_stack.h"
#include "proto/base/utf8.h"
#include "proto/wire/limits.h"

/* A mangled name may refer to its own parts, so that 300 bytes can expand to more text than any
 * memory holds. libiberty passes its output to a callback in pieces and holds no memory meanwhile.
 * So when the output is too long, a jump out of libiberty is safe, and the only way to stop it.
 *
 * libiberty keeps its data on the stack, and calls itself for each level of a name: up to 216 bytes
 * for each byte of the name (2.40; "_Z1fDwFDwF..."), besides 1,024 levels of printing and a table
 * of references times templates. By default it gives up beyond 1,024 bytes, which names of CUTLASS,
 * cuDNN and FlashAttention exceed. So it runs on a stack with the largest size that the name can
 * need, and never on the caller's stack, which may be small. */

enum {
	OPTIONS = DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT,
	BYTES_A_BYTE = 1024, /* of the stack for each byte of the name */
	BYTES_A_COPY = 64,   /* 16 bytes, for two visits of each reference and each template */
};

struct output {
	jmp_buf full;
	size_t n;
	char *text; /* room for DEMANGLED_MAX_BYTES and the NUL */
};

static void on_piece(const char *piece, size_t n, void *userdata)
{
	struct output *to = userdata;

	if (n > DEMANGLED_MAX_BYTES - to->n) {
		longjmp(to->full, 1);
	}
	memcpy(to->text + to->n, piece, n);
	to->n += n;
	to->text[to->n] = '\0';
}

/* The stack bytes that libiberty needs at most for the name. A template begins with I or J; a
 * reference to a parameter, which copies the templates around it, begins with R or O. */
static size_t count_bytes(const char *mangled)
{
	size_t n = 0, templates = 0, references = 0;

	for (; mangled[n]; n++) {
		templates += mangled[n] == 'I' || mangled[n] == 'J';
		references += (mangled[n] == 'R' || mangled[n] == 'O') &&
			      (mangled[n + 1] == 'T' || mangled[n + 1] == 'S');
	}
	return OWN_STACK_BYTES + n * BYTES_A_BYTE + templates * references * BYTES_A_COPY;
}

struct work {
	const char *mangled;
	char *result; /* room for DEMANGLED_MAX_BYTES and the NUL, or allocated, or NULL */
	bool done;
};

static void demangle(void *argument)
{
	struct work *w = argument;
	struct output to = { .text = w->result };

	w->result[0] = '\0';
	w->done = setjmp(to.full) == 0 &&
		  cplus_demangle_v3_callback(w->mangled, OPTIONS, on_piece, &to);
}

char *demangle_nothing(const char *mangled)
{
	char *name = strndup(mangled, LIMIT_STRING_BYTES);

	if (name) {
		utf8_repair(name);
	}
	return name;
}

/* A name without the prefix is not mangled, and is not demangled. */
static bool is_mangled(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_GLOBAL_", 8) == 0;
}

static bool work(struct work *w, void (*f)(void *argument))
{
	return is_mangled(w->mangled) && own_stack_run(count_bytes(w->mangled), f, w) && w->done;
}

char *demangle_kernel(const char *mangled)
{
	char *name = demangle_nothing(mangled), *shorter;
	struct work w = { .mangled = name };

	if (!name || !(w.result = malloc(DEMANGLED_MAX_BYTES + 1))) {
		return name;
	}
	if (!work(&w, demangle)) {
		free(w.result);
		return name;
	}
	free(name);
	shorter = realloc(w.result, strlen(w.result) + 1);
	return shorter ? shorter : w.result;
}

/* The next component on the way to the function's name; NULL: c is the name. */
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

static void find_function(void *argument)
{
	struct work *w = argument;
	void *memory = NULL;
	const struct demangle_component *inner,
		*c = cplus_demangle_v3_components(w->mangled, OPTIONS, &memory);

	while (c && (inner = step_inwards(c)) != NULL) {
		c = inner;
	}
	if (c && c->type == DEMANGLE_COMPONENT_NAME) {
		w->result = strndup(c->u.s_name.s, (size_t)c->u.s_name.len);
	}
	w->done = w->result != NULL;
	free(memory);
}

char *demangle_function(const char *mangled)
{
	char *plain = demangle_nothing(mangled);
	struct work w = { .mangled = plain };

	if (!plain || !work(&w, find_function)) {
		return plain;
	}
	free(plain);
	return w.result;
}
