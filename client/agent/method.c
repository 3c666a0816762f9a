/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/method.h"

#include "client/agent/ranges.h"
#include "client/agent/trace.h"

/* launches.c knows when a launch begins and ends, contexts.c when a batch is old and when the
 * capture ends. A row here says what is done then, so that another way of measuring is another
 * row. */

static bool open_nothing(struct capture *c, struct ranges *r, struct section *v,
			 struct launch **ret)
{
	return false;
}

static void close_nothing(struct capture *c, struct ranges *r, struct section *v, bool launched)
{
}

static bool end_nothing(struct capture *c, struct ranges *r)
{
	return true;
}

const struct method method_none = { open_nothing, close_nothing, end_nothing, end_nothing, false };

const struct method method_ranges = { ranges_open, ranges_close, ranges_flush, ranges_disable,
				      false };

/* No context has anything to flush or to disable: trace_flush() is for all of them. */
const struct method method_trace = { trace_open, trace_close, end_nothing, end_nothing, true };
