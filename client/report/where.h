/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Selects the launches of a report by conditions on their labels: "op=conv". */

#include "client/report/groups.h"
#include "proto/base/buf.h"

struct where;

struct where *where_new(void);		   /* NULL: out of memory */
struct where *where_free(struct where *w); /* takes NULL, returns NULL */

/* Adds a condition; before the first capture only. 0, -ENOMEM, or -EINVAL with why filled. */
int where_add(struct where *w, const char *text, struct buf *why);
bool where_is_empty(const struct where *w);
/* "op=conv and kernel=gemm", safe for a terminal */
void where_print(const struct where *w, struct buf *b);
/* As groups_begin(), groups_host() and groups_process(). */
int where_begin(struct where *w, const char *name, const char *host);
int where_process(struct where *w, const struct gpuctr_process *process);
/* Sets *ret to whether the record meets all conditions. 0 or -ENOMEM. */
int where_record(struct where *w, const struct gpuctr_record *record,
		 const struct attribution *what, bool *ret);
