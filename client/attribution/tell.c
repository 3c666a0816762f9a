/* SPDX-License-Identifier: Apache-2.0 */
#include "client/attribution/internal.h"

#include <stdbool.h>

void attribution_tell(struct attribution *a, const struct window_kernel *k,
		      enum attribution_state state, const struct attribution_value *values)
{
	bool placed = !k->local && (state == ATTRIBUTION_MEASURED || state == ATTRIBUTION_AWAY);
	struct attribution_result result = {
		.id = k->k.id,
		.position = placed ? k->position : ATTRIBUTION_NO_POSITION,
		.state = state,
		.values = values,
	};

	if (state == ATTRIBUTION_LOST) {
		a->counts.lost++;
	} else if (result.position != ATTRIBUTION_NO_POSITION) {
		a->counts.with_position++;
	} else {
		a->counts.without_position++;
	}
	if (a->options.on_kernel) {
		a->options.on_kernel(a->options.user, &result);
	}
}
