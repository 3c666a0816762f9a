/* SPDX-License-Identifier: Apache-2.0 */

/* Escaping. Other people choose the names of kernels, programs and users, and NVTX messages. After
 * escaping they cannot move a terminal's cursor or change its title, and in a file each stays one
 * field of valid UTF-8. The common case, a run of plain bytes, is copied as a whole. */

#include "client/cli/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

#include "proto/base/clean.h"
#include "proto/base/utf8.h"

static const char replacement[] = "\xef\xbf\xbd";

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f;
}

/* --- CSV ------------------------------------------------------------------------------------- */

bool text_is_formula(const char *text)
{
	return text[0] && text[1] && strchr("=+-@\t\r", text[0]);
}

void text_csv(struct buf *b, const char *text)
{
	const unsigned char *p = (const unsigned char *)(text ? text : "");
	const unsigned char *end = p + strlen((const char *)p);
	const unsigned char *from = p;
	bool quote = p[strcspn((const char *)p, ",\"\r\n")] != '\0';

	if (quote) {
		buf_char(b, '"');
	}
	if (text_is_formula((const char *)from)) {
		buf_char(b, '\'');
	}
	while (p < end) {
		size_t n = 1;
		uint32_t c = *p;

		if (*p == '"') {
			buf_add(b, (const char *)from, (size_t)(p - from));
			buf_char(b, '"');
			from = p;
		} else if (!is_plain(*p)) {
			n = utf8_decode((const char *)p, (size_t)(end - p), &c);
		}
		if (n == 0 || (utf8_is_control(c) && !strchr("\t\r\n", *p))) {
			buf_add(b, (const char *)from, (size_t)(p - from));
			buf_add(b, replacement, 3);
			n = n ? n : 1;
			from = p + n;
		}
		p += n;
	}
	buf_add(b, (const char *)from, (size_t)(p - from));
	if (quote) {
		buf_char(b, '"');
	}
}

/* --- terminals ------------------------------------------------------------------------------- */

void text_terminal(struct buf *b, const char *text)
{
	const unsigned char *p = (const unsigned char *)(text ? text : "");
	const unsigned char *end = p + strlen((const char *)p);

	while (p < end) {
		uint32_t c;
		size_t n = utf8_decode((const char *)p, (size_t)(end - p), &c);

		if (n == 0) {
			buf_printf(b, "\\x%02x", *p);
			n = 1;
		} else if (c == '\n' || c == '\t') {
			buf_text(b, c == '\n' ? "\\n" : "\\t");
		} else if (utf8_is_unsafe(c)) {
			buf_printf(b, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
		} else {
			buf_add(b, (const char *)p, n);
		}
		p += n;
	}
}

void text_printf(struct buf *b, const char *format, ...)
{
	bool ends = format[strlen(format) - 1] == '\n';
	CLEAN_FREE char *text = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0) {
		text = NULL;
		b->failed = true;
		return;
	}
	text[n - ends] = '\0';
	text_terminal(b, text);
	buf_text(b, ends ? "\n" : "");
}

/* Length of an escape sequence at p that sets a style, such as "\033[1m". 0: p has none. */
static size_t style_length(const unsigned char *p, const unsigned char *end)
{
	const unsigned char *at = p + 2;

	if (end - p < 3 || p[0] != '\033' || p[1] != '[') {
		return 0;
	}
	while (at < end && (*at == ';' || (*at >= '0' && *at <= '9'))) {
		at++;
	}
	return at < end && *at == 'm' ? (size_t)(at + 1 - p) : 0;
}

/* Length in bytes (at least 1) of the character at p, and the columns that the character takes. */
static size_t measure(const unsigned char *p, const unsigned char *end, size_t *ret_columns)
{
	uint32_t c;
	size_t n = utf8_decode((const char *)p, (size_t)(end - p), &c);
	size_t style = *p == '\033' ? style_length(p, end) : 0;
	int columns = n > 1 ? wcwidth((wchar_t)c) : 1;

	if (style > 0) {
		*ret_columns = 0;
		return style;
	}

	*ret_columns = columns < 0 ? 1 : (size_t)columns;
	return n ? n : 1;
}

size_t text_fit(const char *text, size_t n, size_t width)
{
	const unsigned char *start = (const unsigned char *)text, *p = start, *end = p + n;
	size_t columns, step;

	while (p < end) {
		step = measure(p, end, &columns);
		if (columns > width) {
			break;
		}
		width -= columns;
		p += step;
	}
	return (size_t)(p - start);
}

size_t text_width(const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + n;
	size_t width = 0, columns;

	while (p < end) {
		p += measure(p, end, &columns);
		width += columns;
	}
	return width;
}

void text_pad(struct buf *b, const char *text, size_t width, bool right)
{
	size_t n = strlen(text), has = text_width(text, n);
	int spaces = has < width ? (int)(width - has) : 0;

	buf_printf(b, "%*s", right ? spaces : 0, "");
	buf_add(b, text, n);
	buf_printf(b, "%*s", right ? 0 : spaces, "");
}

/* How many bytes of a line fit into width, up to a space or its end. */
static size_t wrap_at(const char *line, size_t n, size_t width)
{
	size_t fits = text_fit(line, n, width), at = fits;

	if (fits == n) {
		return n;
	}
	while (at > 0 && line[at] != ' ') {
		at--;
	}
	return at > 0 ? at : fits + strcspn(line + fits, " \n");
}

void text_wrap(struct buf *b, const char *text, size_t width)
{
	while (*text) {
		size_t n = strcspn(text, "\n"), at = wrap_at(text, n, width);

		buf_add(b, text, at);
		buf_char(b, '\n');
		text += at + (text[at] != '\0');
	}
}
