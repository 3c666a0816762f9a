/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry tiny()\n{\n\tret;\n}\n"
	/* Each thread moves 16 bytes. */
	".visible .entry copy16(.param .u64 to, .param .u64 from)\n{\n"
	"\t.reg .b32 %r<9>;\n\t.reg .b64 %d<7>;\n"
	"\tld.param.u64 %d1, [to];\n\tld.param.u64 %d2, [from];\n"
	"\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %ntid.x;\n\tmov.u32 %r3, %tid.x;\n"
	"\tmad.lo.s32 %r4, %r1, %r2, %r3;\n\tmul.wide.u32 %d3, %r4, 16;\n"
	"\tadd.s64 %d4, %d1, %d3;\n\tadd.s64 %d5, %d2, %d3;\n"
	"\tld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%d5];\n"
	"\tst.global.v4.u32 [%d4], {%r5, %r6, %r7, %r8};\n\tret;\n}\n"
	/* Each thread does 256 dependent fused multiply-adds and keeps the result alive. */
	".visible .entry fma256(.param .u64 to)\n{\n"
	"\t.reg .f32 %f<3>;\n\t.reg .b64 %d<2>;\n\t.reg .b32 %r<2>;\n\t.reg .pred %p<2>;\n"
	"\tld.param.u64 %d1, [to];\n\tmov.f32 %f1, 0f3F800001;\n\tmov.f32 %f2, 0f3F800000;\n"
	"\tmov.u32 %r1, 0;\n"
	"loop:\n\tfma.rn.f32 %f2, %f2, %f1, %f1;\n\tadd.u32 %r1, %r1, 1;\n"
	"\tsetp.lt.u32 %p1, %r1, 256;\n\t@%p1 bra loop;\n"
	"\tst.global.f32 [%d1], %f2;\n\tret;\n}\n";

void check(const char *what, int code)
{
	if (code != 0) {
		fprintf(stderr, "%s failed: %d\n", what, code);
		exit(1);
	}
}

static void open_library(struct driver *d)
{
	static const struct vendor_symbol symbols[] = {
#define SYMBOL(f) VENDOR_SYMBOL(driver, f)
		DRIVER_FUNCTIONS(SYMBOL)
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	const char *missing;

	if (!library) {
		fprintf(stderr, "no libcuda.so.1\n");
		exit(1);
	}
	missing = vendor_resolve(library, symbols, ARRAY_SIZE(symbols), d);
	if (missing) {
		fprintf(stderr, "libcuda has no %s\n", missing);
		exit(1);
	}
}

void driver_begin(struct driver *d, unsigned device)
{
	open_library(d);
	check("cuInit", d->cuInit(0));
	check("cuDeviceGet", d->cuDeviceGet(&d->device, (int)device));
	check("cuDevicePrimaryCtxRetain", d->cuDevicePrimaryCtxRetain(&d->context, d->device));
	d->context_ns = clock_wall_ns();
	check("cuCtxSetCurrent", d->cuCtxSetCurrent(d->context));
	check("cuModuleLoadData", d->cuModuleLoadData(&d->module, ptx));
}

CUfunction driver_function(struct driver *d, const char *name)
{
	CUfunction f;

	check("cuModuleGetFunction", d->cuModuleGetFunction(&f, d->module, name));
	return f;
}
