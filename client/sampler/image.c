/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/image.h"

#include <stdlib.h>
#include <string.h>

enum {
	LOOKS_AFTER = 64, /* one check in so many calls, for changes behind the samples */
	LOOKED_AT = 256,  /* samples that this check compares */
};

bool image_init(struct image *m, const struct image_layout *layout, size_t n_metrics)
{
	*m = (struct image){ .bytes = layout->head + layout->room * layout->sample,
			     .layout = *layout,
			     .n_metrics = n_metrics };
	m->data = calloc(1, m->bytes);
	m->times = calloc(layout->room, sizeof(*m->times));
	m->values = calloc(layout->room * n_metrics, sizeof(*m->values));
	if (!m->data || !m->times || !m->values) {
		image_deinit(m);
	}
	return m->data != NULL;
}

void image_deinit(struct image *m)
{
	free(m->data);
	free(m->kept);
	free(m->times);
	free(m->values);
	*m = (struct image){ 0 };
}

static uint8_t *sample(const struct image *m, size_t i)
{
	return m->data + m->layout.head + i * m->layout.sample;
}

/* Do the samples from i on, `most` at most, equal this one? */
static bool are_alike(const struct image *m, const uint8_t *one, size_t i, size_t most)
{
	size_t end = m->layout.room - i < most ? m->layout.room : i + most;

	while (i < end && memcmp(sample(m, i), one, m->layout.sample) == 0) {
		i++;
	}
	return i == end;
}

void image_keep(struct image *m)
{
	size_t bytes = m->layout.head + m->layout.sample;

	m->is_empty = true;
	if (!are_alike(m, sample(m, 0), 1, m->layout.room)) {
		free(m->kept);
		m->kept = NULL;
		return;
	}
	m->kept = m->kept ? m->kept : malloc(bytes);
	if (m->kept) {
		memcpy(m->kept, m->data, bytes);
	}
}

bool image_empty(struct image *m)
{
	size_t changed = m->all < m->layout.room ? m->all + 1 : m->layout.room;
	const uint8_t *one;

	if (!m->kept) {
		return false;
	}
	one = m->kept + m->layout.head;
	if (m->n_emptied++ % LOOKS_AFTER == 0) {
		m->is_spread |= !are_alike(m, one, changed, LOOKED_AT);
	}
	memcpy(m->data, m->kept, m->layout.head);
	for (size_t i = 0; i < (m->is_spread ? m->layout.room : changed); i++) {
		memcpy(sample(m, i), one, m->layout.sample);
	}
	return m->is_empty = true;
}

void image_begin(struct image *m)
{
	m->is_empty = false;
	m->n = m->all = m->timed = m->evaluated = m->taken = 0;
}
