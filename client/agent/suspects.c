/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/suspects.h"

#include <stddef.h>

struct suspect *suspects_find(struct suspects *l, uintptr_t work)
{
	for (size_t i = 0; i < SUSPECTS_MAX; i++) {
		uintptr_t found = atomic_load(&l->v[i].work);

		if (found == work || found == 0) {
			return found == work && work != 0 ? &l->v[i] : NULL;
		}
	}
	return NULL;
}

struct suspect *suspects_note(struct suspects *l, uintptr_t work)
{
	for (size_t i = 0; work != 0 && i < SUSPECTS_MAX; i++) {
		uintptr_t found = 0;

		if (atomic_compare_exchange_strong(&l->v[i].work, &found, work) || found == work) {
			return &l->v[i];
		}
	}
	return NULL;
}

void suspects_ended_by_itself(struct suspects *l, uintptr_t work, uint64_t takes_ns)
{
	struct suspect *e = suspects_note(l, work);

	if (e) {
		atomic_store(&e->in_vain, 0);
	}
	if (e && takes_ns > atomic_load(&e->takes_ns)) {
		atomic_store(&e->takes_ns, takes_ns);
	}
}

void suspects_ended_later(struct suspects *l, uintptr_t work, bool alone)
{
	struct suspect *e = suspects_note(l, work);

	if (e && alone) {
		atomic_fetch_add(&e->proofs, 1);
	} else if (e) {
		atomic_store(&e->proofs, 0);
		atomic_fetch_add(&e->in_vain, 1);
	}
}
