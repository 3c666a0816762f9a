/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The NVTX ranges of fakefields, and what it prints about them. */

#include <nvtx3/nvToolsExt.h>

enum { TEXT_MAX = 1024 };

enum domain { DOMAIN_DEFAULT, DOMAIN_RENDER, DOMAIN_IO, DOMAINS };

/* Ranges, and marks. */
enum range {
	RANGE_FRAME,
	RANGE_PASS,
	RANGE_READ,
	RANGE_DRAW,
	RANGE_WORKER,
	RANGE_WHOLE,
	RANGE_BESIDE,
	MARK_OUTER,
	MARK_MIDDLE,
	MARK_INNER,
	RANGES,
};

/* Ranges that are open, outermost first; RANGES ends the list. */
typedef const enum range *range_list;

#define OPEN(...) ((const enum range[]){ __VA_ARGS__ __VA_OPT__(, ) RANGES })

void ranges_begin(void);
void range_push(enum range range);
void range_pop(enum domain domain);
nvtxRangeId_t range_start(enum range range);
void range_end(enum range range, nvtxRangeId_t id);

/* Makes the mark and prints it. stack ends with the mark. */
void range_mark(enum range range, range_list stack);

/* Appends to a text of TEXT_MAX bytes. */
void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ranges_add_messages(char *text, range_list list, const char *separator);
void ranges_add_stack(char *text, range_list list);
void ranges_add_payload(char *text, range_list list);

unsigned long long now_ns(void);
unsigned thread_id(void);
