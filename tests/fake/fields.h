/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What fakefields prints about each launch, and tests/system/test_fields.c looks for in every
 * output: a line "launch" of fields in this order, each after a tab. Unknown numbers are empty. The
 * names are those of the outputs. */

enum field {
	FIELD_PID,
	FIELD_KIND,
	FIELD_KERNEL,
	FIELD_MANGLED,
	FIELD_STATIC_SHARED,
	FIELD_REGISTERS,
	FIELD_GRID,
	FIELD_BLOCK = FIELD_GRID + 3,
	FIELD_DYNAMIC_SHARED = FIELD_BLOCK + 3,
	FIELD_DEVICE,
	FIELD_UUID,
	FIELD_CONTEXT,
	FIELD_STREAM,
	FIELD_CORRELATION,
	FIELD_THREAD,
	FIELD_NVTX,    /* messages of the ranges around it, outermost first, joined by '/' */
	FIELD_STACK,   /* the same ranges as JSON objects, joined by ',' */
	FIELD_RANGES,  /* messages of the start/end ranges, joined by ';' */
	FIELD_ACTIVE,  /* the same as JSON objects */
	FIELD_PAYLOAD, /* of the innermost range around it that has one, or empty */
	FIELD_START,   /* when the call began; FIELD_UNTIL is when it ended */
	FIELD_TOLD,

	/* Printed by the program, and in no output. */
	FIELD_UNTIL = FIELD_TOLD,
	FIELD_THREADS, /* grid x block, of a graph the sum over its kernels */
	FIELD_KERNELS,
	FIELD_PROGRAM,

	/* In outputs, and not printed by the program. */
	FIELD_DURATION = FIELD_PROGRAM,
	FIELD_CLOCK,
	FIELD_METRICS,
	N_METRICS = 4,
	N_FIELDS = FIELD_METRICS + N_METRICS,
};
