/* SPDX-License-Identifier: Apache-2.0 */

/* Makes the columns of a record from the results of all sets. A kernel that no sample of a set
 * covers, because other sets had their turns, has the value of its position. How far its own value
 * may be from this is estimated from the kernels of the position that samples cover. These must be
 * four at least, because with three the variance by Student's distribution is infinite. */

#include "client/cli/sampled_internal.h"

#include <math.h>

#include "client/cli/text.h"

enum { SEEN_LEAST = 4 };

static enum sampled_reason reason_of(const struct sampled *s, enum attribution_state state)
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
	case ATTRIBUTION_COSTLY:
		return s->is_given_up ? SAMPLED_GIVEN_UP : SAMPLED_COSTLY;
	case ATTRIBUTION_MEASURED:
	case ATTRIBUTION_LOST:
		break;
	}
	return SAMPLED_LOST;
}

/* Adds a position's spread to the error of a kernel without samples. seen: those with samples. */
static void widen(struct attribution_value *v, uint64_t seen)
{
	double freedom = (double)seen - 1;

	if (seen < SEEN_LEAST) {
		*v = (struct attribution_value){ .state = ATTRIBUTION_AWAY };
	} else {
		v->error = hypot(v->error, v->spread * sqrt(freedom / (freedom - 2)));
	}
}

/* Why a set has no values for a record, or SAMPLED_REASONS. */
static enum sampled_reason why_none(const struct sampled *s, const struct sampled_told *told)
{
	if (s->failed) {
		return SAMPLED_NO_MEMORY;
	}
	if (told->state != ATTRIBUTION_MEASURED &&
	    (told->state != ATTRIBUTION_AWAY || told->position == ATTRIBUTION_NO_POSITION)) {
		return reason_of(s, (enum attribution_state)told->state);
	}
	return SAMPLED_REASONS;
}

/* Fills values, one for each metric of a set, for a record. */
static void find_values(const struct sampled_part *part, const struct sampled_told *told, size_t n,
			struct attribution_value *values)
{
	uint64_t seen;

	if (told->position != ATTRIBUTION_NO_POSITION) {
		seen = attribution_position(part->attribution, told->position, values);
		for (size_t i = 0; told->state == ATTRIBUTION_AWAY && i < n; i++) {
			widen(&values[i], seen);
		}
		return;
	}
	for (size_t i = 0; i < n; i++) {
		values[i] = told->values ? told->values[i]
					 : (struct attribution_value){ .state = ATTRIBUTION_LOST };
	}
}

/* Fills s->metrics from all sets. Returns record->alike, by the first set in which the record has a
 * position. */
static unsigned find_metrics(struct sampled *s, size_t record, size_t gpu)
{
	const struct sampled_told *told = &s->told[record * s->n_sets];
	struct attribution_value values[ATTRIBUTION_METRICS_MAX];
	unsigned alike = 0;

	for (size_t i = 0; i < s->n_sets; i++) {
		const struct sampled_set *set = &s->sets[i];
		enum sampled_reason why = why_none(s, &told[i]);

		if (why == SAMPLED_REASONS) {
			find_values(&s->gpus[gpu].parts[i], &told[i], set->n, values);
		}
		for (size_t m = 0; m < set->n; m++) {
			const struct attribution_value *v = &values[m];

			s->metrics[set->metrics[m]] =
				why != SAMPLED_REASONS ? (struct sampled_metric){ .why = why }
				: v->state == ATTRIBUTION_MEASURED
					? (struct sampled_metric){ why, v->value, v->error }
					: (struct sampled_metric){ reason_of(s, v->state), v->value,
								   0 };
		}
		if (why == SAMPLED_REASONS && told[i].position != ATTRIBUTION_NO_POSITION &&
		    alike == 0) {
			alike = 1 +
				(unsigned)(i + s->n_sets * (gpu + s->n_gpus * told[i].position));
		}
	}
	return alike;
}

/* Calculates a column from its metrics, whose errors are independent. If metrics lack values, the
 * worst reason counts. */
static struct sampled_metric add_up(const struct sampled *s, size_t column)
{
	struct sampled_metric sum = { .why = SAMPLED_REASONS };
	double variance = 0;

	for (size_t i = 0; i < s->plan->n_terms; i++) {
		const struct gpuctr_term *t = &s->plan->terms[i];
		const struct sampled_metric *m = &s->metrics[t->metric];

		if (t->column != column) {
			continue;
		}
		if (m->why != SAMPLED_REASONS && (sum.why == SAMPLED_REASONS || m->why > sum.why)) {
			sum.why = m->why;
		}
		sum.value += t->weight * m->value;
		variance += t->weight * t->weight * m->error * m->error;
	}
	sum.error = sqrt(variance);
	return sum;
}

/* Fills the row. Returns why the first column without a value has none, or SAMPLED_REASONS. */
static enum sampled_reason fill(struct sampled *s)
{
	enum sampled_reason why = SAMPLED_REASONS;
	bool any = false;

	for (size_t i = 0; i < s->plan->n_columns; i++) {
		struct sampled_metric sum = add_up(s, i);
		bool told = sum.why == SAMPLED_REASONS;

		if (i == 0 && (told || sum.why == SAMPLED_TOO_SHORT)) {
			s->counts.sum += sum.value;
			s->counts.too_short_sum += told ? 0 : sum.value;
		}
		any = any || told;
		why = why == SAMPLED_REASONS ? sum.why : why;
		s->row[i] = told ? sum.value : NAN;
		s->row[s->plan->n_columns + i] = told ? sum.error : NAN;
	}
	s->counts.valued += any;
	return why;
}

static void fill_none(struct sampled *s)
{
	for (size_t i = 0; i < 2 * s->plan->n_columns; i++) {
		s->row[i] = NAN;
	}
}

const char *sampled_apply(struct sampled *s, size_t i, struct gpuctr_record *record)
{
	enum sampled_reason why =
		i < s->n ? (enum sampled_reason)s->places[i].why : SAMPLED_NO_MEMORY;

	record->values = s->row;
	record->errors = s->row + s->plan->n_columns;
	record->alike = 0; /* replaces the value from the file */
	if (why == SAMPLED_REASONS) {
		record->alike = find_metrics(s, i, s->places[i].gpu);
		why = fill(s);
	} else {
		fill_none(s);
	}
	s->counts.kernels++;
	if (why == SAMPLED_REASONS) {
		return NULL;
	}
	s->counts.without[why]++;
	return sampled_reason_name(why);
}

/* --- words ----------------------------------------------------------------------------------- */

const char *sampled_reason_name(enum sampled_reason why)
{
	static const char *const names[SAMPLED_REASONS] = {
		[SAMPLED_TOO_SHORT] = "too short to tell",
		[SAMPLED_TOGETHER] = "not told apart",
		[SAMPLED_LOST] = "samples missing",
		[SAMPLED_CLOCKS] = "clocks differ",
		[SAMPLED_CROWDED] = "too many at once",
		[SAMPLED_NO_TIME] = "without a time",
		[SAMPLED_OTHER_GPU] = "on GPUs without samples",
		[SAMPLED_TOO_MANY] = "too many in all",
		[SAMPLED_NO_MEMORY] = "memory ran out",
		[SAMPLED_COSTLY] = "too much to calculate",
		[SAMPLED_GIVEN_UP] = "given up",
		[SAMPLED_AWAY] = "ran in another set's turn",
	};

	return names[why];
}

/* A kernel may have values of some metrics, and lack those of others. */
static void describe_without(const struct sampled_counts *c, struct buf *b)
{
	uint64_t without = 0;

	for (int i = 0; i < SAMPLED_REASONS; i++) {
		without += c->without[i];
	}
	text_count(b, without);
	buf_text(b, " of ");
	text_count(b, c->kernels);
	if (c->valued + without <= c->kernels) {
		buf_text(b, " kernels have no value");
		return;
	}
	buf_text(b, " kernels lack a value of some metric (without any: ");
	text_count(b, c->kernels - c->valued);
	buf_char(b, ')');
}

void sampled_describe(const struct sampled *s, struct buf *b)
{
	const struct sampled_counts *c = &s->counts;
	const char *separator = ": ";

	describe_without(c, b);
	for (int i = 0; i < SAMPLED_REASONS; i++) {
		if (c->without[i] == 0) {
			continue;
		}
		buf_printf(b, "%s%s ", separator, sampled_reason_name((enum sampled_reason)i));
		separator = ", ";
		text_count(b, c->without[i]);
		if (i == SAMPLED_TOO_SHORT && c->sum > 0) {
			buf_text(b, " (with ");
			text_percent(b, 100 * c->too_short_sum / c->sum);
			buf_text(b, " % of the first metric)");
		}
	}
	if (c->bad_samples > 0) {
		buf_text(b, "; samples left out ");
		text_count(b, c->bad_samples);
	}
}
