/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_VIEW_INTERNAL_H
#define CLIENT_REPORT_VIEW_INTERNAL_H

#include "client/report/view.h"

/* compare.c: rows get what they were before, and there are those that are gone. 0, -ENOMEM, or
 * -EINVAL with why told. */
int view_compare(struct view *v, const struct view_options *o, struct buf *why);

#endif
