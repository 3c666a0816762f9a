/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/stats.h"

#include "proto/base/clock.h"

/* Most counts are made where audit lines are written: each line is the begin or end of a lease,
 * with its cause, or a refusal of a user. So the number of active leases is that of begun leases
 * minus that of ended ones. */

static const uint64_t wait_bounds_ns[STATS_WAITS] = {
	CLOCK_NS_PER_S / 10,
	CLOCK_NS_PER_S,
	10 * CLOCK_NS_PER_S,
	60 * CLOCK_NS_PER_S,
	600 * CLOCK_NS_PER_S,
	3600 * CLOCK_NS_PER_S,
	0,
};

static void count_code(uint64_t counts[LIMIT_CODES], int code)
{
	counts[code >= 0 && code < LIMIT_CODES ? code : GPUCTR_E_INTERNAL]++;
}

void stats_note_decision(struct stats *s, enum audit_event event, int code)
{
	switch (event) {
	case AUDIT_REFUSED:
	case AUDIT_PERMISSION_REFUSED:
		count_code(s->refusals, code);
		break;
	case AUDIT_LEASE_GRANTED:
		s->leases++;
		break;
	case AUDIT_LEASE_ENDED:
	case AUDIT_LEASE_EXPIRED:
	case AUDIT_LEASE_REVOKED:
		count_code(s->lease_ends, code);
		break;
	case AUDIT_STARTED:
	case AUDIT_TRACE_GRANTED:
	case AUDIT_TRACE_ENDED:
	case AUDIT_PERMISSION_GRANTED: /* counted when the driver has agreed */
	case AUDIT_JOB_BEGUN:
	case AUDIT_JOB_ENDED:
		break;
	}
}

void stats_note_refusal(struct stats *s, int code)
{
	count_code(s->refusals, code);
}

void stats_note_wait(struct stats *s, uint64_t wait_ns)
{
	size_t i = 0;

	while (wait_bounds_ns[i] != 0 && wait_ns > wait_bounds_ns[i]) {
		i++;
	}
	s->waits[i]++;
	s->waited_ns += wait_ns;
}

void stats_note_records(struct stats *s, uint32_t records, size_t bytes)
{
	s->records += records;
	s->record_bytes += bytes;
}

/* A program that reports a smaller total than before, or an impossible growth, changes nothing. */
static void add_growth(uint64_t *total, uint64_t before, uint64_t now)
{
	if (now > before) {
		*total +=
			now - before < STATS_KERNELS_AT_ONCE ? now - before : STATS_KERNELS_AT_ONCE;
	}
}

void stats_note_kernels(struct stats *s, const struct gpuctr_totals *before,
			const struct gpuctr_totals *now)
{
#define ADD(name) add_growth(&s->kernels.name, before->name, now->name);
	GPUCTR_TOTALS(ADD)
#undef ADD
}

void stats_settle(struct stats *s, struct process *p)
{
	struct gpuctr_totals before = p->totals;

	process_settle(p);
	stats_note_kernels(s, &before, &p->totals);
}

static const struct gpuctr_code_count *list_codes(const uint64_t counts[LIMIT_CODES],
						  struct arena *a, size_t *ret_n)
{
	struct gpuctr_code_count *v = arena_alloc(a, LIMIT_CODES * sizeof(*v));

	*ret_n = 0;
	for (int code = 0; v && code < LIMIT_CODES; code++) {
		if (counts[code] > 0) {
			v[(*ret_n)++] = (struct gpuctr_code_count){ code, counts[code] };
		}
	}
	return v;
}

static const struct gpuctr_wait_bucket *list_waits(const struct stats *s, struct arena *a,
						   size_t *ret_n)
{
	struct gpuctr_wait_bucket *v = arena_alloc(a, STATS_WAITS * sizeof(*v));

	*ret_n = v ? STATS_WAITS : 0;
	for (size_t i = 0; i < *ret_n; i++) {
		v[i] = (struct gpuctr_wait_bucket){ wait_bounds_ns[i], s->waits[i] };
	}
	return v;
}

struct gpuctr_counts stats_describe(const struct stats *s, struct arena *a)
{
	struct gpuctr_counts c = {
		.connections = s->connections,
		.leases = s->leases,
		.waited_ns = s->waited_ns,
		.records = s->records,
		.record_bytes = s->record_bytes,
		.kernels = s->kernels,
	};

	c.refusals = list_codes(s->refusals, a, &c.n_refusals);
	c.lease_ends = list_codes(s->lease_ends, a, &c.n_lease_ends);
	c.waits = list_waits(s, a, &c.n_waits);
	return c;
}
