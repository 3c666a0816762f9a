/* SPDX-License-Identifier: Apache-2.0 */

/* Figures of a view's columns, whether measured or derived. Tables, CSV, JSON and the order of rows
 * use these functions. */

#include "client/report/view.h"

#include <math.h>

bool view_is_known(const struct view *v, const struct view_column *c)
{
	const struct group *all = v->all, *before = v->all->before;
	bool known;

	if (c->measure) {
		return (v->names_columns && c->i != MEASURE_TIME) || all->self[c->i].n > 0 ||
		       (before && before->self[c->i].n > 0);
	}
	known = v->names_columns || before || !isnan(derived_value(c->derived, all));
	for (size_t i = 0; i < v->n_rows && !known; i++) {
		known = !isnan(derived_value(c->derived, v->rows[i]));
	}
	return known;
}

/* Error of a derived value. NaN if some launches stand for others that were not sampled. */
static double error_of(const struct view_column *c, const struct group *row)
{
	return view_is_of_some(c, row) ? NAN : view_figure(c, row).error;
}

double view_value(const struct view *v, const struct view_column *c, enum field field,
		  const struct group *row)
{
	if (c->measure) {
		return fields_value(field, c->measure, c->i, row, v->all);
	}
	return field == FIELD_ERROR   ? error_of(c, row)
	       : field < FIELD_BEFORE ? derived_value(c->derived, row)
				      : derived_compare(c->derived, field, row);
}

struct figure view_figure(const struct view_column *c, const struct group *row)
{
	return c->measure ? fields_figure(c->measure, c->i, row) : derived_figure(c->derived, row);
}

bool view_is_of_some(const struct view_column *c, const struct group *row)
{
	return c->derived && derived_unsampled(c->derived, row) > 0;
}

bool view_is_of_part(const struct view_column *c, const struct group *row)
{
	return c->measure ? fields_is_of_part(c->measure, c->i, row)
			  : derived_is_of_part(c->derived, row);
}
