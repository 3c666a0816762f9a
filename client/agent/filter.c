/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/filter.h"

#include <libiberty/demangle.h>
#include <stdlib.h>

#include "proto/expression.h"

int filter_init(struct filter *f, const struct wire_agent_welcome *welcome, struct refusal *r)
{
	f->skip = welcome->launch_skip;
	f->count = welcome->launch_count;
	atomic_init(&f->matched, 0);
	f->has_regex = welcome->kernel_regex[0] != '\0';
	if (f->has_regex && expression_compile(&f->regex, welcome->kernel_regex, r) != 0) {
		f->has_regex = false;
		return r->code;
	}
	return 0;
}

bool filter_selects(const struct filter *f, const char *mangled)
{
	char *plain;
	bool selected;

	if (!f->has_regex) {
		return true;
	}
	plain = cplus_demangle_v3(mangled, DMGL_PARAMS | DMGL_ANSI);
	selected = regexec(&f->regex, plain ? plain : mangled, 0, NULL, 0) == 0;
	free(plain);
	return selected;
}

bool filter_takes(struct filter *f)
{
	uint64_t place = atomic_fetch_add(&f->matched, 1);

	return place >= f->skip && (f->count == 0 || place - f->skip < f->count);
}
