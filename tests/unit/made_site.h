/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Call sites made of ranges' texts, as an agent makes them. */

#include <stdio.h>
#include <string.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/site_name.h"

enum { MADE_NUMBERS = 16 };

/* An occurrence of a site: a range that was opened once. */
struct made_site {
	struct gpuctr_site site;
	const struct made_site *around;
	char text[256], name[256], sizes[128];
	int64_t numbers[MADE_NUMBERS]; /* of the path */
};

/* around NULL: an outermost one. */
static inline void make_site(struct made_site *m, const struct made_site *around, unsigned id,
			     const char *text)
{
	const struct gpuctr_site *parent = around ? &around->site : NULL;
	struct site_name name;
	size_t n = parent ? parent->n_numbers : 0;

	*m = (struct made_site){ .around = around };
	snprintf(m->text, sizeof(m->text), "%s", text);
	site_name_parse(m->text, &name);
	snprintf(m->name, sizeof(m->name), "%.*s%s", (int)name.n, m->text,
		 name.numbered == SITE_NUMBER_STEP ? "N" : "");
	snprintf(m->sizes, sizeof(m->sizes), "%.*s", (int)name.n_sizes,
		 name.sizes ? name.sizes : "");
	memcpy(m->numbers, around ? around->numbers : m->numbers, n * sizeof(m->numbers[0]));
	if (name.numbered != SITE_NUMBER_NONE && n < MADE_NUMBERS) {
		m->numbers[n++] = name.number;
	}
	m->site = (struct gpuctr_site){
		.parent = parent,
		.domain = "",
		.name = m->name,
		.sizes = m->sizes,
		.category = "",
		.kind = (enum gpuctr_site_kind)site_name_kind(
			&name, m->text, parent ? (enum site_kind)parent->kind : SITE_LABEL,
			around ? around->text : NULL),
		.numbered = (enum gpuctr_site_number)name.numbered,
		.n_numbers = (unsigned)n,
		.id = id,
		.depth = parent ? parent->depth + 1 : 0,
	};
}

/* In this range; NULL: in none. */
static inline void put_into(struct gpuctr_record *record, const struct made_site *m)
{
	record->site = m ? &m->site : NULL;
	record->at.numbers = m ? m->numbers : NULL;
}
