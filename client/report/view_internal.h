/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/report/view.h"

/* compare.c: adds to the rows the other capture's figures, and makes rows for those that only it
 * has. 0, -ENOMEM, or -EINVAL with why filled. */
int view_compare(struct view *v, const struct view_options *o, struct buf *why);
