/* SPDX-License-Identifier: Apache-2.0 */
#include "client/estimate/estimate_internal.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Of N launches in a stratum n were measured, launch i with the chance p_i. The total is
 *
 *	sum of what was measured + (N - n) * mean of the others
 *
 * and that mean is the mean of what was measured, weighted with the odds w_i = (1 - p_i) / p_i:
 * a launch with the chance p stands for 1 / p launches, itself and w others. Without the mean's
 * denominator this is the estimator of Horvitz and Thompson (Cochran, Sampling Techniques, 3rd
 * ed., section 9A.7), right on average whatever the values are; with it, it is the
 * post-stratified one (section 5A.9), which knows N and so does not suffer when more or fewer
 * launches were chosen than expected. With equal chances it is N times the mean, and its
 * variance is N (N - n) s^2 / n (theorem 2.2). A launch that was certain to be measured, as the
 * first of its stratum is, has odds 0 and says nothing of the others, until there is nothing
 * else to go by.
 *
 * The variance is the larger one of two estimates.
 *
 * - Of values that differ at random, each with the variance s^2, the unmeasured ones together
 *   have (N - n) s^2, and their mean is known to s^2 / m, where m = (sum w)^2 / sum w^2 is the
 *   number of equally likely launches that would tell as much (Kish, Survey Sampling, chapter
 *   11): together s^2 (N - n) (1 + (N - n) / m).
 * - Where chances and values changed together, as in a program with phases, that is too little.
 *   The linearised variance of the weighted mean (Cochran, section 6.3 for a ratio, 9A.7 for
 *   the weights) sums g^2 w_i^2 r_i^2 over the deviations r_i from the mean, where
 *   g = (N - n) / sum w, and adds the deviations of the unmeasured ones themselves, g w_i r_i^2.
 *   It is taken m / (m - 1) times, because the mean lies nearer to the values than the truth.
 *
 * Where metrics take turns, launches are drawn in clusters: a turn is drawn, and launches within
 * it. In a program that changes more slowly than turns do, its launches are alike. So in place of
 * the second estimate there is one of turns, and the larger counts: g^2 times the sum over turns of
 * the squares of their weighted deviations, sum (w_i r_i), n / (n - 1) times for n turns (Cochran,
 * section 9A.7, with the turns as units; Wolter, Introduction to Variance Estimation, 2nd ed.,
 * chapter 2). One turn alone says nothing of it, however many launches it had: it counts for no
 * more than one launch, and of n turns there are n - 1 degrees of freedom. In a program that drifts
 * the error is too large, because each round has a turn and turns are so spread over the run more
 * evenly than chance would do it.
 *
 * From few launches s^2 itself is known badly, and a few that happen to be alike are surest of
 * themselves. Against that there are two things.
 *
 * - The error is widened by Student's distribution, to the part that makes two errors hold the
 *   truth in 95 of 100 cases. To hold it within one in 68 would need less, and from two launches 11
 *   of 100 were then further off than three errors.
 * - s^2 is taken together with what the other strata have shown of theirs (Smyth, Statistical
 *   Applications in Genetics and Molecular Biology 3, 2004, article 3: moderated t): the logarithms
 *   of their relative variances have a mean and, beyond what chance makes of variances from few
 *   launches, a variance of their own. From that follows how many launches the common variance is
 *   worth, in each stratum: many where strata are alike, next to none where each is different.
 *   Where all launches had the same value that is taken for a fact about the kernel, and left as
 *   it is. Of one launch alone the common variance is all there is. Where strata differ in it, that
 *   counts for up to one launch less: which strata were measured more often, and so have shown it,
 *   is not independent of what it is.
 */

/* --- moments --- */

/* Adds a value with its weight (West, Communications of the ACM 22, 1979; Welford's recurrence for
 * weights). */
void estimate_moments_add(struct estimate_moments *m, double weight, const double v[2])
{
	double before[2], part;

	m->weight += weight;
	if (!(m->weight > 0)) {
		return;
	}
	part = weight / m->weight;
	for (int i = 0; i < 2; i++) {
		before[i] = v[i] - m->mean[i];
		m->mean[i] += before[i] * part;
		m->m2[i] += weight * before[i] * (v[i] - m->mean[i]);
	}
	m->cross += weight * before[0] * (v[1] - m->mean[1]);
}

/* Two sets of values become one (Chan, Golub and LeVeque, COMPSTAT 1982). */
static void merge_moments(struct estimate_moments *m, const struct estimate_moments *o)
{
	double weight = m->weight + o->weight, apart[2], both;

	if (!(o->weight > 0)) {
		return;
	}
	both = m->weight * o->weight / weight;
	for (int i = 0; i < 2; i++) {
		apart[i] = o->mean[i] - m->mean[i];
		m->m2[i] += o->m2[i] + apart[i] * apart[i] * both;
		m->mean[i] += apart[i] * o->weight / weight;
	}
	m->cross += o->cross + apart[0] * apart[1] * both;
	m->weight = weight;
}

/* Neumaier's summation: a total of everything is what the records add up to. */
static void add_sum(struct estimate_sample *s, int i, double v)
{
	double sum = s->sum[i] + v;

	s->lost[i] += fabs(s->sum[i]) >= fabs(v) ? s->sum[i] - sum + v : v - sum + s->sum[i];
	s->sum[i] = sum;
}

static void end_turn(struct estimate_turns *t)
{
	if (t->weight > 0) {
		t->n++;
		t->weight_2 += t->weight * t->weight;
		for (int i = 0; i < 2; i++) {
			t->weight_apart[i] += t->weight * t->apart[i];
			t->apart_2[i] += t->apart[i] * t->apart[i];
		}
		t->cross += t->apart[0] * t->apart[1];
	}
	t->weight = t->apart[0] = t->apart[1] = 0;
}

static void add_to_turn(struct estimate_sample *s, double odds, const double v[2], uint64_t turn)
{
	struct estimate_turns *t = &s->turns;

	if (s->n == 1) {
		memcpy(t->pivot, v, sizeof(t->pivot));
	}
	if (turn != t->turn) {
		end_turn(t);
		t->turn = turn;
	}
	t->weight += odds;
	for (int i = 0; i < 2; i++) {
		t->apart[i] += odds * (v[i] - t->pivot[i]);
	}
}

/* The same by another pivot. */
static void move_pivot(struct estimate_turns *t, const double pivot[2])
{
	double d[2] = { t->pivot[0] - pivot[0], t->pivot[1] - pivot[1] };

	t->cross +=
		d[1] * t->weight_apart[0] + d[0] * t->weight_apart[1] + d[0] * d[1] * t->weight_2;
	for (int i = 0; i < 2; i++) {
		t->apart[i] += d[i] * t->weight;
		t->apart_2[i] += 2 * d[i] * t->weight_apart[i] + d[i] * d[i] * t->weight_2;
		t->weight_apart[i] += d[i] * t->weight_2;
		t->pivot[i] = pivot[i];
	}
}

/* A turn that is under way in both is one turn; turns that have ended are different ones. */
static void merge_turns(struct estimate_turns *t, const struct estimate_turns *other)
{
	struct estimate_turns o = *other;

	move_pivot(&o, t->pivot);
	if (o.turn != t->turn) {
		end_turn(t);
		t->turn = o.turn;
	}
	t->n += o.n;
	t->weight += o.weight;
	t->weight_2 += o.weight_2;
	t->cross += o.cross;
	for (int i = 0; i < 2; i++) {
		t->apart[i] += o.apart[i];
		t->apart_2[i] += o.apart_2[i];
		t->weight_apart[i] += o.weight_apart[i];
	}
}

void estimate_add(struct estimate_sample *s, double x, double y, double chance)
{
	estimate_add_in_turn(s, x, y, chance, 0);
}

void estimate_add_in_turn(struct estimate_sample *s, double x, double y, double chance,
			  uint64_t turn)
{
	const double v[2] = { x, y };
	double odds = (1 - chance) / chance;

	s->n++;
	add_sum(s, 0, x);
	add_sum(s, 1, y);
	estimate_moments_add(&s->all, 1, v);
	if (odds > 0) {
		s->n_free++;
		estimate_moments_add(&s->free, 1, v);
		estimate_moments_add(&s->odds, odds, v);
		estimate_moments_add(&s->square, odds * odds, v);
	}
	add_to_turn(s, odds > 0 ? odds : 0, v, turn);
}

void estimate_merge(struct estimate_sample *s, const struct estimate_sample *other)
{
	if (s->n == 0) {
		memcpy(s->turns.pivot, other->turns.pivot, sizeof(s->turns.pivot));
	}
	s->n += other->n;
	s->n_free += other->n_free;
	for (int i = 0; i < 2; i++) {
		add_sum(s, i, other->sum[i]);
		s->lost[i] += other->lost[i];
	}
	merge_moments(&s->all, &other->all);
	merge_moments(&s->free, &other->free);
	merge_moments(&s->odds, &other->odds);
	merge_moments(&s->square, &other->square);
	merge_turns(&s->turns, &other->turns);
}

/* The number of turns that have launches which represent others. */
static uint64_t number_of_turns(const struct estimate_sample *s)
{
	return s->turns.n + (s->turns.weight > 0);
}

static bool is_of_one_turn(const struct estimate_sample *s)
{
	return s->turns.turn > 0 && number_of_turns(s) < 2;
}

/* Adds what whole has more than the part, with the value 0. A rest that is due to rounding must not
 * become a weight. */
static struct estimate_moments zeros_of(const struct estimate_moments *whole,
					const struct estimate_moments *part)
{
	double weight = whole->weight - part->weight;

	return (struct estimate_moments){ .weight = weight > 1e-12 * whole->weight ? weight : 0 };
}

void estimate_widen(struct estimate_sample *part, const struct estimate_sample *whole)
{
	const struct estimate_sample zeros = {
		.n = whole->n - part->n,
		.n_free = whole->n_free - part->n_free,
		.all = zeros_of(&whole->all, &part->all),
		.free = zeros_of(&whole->free, &part->free),
		.odds = zeros_of(&whole->odds, &part->odds),
		.square = zeros_of(&whole->square, &part->square),
	};

	if (zeros.n > 0) {
		estimate_merge(part, &zeros);
		/* In which turns the zeros were is only known if there was one turn. */
		part->turns = (struct estimate_turns){
			.turn = is_of_one_turn(whole) ? whole->turns.turn : 0,
		};
	}
}

/* --- variance --- */

/* The number of launches that, with equal chances, would give as much information. */
static double effective_number(const struct estimate_sample *s)
{
	if (is_of_one_turn(s)) {
		return 1;
	}
	return s->n_free > 0 ? s->odds.weight * s->odds.weight / s->square.weight : (double)s->n;
}

/* Widens a variance that is known with so many degrees of freedom. */
double estimate_student_factor(double degrees)
{
	/* The 97.5 % quantile of Student's distribution by the normal one, for 1 / degrees of
	 * freedom in tenths; between them a straight line is off by 1 %. */
	static const double at[] = { 1,	     1.1368, 1.3115, 1.5356, 1.8238, 2.1953,
				     2.6747, 3.2942, 4.0960, 5.1348, 6.4829 };
	double tenths = degrees > 1 ? 10 / degrees : 10;
	size_t i = tenths < 9 ? (size_t)tenths : 9;
	double t = at[i] + (at[i + 1] - at[i]) * (tenths - (double)i);

	return t * t;
}

const struct estimate_moments *estimate_values(const struct estimate_sample *s)
{
	return s->n_free >= 2 ? &s->free : &s->all;
}

/* Rounding makes equal values differ a little. */
bool estimate_differ(const struct estimate_moments *m, int i)
{
	return m->m2[i] > 1e-18 * m->weight * m->mean[i] * m->mean[i];
}

/* The degrees of freedom of the values' variance: launches that are drawn together count as one. */
double estimate_degrees(const struct estimate_sample *s)
{
	double launches = estimate_values(s)->weight - 1, turns = (double)number_of_turns(s) - 1;

	if (s->turns.turn == 0 || launches < turns) {
		return launches;
	}
	return turns > 0 ? turns : 0;
}

/* The variance of the values, known with so many degrees of freedom. */
static double moderated(const struct estimate_moments *m, int i, double degrees,
			const struct estimate_prior *prior, double *ret_degrees)
{
	double squares = m->weight > 1 ? m->m2[i] * degrees / (m->weight - 1) : 0;

	if (prior && prior->launches[i] > 0 && (degrees == 0 || estimate_differ(m, i))) {
		degrees += prior->launches[i];
		squares += prior->launches[i] * prior->variance[i] * m->mean[i] * m->mean[i];
	}
	*ret_degrees = degrees;
	return degrees > 0 ? squares / degrees : 0;
}

/* The variance if values differ at random. Both metrics keep their correlation. */
static struct estimate_variance random_variance(const struct estimate_sample *s, double unmeasured,
						const struct estimate_prior *prior)
{
	const struct estimate_moments *m = estimate_values(s);
	double factor = unmeasured * (1 + unmeasured / effective_number(s));
	struct estimate_variance v = { { 0, 0 }, 0 };
	double degrees, both = m->m2[0] * m->m2[1];

	for (int i = 0; i < 2; i++) {
		double own = estimate_degrees(s), variance = moderated(m, i, own, prior, &degrees);

		degrees -= own > 0 ? 0 : 1 - degrees / ESTIMATE_LAUNCHES_MOST;
		v.of[i] = variance * factor * estimate_student_factor(degrees);
	}
	v.covariance =
		both > 0 ? m->cross * sqrt(v.of[0] / m->m2[0]) * sqrt(v.of[1] / m->m2[1]) : 0;
	return v;
}

/* Squares and products around the mean that odds give. */
static struct estimate_variance linearised_sum(const struct estimate_sample *s, double g)
{
	const struct estimate_moments *o = &s->odds, *q = &s->square;
	double apart[2] = { q->mean[0] - o->mean[0], q->mean[1] - o->mean[1] };
	struct estimate_variance v;

	for (int i = 0; i < 2; i++) {
		v.of[i] = g * g * (q->m2[i] + q->weight * apart[i] * apart[i]) + g * o->m2[i];
	}
	v.covariance = g * g * (q->cross + q->weight * apart[0] * apart[1]) + g * o->cross;
	return v;
}

/* The variance by how launches were chosen; 0 where too few were measured to tell. */
static struct estimate_variance drawn_variance(const struct estimate_sample *s, double unmeasured)
{
	struct estimate_variance v = { { 0, 0 }, 0 };
	double m = effective_number(s), factor;

	if (s->n_free < 2 || m < 1.5) {
		return v;
	}
	v = linearised_sum(s, unmeasured / s->odds.weight);
	factor = m / (m - 1) * estimate_student_factor(m - 1);
	v.of[0] *= factor;
	v.of[1] *= factor;
	v.covariance *= factor;
	return v;
}

/* Covariance of two metrics' totals with these degrees of freedom; factor scales each launch's own
 * variance. */
static void moderate_turns(struct estimate_variance *v, const struct estimate_sample *s,
			   double degrees, double factor, const struct estimate_prior *prior)
{
	double before[2] = { v->of[0], v->of[1] }, both = before[0] * before[1];

	for (int i = 0; i < 2; i++) {
		double more =
			prior && estimate_differ(estimate_values(s), i) ? prior->launches[i] : 0;
		double expected =
			more > 0 ? prior->variance[i] * s->odds.mean[i] * s->odds.mean[i] * factor
				 : 0;

		v->of[i] = (degrees * before[i] + more * expected) / (degrees + more) *
			   estimate_student_factor(degrees + more);
	}
	v->covariance *= both > 0 ? sqrt(v->of[0] / before[0]) * sqrt(v->of[1] / before[1]) : 0;
}

/* Of what was drawn in turns; 0 where there was one turn, or none. What the other strata have shown
 * of launches holds of turns as well, which differ less. */
static struct estimate_variance turns_variance(const struct estimate_sample *s, double unmeasured,
					       const struct estimate_prior *prior)
{
	struct estimate_variance v = { { 0, 0 }, 0 };
	struct estimate_turns t = s->turns;
	double off[2], g, n, factor;

	end_turn(&t);
	if (t.n < 2 || s->n_free == 0) {
		return v;
	}
	n = (double)t.n;
	g = unmeasured / s->odds.weight;
	factor = g * g * n / (n - 1);
	for (int i = 0; i < 2; i++) {
		off[i] = s->odds.mean[i] - t.pivot[i];
		v.of[i] = t.apart_2[i] - 2 * off[i] * t.weight_apart[i] +
			  off[i] * off[i] * t.weight_2;
		v.of[i] = v.of[i] > 0 ? v.of[i] * factor : 0;
	}
	v.covariance = t.cross - off[0] * t.weight_apart[1] - off[1] * t.weight_apart[0] +
		       off[0] * off[1] * t.weight_2;
	v.covariance *= factor;
	moderate_turns(&v, s, n - 1, g * g * t.weight_2, prior);
	return v;
}

/* The same of the two estimates for both metrics, so that variances and covariance fit together. */
static struct estimate_variance choose_variance(const struct estimate_variance *a,
						const struct estimate_variance *b)
{
	double part[2] = { 0, 0 };

	for (int i = 0; i < 2; i++) {
		double sum = a->of[i] + b->of[i];

		part[0] += sum > 0 ? a->of[i] / sum : 0;
		part[1] += sum > 0 ? b->of[i] / sum : 0;
	}
	return part[0] >= part[1] ? *a : *b;
}

static struct estimate_variance variance_of(const struct estimate_sample *s, double unmeasured,
					    const struct estimate_prior *prior)
{
	struct estimate_variance random = random_variance(s, unmeasured, prior);
	struct estimate_variance other = s->turns.turn > 0 ? turns_variance(s, unmeasured, prior)
							   : drawn_variance(s, unmeasured);

	return choose_variance(&random, &other);
}

/* --- totals --- */

static enum estimate_kind kind_of(const struct estimate_sample *s, uint64_t seen)
{
	return s->n == 0			? ESTIMATE_NONE
	       : s->n >= seen			? ESTIMATE_EXACT
	       : s->n == 1 || is_of_one_turn(s) ? ESTIMATE_ONCE
						: ESTIMATE_GUESS;
}

/* Can a stratum be judged of which only one launch, or turn, was measured? Not if the common
 * variance is worth less than a launch, because nothing else is known. */
static bool prior_tells(const struct estimate_prior *prior)
{
	return (prior->constant[0] || prior->launches[0] >= 1) &&
	       (prior->constant[1] || prior->launches[1] >= 1);
}

/* One launch or turn was measured, and the spread of other strata is known. It is relative to the
 * mean, so a stratum with the value 0 cannot be judged by it. */
static bool is_judged_by_others(const struct estimate_sample *s, const struct estimate_prior *prior)
{
	return prior && prior_tells(prior) && s->all.mean[0] != 0 && s->all.mean[1] != 0;
}

bool estimate_lacks(const struct estimate_sample *s, uint64_t seen)
{
	enum estimate_kind kind = kind_of(s, seen);

	return kind == ESTIMATE_NONE || kind == ESTIMATE_ONCE;
}

double estimate_mean(const struct estimate_sample *s, int metric)
{
	return s->n == 0 ? (double)NAN : s->n_free > 0 ? s->odds.mean[metric] : s->all.mean[metric];
}

struct estimate_pair estimate_pair(const struct estimate_sample *s, uint64_t seen)
{
	return estimate_pair_among(s, seen, NULL);
}

struct estimate_pair estimate_pair_among(const struct estimate_sample *s, uint64_t seen,
					 const struct estimate_prior *prior)
{
	struct estimate_pair p = { .kind = kind_of(s, seen), .measured = s->n };
	double unmeasured = seen > s->n ? (double)(seen - s->n) : 0;
	const struct estimate_moments *m = s->n_free > 0 ? &s->odds : &s->all;

	p.seen = seen > s->n ? seen : s->n;
	for (int i = 0; i < 2; i++) {
		p.value[i] = s->sum[i] + s->lost[i] + unmeasured * m->mean[i];
		p.value[i] = p.kind == ESTIMATE_NONE ? (double)NAN : p.value[i];
		p.variance[i] = p.kind == ESTIMATE_EXACT ? 0 : (double)NAN;
	}
	p.covariance = p.variance[0];
	if (p.kind == ESTIMATE_ONCE && is_judged_by_others(s, prior)) {
		p.kind = ESTIMATE_GUESS;
	}
	if (p.kind == ESTIMATE_GUESS) {
		struct estimate_variance v = variance_of(s, unmeasured, prior);

		p.variance[0] = v.of[0];
		p.variance[1] = v.of[1];
		p.covariance = v.covariance;
	}
	return p;
}

struct estimate estimate_total(const struct estimate_sample *s, uint64_t seen)
{
	struct estimate_pair p = estimate_pair(s, seen);

	return (struct estimate){ .kind = p.kind,
				  .value = p.value[0],
				  .error = sqrt(p.variance[0]),
				  .seen = p.seen,
				  .measured = p.measured };
}
