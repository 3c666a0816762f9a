/* SPDX-License-Identifier: Apache-2.0 */

/* Units as powers of names. Only times have prefixes, because only they come in several sizes. */

#include "client/report/quantity.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *unit;
	double seconds;
} times[] = {
	{ "second", 1 },	 { "s", 1 },	 { "millisecond", 1e-3 }, { "ms", 1e-3 },
	{ "microsecond", 1e-6 }, { "us", 1e-6 }, { "nanosecond", 1e-9 },  { "ns", 1e-9 },
};

static bool add_factor(struct quantity *q, const char *name, int power)
{
	for (unsigned i = 0; i < q->n; i++) {
		if (strcmp(q->factors[i].name, name) == 0) {
			q->factors[i].power += power;
			if (q->factors[i].power == 0) {
				q->factors[i] = q->factors[--q->n];
			}
			return true;
		}
	}
	if (q->n == QUANTITY_FACTORS || strlen(name) >= QUANTITY_NAME_BYTES) {
		return false;
	}
	strcpy(q->factors[q->n].name, name);
	q->factors[q->n++].power = power;
	return true;
}

static bool take_name(struct quantity *q, const char *name, int power, double *scale)
{
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		if (strcmp(name, times[i].unit) == 0) {
			*scale *= power > 0 ? times[i].seconds : 1 / times[i].seconds;
			return add_factor(q, "second", power);
		}
	}
	return !*name || strcmp(name, "1") == 0 || add_factor(q, name, power);
}

bool quantity_parse(const char *unit, struct quantity *ret, double *ret_scale)
{
	char *copy = strdup(unit), *rest = copy, *word;
	bool ok = copy != NULL;
	int power = 1;

	*ret = (struct quantity){ 0 };
	*ret_scale = 1;
	while (ok && (word = strsep(&rest, "/"))) {
		ok = take_name(ret, word, power, ret_scale);
		power = -1;
	}
	free(copy);
	return ok;
}

bool quantity_multiply(struct quantity *a, const struct quantity *b, int power)
{
	for (unsigned i = 0; i < b->n; i++) {
		if (!add_factor(a, b->factors[i].name, b->factors[i].power * power)) {
			return false;
		}
	}
	return true;
}

bool quantity_equal(const struct quantity *a, const struct quantity *b)
{
	struct quantity rest = *a;

	return a->n == b->n && quantity_multiply(&rest, b, -1) && rest.n == 0;
}

static void add_side(const struct quantity *q, int sign, const char *separator, struct buf *b)
{
	const char *between = sign > 0 ? "" : separator;

	for (unsigned i = 0; i < q->n; i++) {
		for (int k = 0; k < q->factors[i].power * sign; k++) {
			buf_text(b, between);
			buf_text(b, q->factors[i].name);
			between = separator;
		}
	}
}

void quantity_format(const struct quantity *q, struct buf *b)
{
	size_t start = b->n;

	add_side(q, 1, "*", b);
	if (b->n == start && q->n > 0) {
		buf_char(b, '1');
	}
	add_side(q, -1, "/", b);
}
