/* SPDX-License-Identifier: Apache-2.0 */

/* Names of kernels as people want to read them in a table.
 *
 *	void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>,
 *		std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*,
 *1ul>)
 *
 * becomes, step by step until it fits, the name without return type and parameters, then without
 *the namespaces ("vectorized_elementwise_kernel<4, FillFunctor<float>, array<char*, 1ul> >"), and
 *then is cut, in its base name and at its end ("vectorized_elem..<4, FillFunct.."): the first
 *template arguments are what tells kernels of one template apart.
 */

#include "client/cli/text.h"

#include <ctype.h>
#include <stdlib.h>

static const char anonymous[] = "(anonymous namespace)";

/* Where the parameter list begins, or the end. */
static const char *find_parameters(const char *name, const char *end)
{
	int depth = 0;

	if (end == name || end[-1] != ')') {
		return end;
	}
	for (const char *p = end; p > name; p--) {
		depth += p[-1] == ')';
		depth -= p[-1] == '(';
		if (depth == 0) {
			return p - 1 > name ? p - 1 : end;
		}
	}
	return end;
}

/* After the return type, which only functions made from templates show. */
static const char *skip_return_type(const char *name, const char *end)
{
	const char *start = name;
	int depth = 0;

	for (const char *p = name; p < end; p++) {
		depth += *p == '<' || *p == '(' || *p == '{' || *p == '[';
		depth -= (*p == '>' || *p == ')' || *p == '}' || *p == ']') && depth > 0;
		if (*p == ' ' && depth == 0 && p + 1 < end) {
			start = p + 1;
		}
	}
	return start;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80) != 0;
}

/* Copies without "a::b::" before a name. */
static void drop_namespaces(struct buf *b, const char *p, const char *end)
{
	while (p < end) {
		const char *word = p;

		if ((size_t)(end - p) > sizeof(anonymous) + 1 &&
		    strncmp(p, anonymous, sizeof(anonymous) - 1) == 0) {
			p += sizeof(anonymous) - 1;
		} else {
			while (p < end && is_word(*p)) {
				p++;
			}
		}
		if (p > word && end - p > 2 && p[0] == ':' && p[1] == ':' &&
		    (is_word(p[2]) || p[2] == '(')) {
			p += 2;
		} else if (p > word) {
			buf_add(b, word, (size_t)(p - word));
		} else {
			buf_char(b, *p++);
		}
	}
}

/* At most width columns of it, ending in ".." when that is not all. */
static void add_cut(struct buf *b, const char *text, size_t n, size_t width)
{
	if (text_width(text, n) <= width) {
		buf_add(b, text, n);
		return;
	}
	buf_add(b, text, text_fit(text, n, width > 2 ? width - 2 : 0));
	buf_add(b, "..", width > 2 ? 2 : width);
}

static void add_cut_name(struct buf *b, const char *name, size_t width)
{
	size_t n = strlen(name), n_base = strcspn(name, "<");
	size_t base = n_base < width * 3 / 5 || n_base == n ? n_base : width * 3 / 5;

	if (text_width(name, n) <= width || n_base == n) {
		add_cut(b, name, n, width);
		return;
	}
	add_cut(b, name, n_base, base);
	add_cut(b, name + n_base, n - n_base, width - base);
}

void text_kernel_bare(struct buf *b, const char *name)
{
	const char *end = find_parameters(name, name + strlen(name));

	drop_namespaces(b, skip_return_type(name, end), end);
}

void text_kernel(struct buf *b, const char *name, size_t width)
{
	const char *end = find_parameters(name, name + strlen(name));
	const char *start = skip_return_type(name, end);
	struct buf part = { 0 }, safe = { 0 };

	buf_add(&part, start, (size_t)(end - start));
	if (text_width(buf_string(&part), part.n) > width) {
		buf_clear(&part);
		drop_namespaces(&part, start, end);
	}
	text_terminal(&safe, buf_string(&part));
	add_cut_name(b, buf_string(&safe), width);
	buf_deinit(&part);
	buf_deinit(&safe);
}
