/* SPDX-License-Identifier: Apache-2.0 */

/* Texts of what an attributor says, direct-mapped by (process, range). The attributor's own texts
 * are compared by pointer. */

#include "client/cli/attributed.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_SLOTS = 1 << 10 };

struct made {
	unsigned process, range; /* range 0: empty */
	struct store_attribution of;
	struct buf text;
};

struct attributed {
	void (*write)(struct buf *b, const struct store_attribution *what);
	struct made made[TEXT_SLOTS];
};

struct attributed *attributed_new(void (*write)(struct buf *b,
						const struct store_attribution *what))
{
	struct attributed *a = calloc(1, sizeof(*a));

	if (a) {
		a->write = write;
	}
	return a;
}

struct attributed *attributed_free(struct attributed *a)
{
	if (a) {
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

void attributed_add(struct attributed *a, struct buf *b, const struct gpuctr_record *record,
		    const struct attribution *what)
{
	struct store_attribution columns;
	struct made *m;

	attribution_columns(what, &columns);
	if (!what->scope) {
		a->write(b, &columns);
		return;
	}
	m = &a->made[(record->range->id + record->process * 1021u) % TEXT_SLOTS];
	if (m->process != record->process || m->range != record->range->id || m->text.failed ||
	    !is_same(&m->of, &columns)) {
		make(a, m, record, &columns);
	}
	buf_add(b, m->text.data, m->text.n);
	b->failed |= m->text.failed;
}
