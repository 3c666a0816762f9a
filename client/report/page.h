/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A report as one web page that loads nothing: charts and tables by kernel and by operator, a flame
 * graph of NVTX ranges, and a timeline. The page holds sums only, so its size does not grow with
 * the number of records. */

#include "client/report/hints.h"
#include "client/report/machine.h"
#include "client/store/reader.h"

enum { PAGE_MAX_BYTES = 4500000 };

struct page_options {
	struct keys by;		    /* rows in addition to those by kernel and by operator */
	const char *const *defines; /* the user's columns, as derived_define() takes them */
	size_t n_defines;
};

/* Texts about all captures. */
struct page_texts {
	const char *hardware; /* one line: passes, caches, GPU, clocks, driver */
	const char *notes;    /* lines: how many kernels were measured, and warnings */
	const char *nothing;  /* why no kernel was measured; "": some were */
};

struct page;

/* Borrows the options, and groups whose only key is the kernel. The caller passes captures and
 * records to these groups too, and finishes them before page_print(). NULL: out of memory. */
struct page *page_new(const struct page_options *options, struct groups *kernels);
struct page *page_free(struct page *p); /* takes NULL, returns NULL */

/* The timeline and the flame graph show the columns of the first capture. The caller passes
 * captures, processes and records to the page before it passes them to the groups. 0 or -ENOMEM. */
int page_capture(struct page *p, const struct store_info *info);
void page_process(struct page *p, const struct gpuctr_process *process);
void page_record(struct page *p, const struct gpuctr_record *record);
/* Samples of a whole GPU. */
int page_samples(struct page *p, const struct store_samples *samples);

/* Appends the page. hints: of the same captures. 0, -ENOMEM, or -EINVAL with a reason in why if a
 * definition is refused. */
int page_print(struct page *p, const struct machine_source *source, struct hints *hints,
	       const struct page_texts *texts, struct buf *b, struct buf *why);
