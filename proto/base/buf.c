/* SPDX-License-Identifier: Apache-2.0 */

/* The client writes mostly numbers: 25 for a record. Integers are formatted two digits at a time.
 * Counters are doubles that nearly always are whole, and ratios mostly have few digits:
 * buf_double() tries whole numbers, then 15 to 17 digits in extended precision with a check that
 * they read back, and uses printf() for the others. */

#include "proto/base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void buf_deinit(struct buf *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

bool buf_grow(struct buf *b, size_t n)
{
	size_t max = b->max ? b->max : 256;
	char *data;

	while (max - b->n < n && max < SIZE_MAX / 4) {
		max *= 2;
	}
	data = max - b->n < n ? NULL : realloc(b->data, max);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->max = max;
	return true;
}

const char *buf_string(struct buf *b)
{
	if (!buf_reserve(b, 1)) {
		return "";
	}
	b->data[b->n] = '\0';
	return b->data;
}

char *buf_take(struct buf *b)
{
	char *text = b->failed ? NULL : strdup(buf_string(b));

	buf_deinit(b);
	return text;
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list args, again;
	int n;

	va_start(args, format);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n > 0 && buf_reserve(b, (size_t)n + 1)) {
		vsnprintf(b->data + b->n, (size_t)n + 1, format, again);
		b->n += (size_t)n;
	}
	va_end(again);
}

static const char pairs[] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

enum { MAX_DIGITS = 20 };

/* Writes value right-aligned into digits[MAX_DIGITS]; returns its first digit. */
static char *format_digits(char *digits, uint64_t value)
{
	char *p = digits + MAX_DIGITS;

	while (value >= 100) {
		p -= 2;
		memcpy(p, pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10) {
		p -= 2;
		memcpy(p, pairs + value * 2, 2);
	} else {
		*--p = (char)('0' + value);
	}
	return p;
}

void buf_u64(struct buf *b, uint64_t value)
{
	char digits[MAX_DIGITS];
	char *p = format_digits(digits, value);

	buf_add(b, p, (size_t)(digits + MAX_DIGITS - p));
}

void buf_i64(struct buf *b, int64_t value)
{
	if (value < 0) {
		buf_char(b, '-');
	}
	buf_u64(b, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Appends whole / 10^scale. */
static void add_scaled(struct buf *b, uint64_t whole, int scale)
{
	char digits[MAX_DIGITS];
	char *p;
	size_t n;

	while (scale > 0 && whole % 10 == 0) {
		whole /= 10;
		scale--;
	}
	p = format_digits(digits, whole);
	n = (size_t)(digits + MAX_DIGITS - p);
	if (n > (size_t)scale) {
		buf_add(b, p, n - (size_t)scale);
	} else {
		buf_char(b, '0');
	}
	if (scale > 0) {
		buf_char(b, '.');
		for (size_t zero = n; zero < (size_t)scale; zero++) {
			buf_char(b, '0');
		}
		n = n < (size_t)scale ? n : (size_t)scale;
		buf_add(b, digits + MAX_DIGITS - n, n);
	}
}

/* Does whole / power read back as value? The quotient has 11 bits more than a double: if it is
 * clearly nearer to value than half the distance to the next double, it does; otherwise strtod()
 * decides. */
static bool reads_back(uint64_t whole, long double power, double value)
{
	long double off = (long double)whole / power - (long double)value;
	long double gap = (long double)value - (long double)nextafter(value, 0);

	return fabsl(off) < 0.49L * gap;
}

/* For 1e-5 <= value < 1e15. */
static bool add_fraction(struct buf *b, double value)
{
	static const long double powers[] = { 1e0L,  1e1L,  1e2L,  1e3L,  1e4L,	 1e5L,
					      1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L,
					      1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L,
					      1e18L, 1e19L, 1e20L, 1e21L, 1e22L };
	int whole_digits = 0; /* digits before the point; negative: zeros after the point */

	if (value >= 1) {
		while (whole_digits < 15 && powers[whole_digits] <= (long double)value) {
			whole_digits++;
		}
	} else {
		while ((long double)value * powers[1 - whole_digits] < 1) {
			whole_digits--;
		}
	}
	for (int digits = 15; digits <= 17; digits++) {
		int scale = digits - whole_digits;
		uint64_t whole = (uint64_t)((long double)value * powers[scale] + 0.5L);

		if (reads_back(whole, powers[scale], value)) {
			add_scaled(b, whole, scale);
			return true;
		}
	}
	return false;
}

static void add_by_printf(struct buf *b, double value)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value) {
			break;
		}
	}
	buf_text(b, text);
}

void buf_double(struct buf *b, double value)
{
	double size = fabs(value);

	if (size < 9007199254740992.0 && size == (double)(uint64_t)size) {
		if (value < 0) {
			buf_char(b, '-');
		}
		buf_u64(b, (uint64_t)size);
		return;
	}
	if (size >= 1e-5 && size < 1e15) {
		if (value < 0) {
			buf_char(b, '-');
		}
		if (add_fraction(b, size)) {
			return;
		}
		b->n -= value < 0;
	}
	add_by_printf(b, value);
}
