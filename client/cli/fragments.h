/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_FRAGMENTS_H
#define CLIENT_CLI_FRAGMENTS_H

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* Text made once for a kernel or an NVTX stack and used by each record that has it. Direct-mapped
 * by (process, id): bounded, and a program that gives every range a new name (a sequence number in
 * it) pays for making the text, not with memory. */
enum { FRAGMENT_SLOTS = 4096 };

struct fragment {
	unsigned process, id; /* id 0: empty */
	struct buf text;
};

struct fragments {
	struct fragment slots[FRAGMENT_SLOTS];
};

/* NULL: out of memory. */
struct fragments *fragments_new(void);
struct fragments *fragments_free(struct fragments *fragments); /* takes NULL, returns NULL */

/* The fragment of (process, id); *ret_fresh: it is empty and the caller makes its text now. */
static inline struct buf *fragments_get(struct fragments *fragments, unsigned process, unsigned id,
					bool *ret_fresh)
{
	struct fragment *slot = &fragments->slots[(id + process * 1021u) % FRAGMENT_SLOTS];

	*ret_fresh = slot->process != process || slot->id != id || slot->text.failed;
	if (*ret_fresh) {
		slot->process = process;
		slot->id = id;
		slot->text.failed = false;
		buf_clear(&slot->text);
	}
	return &slot->text;
}

/* What records say about their process, by number. */
struct process_texts {
	unsigned process, pid;
	struct buf *devices; /* by index */
	size_t n_devices;
};

struct processes {
	struct process_texts *items; /* sorted by number */
	size_t n, max;
};

void processes_deinit(struct processes *processes);
/* write() makes the text of a device. Returns false when out of memory. */
bool processes_add(struct processes *processes, const struct gpuctr_process *process,
		   void (*write)(struct buf *b, const struct gpuctr_device *device));
/* NULL: not announced. */
const struct process_texts *processes_find(const struct processes *processes, unsigned process);

#endif
