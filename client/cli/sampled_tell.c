/* SPDX-License-Identifier: Apache-2.0 */

/* What sets of samples say of a record, as its columns. A kernel that no sample of a set has seen,
 * because others had their turn, has the value of its position. How far its own may be from that is
 * told by those of the position that were seen: at least four, because of three the variance by
 * Student's distribution is infinite. */

#include "client/cli/sampled_internal.h"

#include <math.h>

enum { SEEN_LEAST = 4 };

void sampled_tell_without(struct sampled *s, const struct gpuctr_record *record,
			  enum sampled_reason why, sampled_on_record *on_record, void *user)
{
	struct gpuctr_record r = *record;

	for (size_t i = 0; i < 2 * s->plan->n_columns; i++) {
		s->row[i] = NAN;
	}
	r.values = s->row;
	r.errors = s->row + s->plan->n_columns;
	s->counts.without[why]++;
	on_record(user, &r);
}

static enum sampled_reason reason_of(enum attribution_state state)
{
	switch (state) {
	case ATTRIBUTION_TOO_SHORT:
		return SAMPLED_TOO_SHORT;
	case ATTRIBUTION_TOGETHER:
		return SAMPLED_TOGETHER;
	case ATTRIBUTION_CLOCKS:
		return SAMPLED_CLOCKS;
	case ATTRIBUTION_CROWDED:
		return SAMPLED_CROWDED;
	case ATTRIBUTION_AWAY:
		return SAMPLED_AWAY;
	case ATTRIBUTION_MEASURED:
	case ATTRIBUTION_LOST:
		break;
	}
	return SAMPLED_LOST;
}

/* A column's value and error, of its metrics', which know nothing of each other. The first that is
 * not told is why the column is not. */
static enum attribution_state add_up(const struct gpuctr_plan *plan, size_t column,
				     const struct attribution_value *metrics, double *ret_value,
				     double *ret_error)
{
	enum attribution_state state = ATTRIBUTION_MEASURED;
	double value = 0, variance = 0;

	for (size_t i = 0; i < plan->n_terms; i++) {
		const struct gpuctr_term *t = &plan->terms[i];
		const struct attribution_value *m = &metrics[t->metric];

		if (t->column != column) {
			continue;
		}
		state = state == ATTRIBUTION_MEASURED || m->state > state ? m->state : state;
		value += t->weight * m->value;
		variance += t->weight * t->weight * m->error * m->error;
	}
	*ret_value = value;
	*ret_error = sqrt(variance);
	return state;
}

/* Fills the row; why the first column without a value has none, or SAMPLED_REASONS. */
static enum sampled_reason fill(struct sampled *s, const struct attribution_value *metrics)
{
	enum sampled_reason why = SAMPLED_REASONS;

	for (size_t i = 0; i < s->plan->n_columns; i++) {
		double value, error;
		enum attribution_state state = add_up(s->plan, i, metrics, &value, &error);
		bool told = state == ATTRIBUTION_MEASURED;

		if (i == 0 && (told || state == ATTRIBUTION_TOO_SHORT)) {
			s->counts.sum += value;
			s->counts.too_short_sum += told ? 0 : value;
		}
		why = why == SAMPLED_REASONS && !told ? reason_of(state) : why;
		s->row[i] = told ? value : NAN;
		s->row[s->plan->n_columns + i] = told ? error : NAN;
	}
	return why;
}

/* Of a kernel that was not seen, from those at its position that were. */
static void widen(struct attribution_value *v, uint64_t seen)
{
	double freedom = (double)seen - 1;

	if (seen < SEEN_LEAST) {
		*v = (struct attribution_value){ .state = ATTRIBUTION_AWAY };
	} else {
		v->error = hypot(v->error, v->spread * sqrt(freedom / (freedom - 2)));
	}
}

/* What a set says of a record, one value a metric of the set; its position, if it has one. */
static uint32_t find_values(const struct part *part, const struct told *told, size_t n,
			    struct attribution_value *values)
{
	bool is_known = told->state == ATTRIBUTION_MEASURED || told->state == ATTRIBUTION_AWAY;
	uint64_t seen;

	if (is_known && told->position != ATTRIBUTION_NO_POSITION) {
		seen = attribution_position(part->attribution, told->position, values);
		for (size_t i = 0; told->state == ATTRIBUTION_AWAY && i < n; i++) {
			widen(&values[i], seen);
		}
		return told->position;
	}
	for (size_t i = 0; i < n; i++) {
		values[i] = told->state == ATTRIBUTION_MEASURED && told->values
				    ? told->values[i]
				    : (struct attribution_value){ .state = told->state };
	}
	return ATTRIBUTION_NO_POSITION;
}

/* Every metric's, from all sets. What is alike to the first set that knows is alike to others. */
static void find_metrics(struct sampled *s, struct kept *k)
{
	const struct told *told = &s->told[(size_t)(k - s->kept) * s->n_sets];
	struct attribution_value values[ATTRIBUTION_METRICS_MAX];

	for (size_t i = 0; i < s->n_sets; i++) {
		const struct set *set = &s->sets[i];
		const struct part *part = &s->gpus[k->gpu].parts[i];
		uint32_t position = find_values(part, &told[i], set->n, values);

		if (position != ATTRIBUTION_NO_POSITION && k->record.alike == 0) {
			k->record.alike = part->first_alike + position;
		}
		for (size_t m = 0; m < set->n; m++) {
			s->metrics[set->metrics[m]] = values[m];
		}
	}
}

void sampled_tell(struct sampled *s, struct kept *k, sampled_on_record *on_record, void *user)
{
	enum sampled_reason why;

	if (!k->has_gpu || !k->timed || s->failed) {
		why = !k->has_gpu ? SAMPLED_OTHER_GPU : !k->timed ? SAMPLED_NO_TIME : SAMPLED_LOST;
		sampled_tell_without(s, &k->record, why, on_record, user);
		return;
	}
	find_metrics(s, k);
	why = fill(s, s->metrics);
	if (why != SAMPLED_REASONS) {
		s->counts.without[why]++;
	}
	k->record.values = s->row;
	k->record.errors = s->row + s->plan->n_columns;
	on_record(user, &k->record);
}
