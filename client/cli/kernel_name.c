/* SPDX-License-Identifier: Apache-2.0 */

/* Names of kernels as people want to read them in a table.
 *
 *	void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>,
 *		std::array<char*, 1ul> >(int, at::native::FillFunctor<float>,
 *		std::array<char*, 1ul>)
 *
 * becomes, step by step until it fits, the name without return type and parameters, then without
 * the namespaces ("vectorized_elementwise_kernel<4, FillFunctor<float>, array<char*, 1ul> >"), and
 * then is cut, in its base name and at its end ("vectorized_elem..<4, FillFunct.."): the first
 * template arguments distinguish the kernels of one template.
 *
 * Some templates of libraries only launch their argument: "Kernel2<cutlass_80_tensorop_gemm>" is
 * shown as "cutlass_80_tensorop_gemm". The base name "kernel" says nothing, so it keeps its last
 * namespace. Names from compilers ("triton_poi_fused_add_relu_3", "loop_add_fusion_1") and from
 * nvjet differ at their ends, so they are cut in the middle. Names from cuDNN and cuBLAS all end
 * alike, so they are cut before the size of their tile and at the end. */

#include "client/cli/text.h"

#include <ctype.h>
#include <string.h>

static const char anonymous[] = "(anonymous namespace)";

/* Finds the parameter list; returns end if there is none. */
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

/* Skips the return type, which only names of functions made from templates have. */
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

static bool is_text(const char *p, size_t n, const char *text)
{
	return n == strlen(text) && memcmp(p, text, n) == 0;
}

/* Finds the last namespace before the base name "kernel". NULL: the base name is another one, or
 * has no namespace. */
static const char *find_kept_namespace(const char *name, const char *end)
{
	const char *base = name, *before = NULL;
	const char *p = name;

	while (p < end && (is_word(*p) || *p == ':')) {
		if (p + 1 < end && p[0] == ':' && p[1] == ':') {
			before = base;
			base = p += 2;
		} else {
			p++;
		}
	}
	return is_text(base, (size_t)(p - base), "kernel") ? before : NULL;
}

/* Copies a text without the "a::b::" before names. */
static void drop_namespaces(struct buf *b, const char *p, const char *end)
{
	const char *kept = find_kept_namespace(p, end);

	if (kept) {
		const char *base = strstr(kept, "::") + 2;

		buf_add(b, kept, (size_t)(base - kept));
		p = base;
	}
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

/* --- templates that wrap --------------------------------------------------------------------- */

/* Returns the argument of "base<...>" if it is the only one and nothing follows; else NULL. */
static const char *find_only_argument(const char *name, size_t n, size_t n_base, size_t *ret_n)
{
	size_t depth = 0, end = n;

	for (size_t i = n_base; i < n; i++) {
		depth += name[i] == '<';
		depth -= name[i] == '>' && depth > 0;
		if ((depth == 1 && name[i] == ',') || (depth == 0 && i + 1 < n)) {
			return NULL;
		}
	}
	if (depth != 0 || n < n_base + 3 || name[n - 1] != '>') {
		return NULL;
	}
	for (end--; end > n_base + 1 && name[end - 1] == ' ';) {
		end--;
	}
	*ret_n = end - n_base - 1;
	return *ret_n > 0 ? name + n_base + 1 : NULL;
}

static bool wraps(const char *base, size_t n)
{
	return is_text(base, n, "Kernel") || is_text(base, n, "Kernel2") ||
	       is_text(base, n, "device_kernel") || (n > 10 && strncmp(base, "enable_sm", 9) == 0);
}

void text_kernel_unwrap(struct buf *bare)
{
	const char *name = buf_string(bare);
	size_t n = bare->n, n_base;

	while ((n_base = strcspn(name, "<")) < n && wraps(name, n_base)) {
		size_t n_inner;
		const char *inner = find_only_argument(name, n, n_base, &n_inner);

		if (!inner) {
			break;
		}
		name = inner;
		n = n_inner;
	}
	if (n < bare->n) {
		memmove(bare->data, name, n);
		bare->n = n;
	}
}

/* --- cutting --------------------------------------------------------------------------------- */

/* Appends at most width columns of the text, with ".." at the end if the text is longer. */
static void add_cut(struct buf *b, const char *text, size_t n, size_t width)
{
	if (text_width(text, n) <= width) {
		buf_add(b, text, n);
		return;
	}
	buf_add(b, text, text_fit(text, n, width > 2 ? width - 2 : 0));
	buf_add(b, "..", width > 2 ? 2 : width);
}

void text_middle_cut(struct buf *b, const char *text, size_t begin, size_t width)
{
	size_t n = strlen(text), skip, from;

	if (text_width(text, n) <= width || width < begin + 2) {
		add_cut(b, text, n, width);
		return;
	}
	buf_add(b, text, text_fit(text, n, begin));
	buf_text(b, "..");
	skip = text_width(text, n) - (width - 2 - begin);
	from = text_fit(text, n, skip);
	while (text_width(text + from, n - from) > width - 2 - begin) {
		from += text_fit(text + from, n - from, 2);
	}
	buf_text(b, text + from);
}

/* Finds the last words of a name that fit into width columns; NULL: not even one fits. */
static const char *find_last_words(const char *name, size_t width)
{
	const char *words = name + strlen(name);

	for (const char *p = words; p > name && text_width(p, strlen(p)) <= width; p--) {
		words = p[-1] == '_' ? p : words;
	}
	return *words ? words : NULL;
}

static void add_begin_and_words(struct buf *b, const char *name, size_t width)
{
	const char *words = find_last_words(name, width / 2);
	size_t n_words = words ? text_width(words, strlen(words)) : width / 3;

	text_middle_cut(b, name, width > n_words + 2 ? width - n_words - 2 : 0, width);
}

/* Many kernels share the text before the tile's size, and all share the text behind the size. */
static void add_cut_word(struct buf *b, const char *name, size_t width)
{
	const char *tile = strstr(name, "tilesize");
	size_t n = strlen(name), n_base = tile ? (size_t)(tile - name) : 0;
	size_t base = text_width(name, n_base) < width / 2 ? text_width(name, n_base) : width / 2;

	if (strncmp(name, "_Z", 2) == 0) {
		add_cut(b, name, n, width); /* A mangled name ends with parameters. */
		return;
	}
	if (!tile) {
		add_begin_and_words(b, name, width);
		return;
	}
	add_cut(b, name, n_base, base);
	add_cut(b, tile, n - n_base, width - base);
}

static void add_cut_name(struct buf *b, const char *name, size_t width)
{
	size_t n = strlen(name), n_base = strcspn(name, "<");
	size_t base = n_base < width * 3 / 5 ? n_base : width * 3 / 5;

	if (text_width(name, n) <= width) {
		buf_add(b, name, n);
	} else if (n_base == n) {
		add_cut_word(b, name, width);
	} else {
		add_cut(b, name, n_base, base);
		add_cut(b, name + n_base, n - n_base, width - base);
	}
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
	CLEAN_BUF struct buf part = { 0 }, safe = { 0 };

	buf_add(&part, start, (size_t)(end - start));
	if (text_width(buf_string(&part), part.n) > width) {
		buf_clear(&part);
		drop_namespaces(&part, start, end);
	}
	if (text_width(buf_string(&part), part.n) > width) {
		text_kernel_unwrap(&part);
	}
	text_terminal(&safe, buf_string(&part));
	add_cut_name(b, buf_string(&safe), width);
}
