/* SPDX-License-Identifier: Apache-2.0 */

/* Escaping. Kernel names, NVTX messages, program names and user names are chosen by others: what
 * goes to a terminal cannot move its cursor or change its title, and what goes into a file stays
 * one field of valid UTF-8. The common case, a run of plain bytes, is copied as a whole. */

#include "client/cli/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

static const char replacement[] = "\xef\xbf\xbd";

size_t text_utf8(const unsigned char *p, const unsigned char *end)
{
	size_t n = *p < 0x80   ? 1
		   : *p < 0xc2 ? 0
		   : *p < 0xe0 ? 2
		   : *p < 0xf0 ? 3
		   : *p < 0xf5 ? 4
			       : 0;

	if (n == 0 || (size_t)(end - p) < n) {
		return 0;
	}
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	/* Overlong forms, surrogates, beyond U+10FFFF. */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) {
		return 0;
	}
	return n;
}

static uint32_t decode(const unsigned char *p, size_t n)
{
	switch (n) {
	case 1:
		return p[0];
	case 2:
		return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
	case 3:
		return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	default:
		return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 |
		       (p[3] & 0x3fu);
	}
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f;
}

/* C0, DEL, C1. */
static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* The same, line separators, and the marks that reverse or hide text. */
static bool is_unsafe(uint32_t c)
{
	return is_control(c) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void json_escape(struct buf *b, uint32_t c)
{
	switch (c) {
	case '"':
		buf_add(b, "\\\"", 2);
		return;
	case '\\':
		buf_add(b, "\\\\", 2);
		return;
	case '\n':
		buf_add(b, "\\n", 2);
		return;
	case '\t':
		buf_add(b, "\\t", 2);
		return;
	case '\r':
		buf_add(b, "\\r", 2);
		return;
	default:
		buf_printf(b, "\\u%04x", c);
	}
}

void text_json_part(struct buf *b, const char *text, size_t length)
{
	const unsigned char *p = (const unsigned char *)text;
	const unsigned char *end = p + length;
	const unsigned char *from = p;

	while (p < end) {
		uint32_t c;
		size_t n;

		if (is_plain(*p) && *p != '"' && *p != '\\') {
			p++;
			continue;
		}
		n = text_utf8(p, end);
		c = n ? decode(p, n) : 0;
		if (n > 1 && !is_unsafe(c)) {
			p += n;
			continue;
		}
		buf_add(b, (const char *)from, (size_t)(p - from));
		if (n > 0) {
			json_escape(b, c);
		} else {
			buf_add(b, replacement, 3);
		}
		p += n ? n : 1;
		from = p;
	}
	buf_add(b, (const char *)from, (size_t)(p - from));
}

void text_json_body(struct buf *b, const char *text)
{
	text_json_part(b, text ? text : "", text ? strlen(text) : 0);
}

void text_json(struct buf *b, const char *text)
{
	buf_char(b, '"');
	text_json_body(b, text);
	buf_char(b, '"');
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

		if (*p == '"') {
			buf_add(b, (const char *)from, (size_t)(p - from));
			buf_char(b, '"');
			from = p;
		} else if (!is_plain(*p)) {
			n = text_utf8(p, end);
		}
		if (n == 0 || (is_control(decode(p, n)) && !strchr("\t\r\n", *p))) {
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
		size_t n = text_utf8(p, end);
		uint32_t c = n ? decode(p, n) : 0;

		if (n == 0) {
			buf_printf(b, "\\x%02x", *p);
			n = 1;
		} else if (c == '\n' || c == '\t') {
			buf_text(b, c == '\n' ? "\\n" : "\\t");
		} else if (is_unsafe(c)) {
			buf_printf(b, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
		} else {
			buf_add(b, (const char *)p, n);
		}
		p += n;
	}
}

/* Bytes of an escape sequence of ours, which sets a style: "\033[1m". 0: there is none at p. */
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

/* Bytes of the character at p, at least one, and the columns that it takes. */
static size_t measure(const unsigned char *p, const unsigned char *end, size_t *ret_columns)
{
	size_t n = text_utf8(p, end), style = *p == '\033' ? style_length(p, end) : 0;
	int columns = n > 1 ? wcwidth((wchar_t)decode(p, n)) : 1;

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
