/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The real CUPTI host library, which needs no GPU. Without it these tests say so and are skipped.
 */

#include <dlfcn.h>

#include "proto/nvidia/catalogue.h"
#include "proto/nvidia/vendor.h"
#include "tests/unit/unit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* CUPTI opens its second half with RTLD_DEEPBIND, which the sanitizers refuse to go on with. */
__attribute__((visibility("default"))) void *dlopen(const char *path, int mode)
{
	void *(*next)(const char *, int);

	*(void **)&next = dlsym(RTLD_NEXT, "dlopen");
	return next(path, mode & ~RTLD_DEEPBIND);
}
#endif

static struct vendor_host cupti;

/* 0, or UNIT_SKIP with the reason printed. */
static inline int cupti_open(void)
{
	struct refusal r = { 0 };

	if (vendor_open_host(&cupti, &r) != 0) {
		printf("SKIP: %s. %s\n", r.message, r.remedy);
		return UNIT_SKIP;
	}
	return 0;
}

/* With what it knows of a GH100. 1: it knows nothing, and the reason is printed. */
static inline int cupti_open_gh100(struct catalogue *ret)
{
	struct refusal r;
	int result = cupti_open();

	if (result == 0 && catalogue_init(ret, &cupti, "GH100", &r) != 0) {
		fprintf(stderr, "%s\n", r.message);
		return 1;
	}
	return result;
}
