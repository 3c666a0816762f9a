/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/utf8.h"
#include "proto/wire/demangle.h"
#include "proto/wire/expression.h"

int filter_init(struct filter *f, const struct wire_selection *selection, struct refusal *r)
{
	*f = (struct filter){ .skip = selection->launch_skip };
	f->count = selection->launch_count;
	atomic_init(&f->matched, 0);
	atomic_init(&f->matches, false);
	pthread_mutex_init(&f->lock, NULL);
	f->has_regex = selection->kernel_regex[0] != '\0';
	if (f->has_regex && expression_compile(&f->regex, selection->kernel_regex, r) != 0) {
		f->has_regex = false;
		return r->code;
	}
	phase_init(&f->phase, selection);
	if (nvtx_filter_init(&f->nvtx, selection, r) != 0) {
		filter_deinit(f);
		return r->code;
	}
	return 0;
}

/* Under one name a kernel may come from several threads, and several modules. */
static void note_left_out(struct filter *f, const char *name)
{
	size_t i = 0;

	pthread_mutex_lock(&f->lock);
	while (i < f->n_left_out && strcmp(f->left_out[i], name) != 0) {
		i++;
	}
	if (i == f->n_left_out && i < FILTER_NAMES_MAX && (f->left_out[i] = strdup(name)) != NULL) {
		f->n_left_out++;
	}
	pthread_mutex_unlock(&f->lock);
}

bool filter_selects(struct filter *f, const char *mangled)
{
	const char *name;
	char *plain;
	bool selected;

	if (!f->has_regex) {
		return true;
	}
	plain = demangle_kernel(mangled);
	name = plain ? plain : mangled;
	selected = regexec(&f->regex, name, 0, NULL, 0) == 0;
	if (selected) {
		atomic_store(&f->matches, true);
	} else if (!atomic_load(&f->matches)) {
		note_left_out(f, name);
	}
	free(plain);
	return selected;
}

bool filter_missed_all(struct filter *f, struct refusal *r)
{
	size_t n;

	/* Its holder may have been interrupted for good, by a signal handler that exits. */
	if (!f->has_regex || pthread_mutex_trylock(&f->lock) != 0) {
		return false;
	}
	refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH, "Write an expression that matches one of them.",
		    "kernels that were there, and do not match:");
	n = strlen(r->message);
	for (size_t i = 0; i < f->n_left_out; i++) {
		n += (size_t)snprintf(r->message + n, sizeof(r->message) - n, "%s %.100s%s",
				      i ? ";" : "", f->left_out[i],
				      strlen(f->left_out[i]) > 100 ? "..." : "");
	}
	utf8_repair(r->message); /* a name may have been cut within a character */
	pthread_mutex_unlock(&f->lock);
	return f->n_left_out > 0 && !atomic_load(&f->matches);
}

void filter_deinit(struct filter *f)
{
	if (f->has_regex) {
		regfree(&f->regex);
	}
	for (size_t i = 0; i < f->n_left_out; i++) {
		free(f->left_out[i]);
	}
	nvtx_filter_deinit(&f->nvtx);
	*f = (struct filter){ 0 };
}

bool filter_takes(struct filter *f)
{
	uint64_t place = atomic_fetch_add(&f->matched, 1);

	return place >= f->skip && (f->count == 0 || place - f->skip < f->count);
}
