/* SPDX-License-Identifier: Apache-2.0 */

/* By how much a number grows in a second. One that goes down is of something else now, and has no
 * rate until it is told again. */

#include <math.h>

#include "client/cli/text.h"
#include "client/cli/top.h"

void top_rate_update(struct top_rate *r, uint64_t value, uint64_t now_ns)
{
	bool known = r->at_ns > 0 && now_ns > r->at_ns && value >= r->value;

	r->per_second =
		known ? (double)(value - r->value) * 1e9 / (double)(now_ns - r->at_ns) : NAN;
	r->value = value;
	r->at_ns = now_ns;
}

static bool is_known(const struct top_rate *r)
{
	return r->at_ns != 0 && !isnan(r->per_second);
}

void top_rate_add_behind(const struct top_rate *r, struct buf *b)
{
	if (is_known(r)) {
		buf_text(b, ", ");
		top_rate_add(r, b);
	}
}

void top_rate_add(const struct top_rate *r, struct buf *b)
{
	if (!is_known(r)) {
		buf_text(b, "-");
	} else {
		text_count(b, (uint64_t)(r->per_second + 0.5));
		buf_text(b, "/s");
	}
}
