/* SPDX-License-Identifier: Apache-2.0 */

/* Values of options: lists, numbers, times. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/options.h"
#include "client/cli/say.h"

void strings_deinit(struct strings *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->items[i]);
	}
	free(s->items);
	memset(s, 0, sizeof(*s));
}

bool strings_add(struct strings *s, const char *text, size_t n)
{
	char **items = realloc(s->items, (s->n + 2) * sizeof(*items));

	if (!items) {
		return false;
	}
	s->items = items;
	items[s->n] = strndup(text, n);
	if (!items[s->n]) {
		return false;
	}
	items[++s->n] = NULL;
	return true;
}

bool strings_add_list(struct strings *s, const char *list)
{
	if (strncmp(list, "regex:", 6) == 0) {
		return strings_add(s, list, strlen(list));
	}
	while (*list) {
		size_t length = strcspn(list, ","), before = strspn(list, " \t\n"), n = length;

		while (n > before && strchr(" \t\n", list[n - 1])) {
			n--;
		}
		if (n > before && !strings_add(s, list + before, n - before)) {
			return false;
		}
		list += length + (list[length] == ',');
	}
	return true;
}

const char *const *strings_items(const struct strings *s)
{
	return (const char *const *)s->items;
}

bool options_parse_u64(const char *text, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || strchr(text, '-')) {
		return false;
	}
	*ret = value;
	return true;
}

bool options_take_u64(const char *name, const char *text, uint64_t *ret)
{
	bool is_number = options_parse_u64(text, ret);

	if (!is_number) {
		say_usage("--%s: '%s' is not a whole number from 0 to 2^64 - 1", name, text);
	}
	return is_number;
}

bool options_parse_time(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "", 1e9 },   { "s", 1e9 },    { "ms", 1e6 },  { "us", 1e3 },
		      { "m", 6e10 }, { "min", 6e10 }, { "h", 3.6e12 } };
	char *end;
	double value = strtod(text, &end);

	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++) {
		double ns = value * units[i].ns;

		/* Refuses more than a year, and "nan", which compares false. */
		if (strcmp(end, units[i].name) == 0 && ns >= 0 && ns <= 365.0 * 86400 * 1e9) {
			*ret_ns = (uint64_t)llround(ns);
			return true;
		}
	}
	return false;
}

bool options_refuse(const char *name, const char *value, const char *wants)
{
	say_usage("--%s: '%s' is not %s", name, value, wants);
	return false;
}

bool options_take_number(const char *name, const char *text, uint64_t min, uint64_t max,
			 uint64_t *ret)
{
	bool good = options_parse_u64(text, ret) && *ret >= min && *ret <= max;

	if (!good) {
		say_usage("--%s wants a number from %llu to %llu, not '%s'", name,
			  (unsigned long long)min, (unsigned long long)max, text);
	}
	return good;
}

bool options_take_list(struct strings *list, const char *name, const char *value)
{
	if (value[strspn(value, ",")] == '\0') {
		return options_refuse(name, value,
				      "a list of names; leave the option out for its default");
	}
	if (!strings_add_list(list, value)) {
		say_usage("out of memory");
		return false;
	}
	return true;
}
