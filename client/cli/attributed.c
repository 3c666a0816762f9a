/* SPDX-License-Identifier: Apache-2.0 */

/* Who knows is client/report/attribution.c; here are texts of what it says, direct-mapped by
 * (process, range). Its own texts are compared by pointer. */

#include "client/cli/attributed.h"

#include <stdlib.h>
#include <string.h>

#include "client/report/attribution.h"

enum { TEXT_SLOTS = 1 << 10 };

struct made {
	unsigned process, range; /* range 0: empty */
	struct store_attribution of;
	struct buf text;
};

struct attributed {
	struct attributor *attributor;
	void (*write)(struct buf *b, const struct store_attribution *what);
	struct made made[TEXT_SLOTS];
};

struct attributed *attributed_new(void (*write)(struct buf *b,
						const struct store_attribution *what))
{
	struct attributed *a = calloc(1, sizeof(*a));

	if (!a) {
		return NULL;
	}
	a->write = write;
	a->attributor = attributor_new();
	return a->attributor ? a : attributed_free(a);
}

struct attributed *attributed_free(struct attributed *a)
{
	if (a) {
		attributor_free(a->attributor);
		for (size_t i = 0; i < TEXT_SLOTS; i++) {
			buf_deinit(&a->made[i].text);
		}
		free(a);
	}
	return NULL;
}

static bool is_same(const struct store_attribution *a, const struct store_attribution *b)
{
	return a->op == b->op && a->sizes == b->sizes && a->dir == b->dir && a->layer == b->layer &&
	       a->seq == b->seq;
}

static void make(struct attributed *a, struct made *m, const struct gpuctr_record *record,
		 const struct store_attribution *what)
{
	m->process = record->process;
	m->range = record->range->id;
	m->of = *what;
	m->text.failed = false;
	buf_clear(&m->text);
	a->write(&m->text, what);
}

void attributed_add(struct attributed *a, struct buf *b, const struct gpuctr_record *record)
{
	struct attribution found;
	struct store_attribution what;
	struct made *m;

	b->failed |= attributor_take(a->attributor, record, &found) != 0;
	attribution_columns(&found, &what);
	if (!found.scope) {
		a->write(b, &what);
		return;
	}
	m = &a->made[(record->range->id + record->process * 1021u) % TEXT_SLOTS];
	if (m->process != record->process || m->range != record->range->id || m->text.failed ||
	    !is_same(&m->of, &what)) {
		make(a, m, record, &what);
	}
	buf_add(b, m->text.data, m->text.n);
	b->failed |= m->text.failed;
}
