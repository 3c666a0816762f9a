/* SPDX-License-Identifier: Apache-2.0 */

/* Numbers for people. Bytes and rates scale by 1000, as in ncu and in data sheets of memory and
 * networks, so that GB/s means the same everywhere. The measurement of one kernel justifies three
 * significant digits. */

#include "client/cli/text.h"

#include <math.h>
#include <stdio.h>

const char *text_counted(char room[32], uint64_t value)
{
	char digits[24], *to = room;
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);

	for (int i = 0; i < n; i++) {
		if (i > 0 && (n - i) % 3 == 0) {
			*to++ = ',';
		}
		*to++ = digits[i];
	}
	*to = '\0';
	return room;
}

void text_count(struct buf *b, uint64_t value)
{
	buf_text(b, TEXT_COUNT(value));
}

/* Appends three significant digits. Callers scale from 999.5 on, as "1000" would have four. */
static void add_number(struct buf *b, double value)
{
	double size = fabs(value);

	buf_printf(b, "%.*f", size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, value);
}

static void add_prefixed(struct buf *b, double value, const char *unit)
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
	size_t prefix = 0;

	while (fabs(value) >= 999.5 && prefix < sizeof(prefixes) / sizeof(prefixes[0]) - 1) {
		value /= 1000;
		prefix++;
	}
	if (prefix == 0 && value == floor(value)) {
		buf_printf(b, "%.0f", value);
	} else {
		add_number(b, value);
	}
	if (*prefixes[prefix] || *unit) {
		buf_printf(b, " %s%s", prefixes[prefix], unit);
	}
}

/* "%.2g" alone would print "1e+02" from 99.5 on. */
void text_percent(struct buf *b, double percent)
{
	buf_printf(b, percent >= 9.95 && percent < 1e6 ? "%.0f" : "%.2g", percent);
}

void text_time(struct buf *b, double ns)
{
	static const struct {
		double ns;
		const char *unit;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } };
	size_t i = 0;

	while (i < 3 && fabs(ns) < units[i].ns * 0.9995) {
		i++;
	}
	add_number(b, ns / units[i].ns);
	buf_printf(b, " %s", units[i].unit);
}

void text_duration(struct buf *b, uint64_t ns)
{
	uint64_t seconds = ns / 1000000000u;

	if (seconds >= 86400) {
		buf_printf(b, "%llu d %llu h", (unsigned long long)(seconds / 86400),
			   (unsigned long long)(seconds % 86400 / 3600));
	} else if (seconds >= 3600) {
		buf_printf(b, "%llu h %llu min", (unsigned long long)(seconds / 3600),
			   (unsigned long long)(seconds % 3600 / 60));
	} else if (seconds >= 60) {
		buf_printf(b, "%llu min %llu s", (unsigned long long)(seconds / 60),
			   (unsigned long long)(seconds % 60));
	} else {
		buf_printf(b, "%llu s", (unsigned long long)seconds);
	}
}

void text_age(struct buf *b, uint64_t ns)
{
	unsigned long long seconds = ns / 1000000000u;

	buf_printf(b, "%llu:%02llu:%02llu", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

/* Units that have a short form. Others (instruction, l2_sector, warp, ...) are clear from the
 * name of the metric. */
static const struct {
	const char *unit, *symbol;
} symbols[] = {
	{ "byte", "B" }, { "byte/second", "B/s" }, { "cycle/second", "Hz" },
	{ "hz", "Hz" },	 { "FLOP", "FLOP" },	   { "FLOP/second", "FLOP/s" },
};

void text_scaled(struct buf *b, double value, const char *unit)
{
	if (isnan(value)) {
		buf_text(b, TEXT_UNKNOWN);
		return;
	}
	if (strcmp(unit, "nanosecond") == 0 || strcmp(unit, "ns") == 0) {
		text_time(b, value);
		return;
	}
	if (strcmp(unit, "second") == 0) {
		text_time(b, value * 1e9);
		return;
	}
	if (strcmp(unit, "percent") == 0 || strcmp(unit, "%") == 0) {
		buf_printf(b, "%.1f %%", value);
		return;
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		if (strcmp(unit, symbols[i].unit) == 0) {
			add_prefixed(b, value, symbols[i].symbol);
			return;
		}
	}
	add_prefixed(b, value, "");
}
