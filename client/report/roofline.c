/* SPDX-License-Identifier: Apache-2.0 */

/* Both axes are logarithmic and end at whole powers of ten. The slope of the roof is the peak of
 * the memory where the devices are known, else the highest bandwidth of a row; its flat part is the
 * peak of the tensor cores in the fastest precision that was counted, else the highest rate of a
 * row. */

#include "client/report/roofline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/labels.h"
#include "client/report/names.h"

enum {
	LABEL_WIDTH = 12, /* of the vertical axis */
	VALUE_WIDTH = 13, /* "48.9 GFLOP/s", and what keeps two of them apart */
	HEIGHT_MIN = 8,
	HEIGHT_MAX = 24,
	COLUMNS_A_ROW = 4,
};

enum { CELL_EMPTY = ' ', CELL_SLOPE = '/', CELL_FLAT = '-', CELL_SEVERAL = '*' };

struct axis {
	const char *name, *unit;
	int low, high; /* powers of ten */
	size_t cells;
};

struct point {
	const struct group *row;
	double x, y;
};

struct roofline {
	const struct view *v;
	const struct derived *intensity, *rate, *bandwidth;
	double slope, top; /* slope 0: the roof is flat */
	struct axis x, y;
	struct point points[ROOFLINE_ROWS];
	size_t n, n_left_out; /* rows that are not known well enough, or too many */
	char *cells;	      /* row by row, the uppermost first */
};

/* --- what is drawn --------------------------------------------------------------------------- */

static const struct derived *find_kind(const struct view *v, enum derived_kind kind)
{
	for (size_t i = 0; i < v->n_derived; i++) {
		if (v->derived[i].kind == kind) {
			return &v->derived[i];
		}
	}
	return NULL;
}

static struct point find_point(const struct roofline *r, const struct group *row)
{
	double time = row->timed[MEASURE_TIME].sum * 1e-9;

	return (struct point){
		.row = row,
		.x = r->intensity ? derived_value(r->intensity, row) : time,
		.y = derived_value(r->intensity ? r->rate : r->bandwidth, row),
	};
}

static void take_points(struct roofline *r)
{
	for (size_t i = 0; i < r->v->n_rows; i++) {
		struct point p = find_point(r, r->v->rows[i]);

		if (i < r->v->n_shown && r->n < ROOFLINE_ROWS && p.x > 0 && p.y > 0 &&
		    isfinite(p.x) && isfinite(p.y)) {
			r->points[r->n++] = p;
		} else {
			r->n_left_out++;
		}
	}
}

/* In a second. */
static double find_peak(const struct roofline *r)
{
	const struct group *all = r->v->all;
	bool known = all->total_peak_bytes > 0; /* it may be NaN */
	double peak = known ? all->total_peak_bytes / all->timed[MEASURE_TIME].sum * 1e9 : 0;

	for (size_t i = 0; i < r->n && !known; i++) {
		double bandwidth = derived_value(r->bandwidth, r->points[i].row);

		peak = bandwidth > peak ? bandwidth : peak;
	}
	return peak;
}

static void find_roof(struct roofline *r)
{
	double peak = find_peak(r);

	r->slope = r->intensity ? peak : 0;
	r->top = r->intensity ? r->v->flop_peak : peak;
	for (size_t i = 0; i < r->n && r->intensity && r->v->flop_peak == 0; i++) {
		r->top = r->points[i].y > r->top ? r->points[i].y : r->top;
	}
}

static double roof_at(const struct roofline *r, double x)
{
	return r->slope > 0 && x * r->slope < r->top ? x * r->slope : r->top;
}

static void widen(struct axis *axis, double value, bool first)
{
	int low = (int)floor(log10(value)), high = (int)ceil(log10(value));

	axis->low = first || low < axis->low ? low : axis->low;
	axis->high = first || high > axis->high ? high : axis->high;
	axis->high += axis->high == axis->low;
}

static void find_axes(struct roofline *r)
{
	for (size_t i = 0; i < r->n; i++) {
		widen(&r->x, r->points[i].x, i == 0);
		widen(&r->y, r->points[i].y, i == 0);
	}
	widen(&r->y, r->top, false);
	if (r->slope > 0) {
		widen(&r->x, r->top / r->slope, false);
	}
}

/* --- cells ----------------------------------------------------------------------------------- */

static size_t cell_of(const struct axis *axis, double value)
{
	double share = (log10(value) - axis->low) / (axis->high - axis->low);
	double cell = share * (double)(axis->cells - 1);

	return cell < 0				  ? 0
	       : cell > (double)(axis->cells - 1) ? axis->cells - 1
						  : (size_t)lround(cell);
}

static char *cell_at(const struct roofline *r, size_t column, double y)
{
	return &r->cells[(r->y.cells - 1 - cell_of(&r->y, y)) * r->x.cells + column];
}

static double value_of(const struct axis *axis, size_t cell)
{
	return pow(10, axis->low + (double)(axis->high - axis->low) * (double)cell /
					   (double)(axis->cells - 1));
}

static void draw(struct roofline *r)
{
	memset(r->cells, CELL_EMPTY, r->x.cells * r->y.cells);
	for (size_t i = 0; i < r->x.cells; i++) {
		double y = roof_at(r, value_of(&r->x, i));

		if (y >= pow(10, r->y.low)) {
			*cell_at(r, i, y) = y < r->top ? CELL_SLOPE : CELL_FLAT;
		}
	}
	for (size_t i = 0; i < r->n; i++) {
		char *cell = cell_at(r, cell_of(&r->x, r->points[i].x), r->points[i].y);

		*cell = *cell == CELL_EMPTY || *cell == CELL_SLOPE || *cell == CELL_FLAT
				? (char)('a' + i)
				: CELL_SEVERAL;
	}
}

/* --- text ------------------------------------------------------------------------------------ */

static void add_spaces(struct buf *b, size_t n)
{
	for (; n > 0; n--) {
		buf_char(b, ' ');
	}
}

static void add_right(struct buf *b, struct buf *field, size_t width)
{
	size_t has = text_width(buf_string(field), field->n);

	add_spaces(b, has < width ? width - has : 0);
	buf_text(b, buf_string(field));
	buf_clear(field);
}

static void add_value(struct buf *b, double value, const char *unit, size_t width)
{
	struct buf field = { 0 };

	text_scaled(&field, value, unit);
	add_right(b, &field, width);
	buf_deinit(&field);
}

static void add_cell(char cell, bool lines, struct buf *b)
{
	if (lines && cell == CELL_SLOPE) {
		buf_text(b, "╱");
	} else if (lines && cell == CELL_FLAT) {
		buf_text(b, "─");
	} else {
		buf_char(b, cell);
	}
}

/* A power of ten that begins in this row; 0: none. */
static double tick_at(const struct axis *axis, size_t cell)
{
	for (int power = axis->low; power <= axis->high; power++) {
		if (cell_of(axis, pow(10, power)) == cell) {
			return pow(10, power);
		}
	}
	return 0;
}

static void add_row(const struct roofline *r, size_t row, bool lines, struct buf *b)
{
	const char *cells = &r->cells[row * r->x.cells];
	double tick = tick_at(&r->y, r->y.cells - 1 - row);
	size_t used = r->x.cells;

	while (used > 0 && cells[used - 1] == CELL_EMPTY) {
		used--;
	}
	if (tick > 0) {
		add_value(b, tick, r->y.unit, LABEL_WIDTH);
	} else {
		add_spaces(b, LABEL_WIDTH);
	}
	buf_text(b, lines ? "│" : "|");
	for (size_t i = 0; i < used; i++) {
		add_cell(cells[i], lines, b);
	}
	buf_char(b, '\n');
}

/* Powers of ten below the cells where they are, as far as they don't touch. */
static void add_ticks(const struct roofline *r, struct buf *b)
{
	size_t at = 0;

	add_spaces(b, LABEL_WIDTH + 1);
	for (int power = r->x.low; power <= r->x.high; power++) {
		size_t cell = cell_of(&r->x, pow(10, power)), n;
		struct buf field = { 0 };

		if (r->intensity) {
			buf_printf(&field, "%g", pow(10, power));
		} else {
			text_scaled(&field, pow(10, power), r->x.unit);
		}
		n = text_width(buf_string(&field), field.n);
		if ((power == r->x.low || cell > at) && cell + n <= r->x.cells) {
			add_spaces(b, cell - at);
			buf_text(b, buf_string(&field));
			at = cell + n;
		}
		buf_deinit(&field);
	}
	buf_char(b, '\n');
}

static void add_axis(const struct roofline *r, bool lines, struct buf *b)
{
	add_spaces(b, LABEL_WIDTH);
	buf_text(b, lines ? "└" : "+");
	for (size_t i = 0; i < r->x.cells; i++) {
		buf_text(b, lines ? "─" : "-");
	}
	buf_char(b, '\n');
	add_ticks(r, b);
}

static void add_legend_row(const struct roofline *r, size_t i, const char *name, size_t width,
			   struct buf *b)
{
	size_t has = text_width(name, strlen(name));

	buf_printf(b, "%c %s", (char)('a' + i), name);
	add_spaces(b, has < width ? width - has : 0);
	buf_char(b, ' ');
	add_value(b, r->points[i].x, r->x.unit, VALUE_WIDTH - 1);
	buf_char(b, ' ');
	add_value(b, r->points[i].y, r->y.unit, VALUE_WIDTH - 1);
	buf_char(b, '\n');
}

static bool add_legend(const struct roofline *r, size_t width, struct buf *b)
{
	const struct group *rows[ROOFLINE_ROWS];
	char **names;

	width -= 2 + VALUE_WIDTH * 2;
	for (size_t i = 0; i < r->n; i++) {
		rows[i] = r->points[i].row;
	}
	names = labels_shorten(r->v, rows, r->n, width);
	buf_printf(b, "\n%*s%*s%*s\n", (int)width + 2, "", VALUE_WIDTH, r->x.name, VALUE_WIDTH,
		   r->y.name);
	for (size_t i = 0; names && i < r->n; i++) {
		add_legend_row(r, i, names[i], width, b);
	}
	names_free(names, r->n);
	return names != NULL;
}

static void add_notes(const struct roofline *r, struct buf *b)
{
	bool known = r->v->all->total_peak_bytes > 0;

	if (memchr(r->cells, CELL_SEVERAL, r->x.cells * r->y.cells)) {
		buf_text(b, "* is several rows\n");
	}
	if (r->n_left_out > 0) {
		text_count(b, r->n_left_out);
		buf_text(b, " rows more, or without the values, are not drawn\n");
	}
	buf_printf(b, "%s: ", r->slope > 0 ? "slope" : "roof");
	text_scaled(b, r->slope > 0 ? r->slope : r->top, "byte/second");
	buf_printf(b, ", %s\n", known ? "the memory's peak" : "the highest measured");
	if (r->slope > 0) {
		buf_text(b, "flat part: ");
		text_scaled(b, r->top, r->y.unit);
		if (r->v->flop_peak > 0) {
			buf_printf(b, ", the peak of the tensor cores in %s\n", r->v->flop_peak_of);
		} else {
			buf_text(b, ", the highest measured\n");
		}
	} else {
		buf_text(b, "no operations were measured: this is bandwidth by time\n");
	}
}

/* --- all ------------------------------------------------------------------------------------- */

static bool init(struct roofline *r, const struct view *v)
{
	*r = (struct roofline){ .v = v,
				.intensity = find_kind(v, DERIVED_INTENSITY),
				.rate = find_kind(v, DERIVED_RATE),
				.bandwidth = find_kind(v, DERIVED_BANDWIDTH) };
	r->x.name = r->intensity ? r->intensity->name : "time";
	r->x.unit = r->intensity ? r->intensity->unit : "second";
	if (r->bandwidth) {
		r->y.name = r->intensity ? r->rate->name : "bandwidth";
		r->y.unit = r->intensity ? r->rate->unit : r->bandwidth->unit;
		take_points(r);
	}
	return r->n > 0;
}

/* What would have to be captured for a picture. */
static void explain(const struct roofline *r, struct buf *why)
{
	if (!r->bandwidth) {
		buf_text(why, "no row has bytes: capture with --metrics roofline, or memory");
	} else if (r->v->all->timed[MEASURE_TIME].n == 0) {
		buf_text(why, "no kernel in it has a time, without which there is no rate: capture "
			      "with gpu__time_duration.sum among the --metrics as well");
	} else {
		buf_text(why, "no row that is shown has both bytes and a time above 0; --limit 0 "
			      "or another --by may show one that has");
	}
}

int roofline_print(const struct view *v, size_t width, bool lines, struct buf *b, struct buf *why)
{
	struct roofline r;
	size_t height = width / COLUMNS_A_ROW;
	bool ok;

	if (!init(&r, v)) {
		explain(&r, why);
		return -EINVAL;
	}
	r.x.cells = width - LABEL_WIDTH - 1;
	r.y.cells = height < HEIGHT_MIN ? HEIGHT_MIN : height > HEIGHT_MAX ? HEIGHT_MAX : height;
	r.cells = malloc(r.x.cells * r.y.cells);
	if (!r.cells) {
		return -ENOMEM;
	}
	find_roof(&r);
	find_axes(&r);
	draw(&r);
	for (size_t row = 0; row < r.y.cells; row++) {
		add_row(&r, row, lines, b);
	}
	add_axis(&r, lines, b);
	ok = add_legend(&r, width, b);
	add_notes(&r, b);
	free(r.cells);
	return ok && !b->failed ? 0 : -ENOMEM;
}
