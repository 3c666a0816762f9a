/* SPDX-License-Identifier: Apache-2.0 */

/* The normal equations N x = r of least squares, N = A'A, r = A'y, of which only N and r are kept:
 * their size does not depend on the number of equations.
 *
 * N couples unknowns that share an equation: kernels that follow each other. So in a good order
 * (order.h) N is a band. The factorisation N = L D L' keeps each row of L from its first coupled
 * column on (George and Liu, Computer Solution of Large Sparse Positive Definite Systems, chapter
 * 4: envelope methods): there is no fill outside. The diagonal of N's inverse, which standard
 * errors need, comes from the same rows (Takahashi, Fagan and Chen, PICA 1973; Erisman and Tinney,
 * CACM 18, 1975).
 *
 * The solution is not negative: negative unknowns are held at 0 and the others solved again, until
 * no unknown is negative and none that is held would become positive (block principal pivoting of
 * Portugal, Judice and Vicente, Math. Comp. 63, 1994, bounded in rounds). */

#include "client/attribution/normal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/attribution/order.h"

/* Limits of the envelope, and of the multiplications of one factorisation. */
#define ENTRIES_MOST ((size_t)32 << 20)
#define WORK_MOST 3e10
#define ROUNDS_MOST 12
/* Costs in operations of effort.h: of a pair of unknowns in an equation, of a multiplication of a
 * factorisation, of one of the inverse, and of an entry in a solution. */
#define ADD_COST 8
#define FACTOR_COST 0.4
#define INVERSE_COST 1.5
#define SOLVE_COST 4
/* Memory of an entry: in N, L and the inverse, and its row number in struct columns. */
#define ENTRY_BYTES (3 * sizeof(double) + sizeof(uint32_t))
/* A pivot smaller than this part of its diagonal entry is a rounding error: the unknown depends on
 * those before it. */
#define PIVOT_LEAST 1e-9

void normal_release(struct normal *n)
{
	effort_give_back(n->effort, n->pairs_size * sizeof(*n->pairs));
	free(n->pairs);
	n->pairs = NULL;
	n->pairs_used = n->pairs_size = 0;
}

void normal_deinit(struct normal *n)
{
	normal_release(n);
	free(n->diagonal);
	free(n->right);
	*n = (struct normal){ .effort = n->effort };
}

void normal_clear(struct normal *n)
{
	n->unknowns = 0;
	n->pairs_used = 0;
	n->squares = 0;
	n->is_full = 0;
	if (n->pairs) {
		memset(n->pairs, 0, n->pairs_size * sizeof(*n->pairs));
	}
}

static int grow_column(double **column, size_t want)
{
	double *now = realloc(*column, want * sizeof(double));

	if (!now) {
		return -ENOMEM;
	}
	*column = now;
	return 0;
}

int normal_grow(struct normal *n, uint32_t unknowns)
{
	size_t had = n->unknowns, room;

	if (unknowns <= had) {
		return 0;
	}
	if (unknowns > n->room) {
		room = unknowns + (size_t)unknowns / 2;
		if (grow_column(&n->diagonal, room) < 0 || grow_column(&n->right, room) < 0) {
			return -ENOMEM;
		}
		n->room = (uint32_t)room;
	}
	memset(n->diagonal + had, 0, (unknowns - had) * sizeof(double));
	memset(n->right + had, 0, (unknowns - had) * sizeof(double));
	n->unknowns = unknowns;
	return 0;
}

static struct normal_pair *pair_find(struct normal_pair *pairs, size_t size, uint64_t key)
{
	size_t at = (size_t)((key * 0x9E3779B97F4A7C15ULL) >> 20) & (size - 1);

	while (pairs[at].key != 0 && pairs[at].key != key) {
		at = (at + 1) & (size - 1);
	}
	return &pairs[at];
}

/* Positive: the effort allows no more memory. */
static int pairs_grow(struct normal *n)
{
	size_t size = n->pairs_size ? n->pairs_size * 2 : 1024;
	struct normal_pair *pairs;

	if (effort_take(n->effort, size * sizeof(*pairs))) {
		return 1;
	}
	pairs = calloc(size, sizeof(*pairs));
	if (!pairs) {
		effort_give_back(n->effort, size * sizeof(*pairs));
		return -ENOMEM;
	}
	for (size_t i = 0; i < n->pairs_size; i++) {
		if (n->pairs[i].key != 0) {
			*pair_find(pairs, size, n->pairs[i].key) = n->pairs[i];
		}
	}
	effort_give_back(n->effort, n->pairs_size * sizeof(*pairs));
	free(n->pairs);
	n->pairs = pairs;
	n->pairs_size = size;
	return 0;
}

static size_t entries_most(const struct normal *n)
{
	return n->entries_most ? n->entries_most : ENTRIES_MOST;
}

/* Drops all pairs: too many to solve, because each is in the envelope in any order. */
static void give_up(struct normal *n)
{
	normal_release(n);
	n->is_full = 1;
}

static int pair_add(struct normal *n, uint32_t a, uint32_t b, double value)
{
	uint64_t key = a > b ? (uint64_t)a << 32 | (b + 1) : (uint64_t)b << 32 | (a + 1);
	struct normal_pair *pair;
	int r = n->pairs_used * 2 >= n->pairs_size ? pairs_grow(n) : 0;

	if (r != 0) {
		return r;
	}
	pair = pair_find(n->pairs, n->pairs_size, key);
	if (pair->key == 0) {
		pair->key = key;
		n->pairs_used++;
	}
	pair->value += value;
	return 0;
}

int normal_add(struct normal *n, const uint32_t *unknowns, const double *coefficients,
	       uint32_t count, double value)
{
	if (n->is_full) {
		return 0;
	}
	if (effort_spend(n->effort, ADD_COST * count * count)) {
		return 1;
	}
	for (uint32_t i = 0; i < count; i++) {
		n->diagonal[unknowns[i]] += coefficients[i] * coefficients[i];
		n->right[unknowns[i]] += coefficients[i] * value;
		for (uint32_t j = 0; j < i; j++) {
			int r = pair_add(n, unknowns[i], unknowns[j],
					 coefficients[i] * coefficients[j]);

			if (r > 0) {
				give_up(n);
			}
			if (r != 0) {
				return r < 0 ? r : 0;
			}
		}
	}
	n->squares += value * value;
	if (n->pairs_used > entries_most(n)) {
		give_up(n);
	}
	return 0;
}

/* L D L' in its envelope: row i has columns first[i] to i - 1 at rows[offset[i] - first[i] +
 * column]. */
struct factor {
	struct effort *effort;
	uint32_t unknowns;
	uint32_t *order; /* the row of each unknown */
	uint32_t *first;
	size_t *offset;
	double *matrix;		  /* N in the envelope */
	double *diagonal, *right; /* diagonal of N, and r, by row like those below */
	double *rows;		  /* L in the envelope */
	double *pivot;		  /* D; 0 where an unknown is left out */
	double *x;
	size_t bytes; /* taken from the effort */
};

static void factor_deinit(struct factor *f)
{
	effort_give_back(f->effort, f->bytes);
	free(f->order);
	free(f->first);
	free(f->offset);
	free(f->matrix);
	free(f->diagonal);
	free(f->right);
	free(f->rows);
	free(f->pivot);
	free(f->x);
}

static double *row_of(double *entries, const struct factor *f, uint32_t i)
{
	return entries + f->offset[i] - f->first[i];
}

/* Keeps the unknowns in their own order, if its envelope is no larger than another's. */
static int choose_order(struct factor *f, const struct normal *n)
{
	uint32_t *natural = malloc(((size_t)n->unknowns + 1) * sizeof(*natural));
	size_t entries;
	int r = natural ? order_rows(n, f->order) : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < n->unknowns; i++) {
		natural[i] = i;
	}
	if (r == 0) {
		entries = order_envelope(n, natural, f->first);
		if (entries <= order_envelope(n, f->order, f->first)) {
			order_envelope(n, natural, f->first);
			memcpy(f->order, natural, n->unknowns * sizeof(*natural));
		}
	}
	free(natural);
	return r;
}

/* Positive: the envelope is too large. */
static int lay_out(struct factor *f, const struct normal *n)
{
	size_t entries = 0;
	double work = 0, work_most = n->work_most > 0 ? n->work_most : WORK_MOST;

	for (uint32_t i = 0; i < f->unknowns; i++) {
		f->offset[i] = entries;
		entries += i - f->first[i];
		for (uint32_t j = f->first[i]; j < i; j++) {
			work += j - (f->first[i] > f->first[j] ? f->first[i] : f->first[j]);
		}
		if (entries > entries_most(n) || work > work_most ||
		    effort_spend(n->effort, i - f->first[i])) {
			return 1;
		}
	}
	if (effort_reserve(n->effort, FACTOR_COST * work) ||
	    effort_take(n->effort, entries * ENTRY_BYTES)) {
		return 1;
	}
	f->bytes = entries * ENTRY_BYTES;
	f->matrix = calloc(entries + 1, sizeof(double));
	f->rows = malloc((entries + 1) * sizeof(double));
	return f->matrix && f->rows ? 0 : -ENOMEM;
}

static void copy_entries(struct factor *f, const struct normal *n)
{
	for (uint32_t i = 0; i < n->unknowns; i++) {
		f->diagonal[f->order[i]] = n->diagonal[i];
		f->right[f->order[i]] = n->right[i];
	}
	for (size_t i = 0; i < n->pairs_size; i++) {
		const struct normal_pair *p = &n->pairs[i];
		uint32_t a, b;

		if (p->key != 0) {
			a = f->order[p->key >> 32];
			b = f->order[(uint32_t)p->key - 1];
			row_of(f->matrix, f, a > b ? a : b)[a > b ? b : a] = p->value;
		}
	}
}

/* Positive: the envelope is too large. */
static int factor_init(struct factor *f, const struct normal *n)
{
	size_t size = (size_t)n->unknowns + 1;
	int r;

	*f = (struct factor){ .effort = n->effort, .unknowns = n->unknowns };
	f->order = malloc(size * sizeof(*f->order));
	f->first = malloc(size * sizeof(*f->first));
	f->offset = malloc(size * sizeof(*f->offset));
	f->diagonal = malloc(size * sizeof(*f->diagonal));
	f->right = malloc(size * sizeof(*f->right));
	f->pivot = calloc(size, sizeof(*f->pivot));
	f->x = calloc(size, sizeof(*f->x));
	if (!f->order || !f->first || !f->offset || !f->diagonal || !f->right || !f->pivot ||
	    !f->x) {
		return -ENOMEM;
	}
	r = choose_order(f, n);
	r = r == 0 ? lay_out(f, n) : r;
	if (r == 0) {
		copy_entries(f, n);
	}
	return r;
}

/* Uses four sums that do not depend on each other, so that the processor adds them in parallel. */
static double multiply(const double *a, const double *b, uint32_t n)
{
	double sums[4] = { 0 };
	uint32_t i = 0;

	for (; i + 4 <= n; i += 4) {
		sums[0] += a[i] * b[i];
		sums[1] += a[i + 1] * b[i + 1];
		sums[2] += a[i + 2] * b[i + 2];
		sums[3] += a[i + 3] * b[i + 3];
	}
	for (; i < n; i++) {
		sums[0] += a[i] * b[i];
	}
	return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* Factors the rows of unknowns that are not held at 0. Positive: the effort is over. */
static int factor_compute(struct factor *f, const unsigned char *held)
{
	for (uint32_t i = 0; i < f->unknowns; i++) {
		double work = 0;
		double *row = row_of(f->rows, f, i), left = f->diagonal[i];
		const double *matrix = row_of(f->matrix, f, i);

		for (uint32_t j = f->first[i]; j < i; j++) {
			const double *other = row_of(f->rows, f, j);
			uint32_t k = f->first[i] > f->first[j] ? f->first[i] : f->first[j];

			work += j - k;
			row[j] = f->pivot[j] > 0 && !held[i]
					 ? matrix[j] - multiply(row + k, other + k, j - k)
					 : 0;
		}
		for (uint32_t j = f->first[i]; j < i; j++) {
			double scaled = f->pivot[j] > 0 ? row[j] / f->pivot[j] : 0;

			left -= scaled * row[j];
			row[j] = scaled;
		}
		f->pivot[i] = !held[i] && left > PIVOT_LEAST * f->diagonal[i] ? left : 0;
		if (effort_spend(f->effort, FACTOR_COST * work + i - f->first[i])) {
			return 1;
		}
	}
	return 0;
}

/* Solves L' y = x in place. */
static void factor_back(struct factor *f, double *x)
{
	for (uint32_t i = f->unknowns; i-- > 0;) {
		const double *row = row_of(f->rows, f, i);

		for (uint32_t j = f->first[i]; j < i; j++) {
			x[j] -= row[j] * x[i];
		}
	}
}

/* Solves N y = x in place; an unknown without a pivot becomes 0. */
static void factor_solve(struct factor *f, double *x)
{
	for (uint32_t i = 0; i < f->unknowns; i++) {
		const double *row = row_of(f->rows, f, i);

		for (uint32_t j = f->first[i]; j < i; j++) {
			x[i] -= row[j] * x[j];
		}
		if (!(f->pivot[i] > 0)) {
			x[i] = 0;
		}
	}
	for (uint32_t i = 0; i < f->unknowns; i++) {
		x[i] = f->pivot[i] > 0 ? x[i] / f->pivot[i] : 0;
	}
	for (uint32_t i = f->unknowns; i-- > 0;) {
		const double *row = row_of(f->rows, f, i);

		if (!(f->pivot[i] > 0)) {
			x[i] = 0;
			continue;
		}
		for (uint32_t j = f->first[i]; j < i; j++) {
			x[j] -= row[j] * x[i];
		}
	}
}

/* For each column, the rows whose envelope includes it. */
struct columns {
	size_t *start;
	uint32_t *rows;
};

static int columns_init(struct columns *c, const struct factor *f)
{
	size_t entries = 0;

	c->start = calloc((size_t)f->unknowns + 2, sizeof(*c->start));
	if (!c->start) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < f->unknowns; i++) {
		entries += i - f->first[i];
		for (uint32_t j = f->first[i]; j < i; j++) {
			c->start[j + 2]++;
		}
	}
	for (uint32_t j = 2; j < f->unknowns + 2; j++) {
		c->start[j] += c->start[j - 1];
	}
	c->rows = malloc((entries + 1) * sizeof(*c->rows));
	if (!c->rows) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < f->unknowns; i++) {
		for (uint32_t j = f->first[i]; j < i; j++) {
			c->rows[c->start[j + 1]++] = i;
		}
	}
	return 0;
}

/* Calculates column j of the inverse, on and below the diagonal, from the columns after it. */
static void inverse_column(const struct factor *f, const struct columns *c, double *entries,
			   double *inverse, uint32_t j)
{
	const uint32_t *rows = c->rows + c->start[j];
	size_t count = c->start[j + 1] - c->start[j];
	double own = f->pivot[j] > 0 ? 1 / f->pivot[j] : 0;

	for (size_t a = 0; a < count; a++) {
		uint32_t i = rows[a];
		double sum = 0;

		for (size_t b = 0; b < count; b++) {
			uint32_t k = rows[b];
			double z = k == i  ? inverse[i]
				   : k > i ? row_of(entries, f, k)[i]
					   : row_of(entries, f, i)[k];

			sum -= row_of(f->rows, f, k)[j] * z;
		}
		row_of(entries, f, i)[j] = sum;
	}
	for (size_t a = 0; a < count; a++) {
		own -= row_of(f->rows, f, rows[a])[j] * row_of(entries, f, rows[a])[j];
	}
	inverse[j] = f->pivot[j] > 0 ? own : 0;
}

/* An unknown without a pivot depends on others, and the errors of all of these are infinite. These
 * unknowns are found by a vector v with N v = 0: the sum of all such vectors, with arbitrary
 * factors, is 0 only for unknowns that depend on no other. */
static int mark_together(struct factor *f, double *inverse)
{
	double *null = calloc((size_t)f->unknowns + 1, sizeof(*null)), any = 1;

	if (!null) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < f->unknowns; i++) {
		any = fmod(any * 1.618034 + 0.382, 2);
		null[i] = f->diagonal[i] > 0 && !(f->pivot[i] > 0) ? 1 + any : 0;
	}
	factor_back(f, null);
	for (uint32_t i = 0; i < f->unknowns; i++) {
		if (f->diagonal[i] > 0 && fabs(null[i]) > 1e-3) {
			inverse[i] = INFINITY;
		}
	}
	free(null);
	return 0;
}

static int compute_inverse(struct factor *f, double *inverse)
{
	size_t entries = f->unknowns ? f->offset[f->unknowns - 1] + f->unknowns : 0;
	double *values = calloc(entries + 1, sizeof(*values));
	struct columns c = { NULL, NULL };
	int r = values ? columns_init(&c, f) : -ENOMEM;

	for (uint32_t j = f->unknowns; r == 0 && j-- > 0;) {
		double count = (double)(c.start[j + 1] - c.start[j]);

		r = effort_spend(f->effort, INVERSE_COST * count * count);
		if (r == 0) {
			inverse_column(f, &c, values, inverse, j);
		}
	}
	if (r == 0) {
		r = mark_together(f, inverse);
	}
	free(values);
	free(c.start);
	free(c.rows);
	return r;
}

/* Fills slope with r - N x. An unknown held at 0 with a positive slope is to be released. */
static void compute_slopes(const struct factor *f, double *slope)
{
	const double *x = f->x;

	for (uint32_t i = 0; i < f->unknowns; i++) {
		const double *matrix = row_of(f->matrix, f, i);

		slope[i] = f->right[i] - f->diagonal[i] * x[i];
		for (uint32_t j = f->first[i]; j < i; j++) {
			slope[i] -= matrix[j] * x[j];
			slope[j] -= matrix[j] * x[i];
		}
	}
}

/* Holds unknowns at 0 that are negative, and releases those that should be positive. Returns
 * whether anything changed. */
static int exchange(const struct factor *f, const double *slope, unsigned char *held, int release)
{
	int changed = 0;

	for (uint32_t i = 0; i < f->unknowns; i++) {
		if (!held[i] && f->x[i] < 0) {
			held[i] = 1;
			changed = 1;
		} else if (release && held[i] && slope[i] > 1e-9 * f->diagonal[i]) {
			held[i] = 0;
			changed = 1;
		}
	}
	return changed;
}

/* factored: the matrix is factored already, and no unknown is held at 0. Positive: the effort is
 * over. */
static int solve_positive(struct factor *f, int factored, double *slope, unsigned char *held)
{
	size_t entries = f->unknowns ? f->offset[f->unknowns - 1] + f->unknowns : 0;

	for (int round = 0; round <= ROUNDS_MOST; round++) {
		if ((round > 0 || !factored) && factor_compute(f, held)) {
			return 1;
		}
		if (effort_spend(f->effort, SOLVE_COST * (double)entries)) {
			return 1;
		}
		memcpy(f->x, f->right, f->unknowns * sizeof(*f->x));
		factor_solve(f, f->x);
		if (round == ROUNDS_MOST) {
			break;
		}
		compute_slopes(f, slope);
		if (!exchange(f, slope, held, round < ROUNDS_MOST / 2)) {
			break;
		}
	}
	for (uint32_t i = 0; i < f->unknowns; i++) {
		f->x[i] = f->x[i] > 0 ? f->x[i] : 0;
	}
	return 0;
}

static void tell(const struct factor *f, const double *rows, double *ret)
{
	for (uint32_t i = 0; i < f->unknowns; i++) {
		ret[i] = rows[f->order[i]];
	}
}

static int solve(struct factor *f, double *solution, double *inverse)
{
	double *values = calloc((size_t)f->unknowns + 1, sizeof(*values));
	unsigned char *held = calloc((size_t)f->unknowns + 1, 1);
	int r = values && held ? 0 : -ENOMEM;

	if (r == 0 && inverse) {
		r = factor_compute(f, held);
		r = r ? r : compute_inverse(f, values);
	}
	if (r == 0 && inverse) {
		tell(f, values, inverse);
	}
	if (r == 0) {
		r = solve_positive(f, inverse != NULL, values, held);
	}
	if (r == 0) {
		tell(f, f->x, solution);
	}
	free(held);
	free(values);
	return r;
}

int normal_solve(const struct normal *n, double *solution, double *inverse)
{
	struct factor f = { .effort = n->effort };
	int r = n->is_full ? 1 : factor_init(&f, n);

	if (n->unknowns > 0) {
		memset(solution, 0, n->unknowns * sizeof(*solution));
	}
	if (inverse && n->unknowns > 0) {
		memset(inverse, 0, n->unknowns * sizeof(*inverse));
	}
	if (r == 0 && n->unknowns > 0) {
		r = solve(&f, solution, inverse);
	}
	if (r != 0 && inverse && n->unknowns > 0) {
		memset(inverse, 0, n->unknowns * sizeof(*inverse));
	}
	factor_deinit(&f);
	return r;
}

double normal_left(const struct normal *n, const double *solution)
{
	double left = n->squares;

	for (uint32_t i = 0; i < n->unknowns; i++) {
		left -= solution[i] * n->right[i];
	}
	return left > 0 ? left : 0;
}
