/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/internal.h"

/* What gpuctr_last_error() tells. */

int connection_fail(struct gpuctr *g, int code, const char *message, const char *remedy)
{
	refusal_set(&g->refusal, code, remedy, "%s", message);
	g->error = (struct gpuctr_error){ code, g->refusal.message, g->refusal.remedy };
	return code;
}

int connection_refuse(struct gpuctr *g, const struct refusal *r)
{
	return connection_fail(g, r->code, r->message, r->remedy);
}

const struct gpuctr_error *gpuctr_last_error(const struct gpuctr *g)
{
	return &g->error;
}
