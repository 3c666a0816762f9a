/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the daemon's processes hold: descriptors, children, memory; and the test itself, but for its
 * memory. Taken after a first capture, when all is warm, and compared at the end.
 *
 * Memory is the anonymous part of the resident set: pages of files are the fakes' log and state,
 * which are mapped. Under sanitizers, which keep freed memory, it is not compared. */

#include "tests/system/fixture.h"

enum { FOOTPRINT_PROCESSES = 6, FOOTPRINT_GROWTH_KIB = 1024 };

struct footprint {
	struct {
		size_t descriptors, children;
		long resident_kib;
	} of[FOOTPRINT_PROCESSES]; /* supervisor, front, granter, gpu, planner, the test */
};

void footprint_take(struct fixture *f, struct footprint *ret);

/* Everything is back at before, within the test's patience: descriptors, children, memory plus 1
 * MiB, no object and no owner in the fake driver. Returns by how many KiB the worst has grown. */
long expect_no_leak(struct fixture *f, const struct footprint *before);
