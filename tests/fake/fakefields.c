/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose launches differ in everything: the properties of a launch are all different
 * numbers (but for a graph, which has no shape), and no two launches have the same ones. Kernels
 * are launched more than once, so that sums have something to add up. It prints what it did, one
 * line a launch (fields.h), a mark and a device:
 *
 *	mark<tab>THREAD<tab>STACK, the mark last<tab>MARK<tab>BEGAN<tab>ENDED
 *	device<tab>INDEX<tab>UUID<tab>NAME<tab>SM MHz<tab>MEMORY MHz
 *
 * The numbers of contexts, streams and calls, which CUDA does not tell, come from the fake driver.
 */

#include <cuda.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fake/fakefields.h"
#include "tests/fake/fields.h"
#include "tests/fake/hook.h"

enum { DEVICES = 2, CONTEXTS = 3, STREAMS = 3 };

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "fakefields: %s: %d\n", what, (int)r);
		exit(1);
	}
}

/* --- kernels --- */

enum kernel { KERNEL_SHADE, KERNEL_REDUCE, KERNEL_BLEND, KERNELS, GRAPH = KERNELS };

static const struct {
	const char *mangled, *name;
	int registers, static_shared;
} kernels[KERNELS] = {
	[KERNEL_SHADE] = { "_Z13shade_r40_s96Pf", "shade_r40_s96(float*)", 40, 96 },
	[KERNEL_REDUCE] = { "_Z15reduce_r72_s208Pi", "reduce_r72_s208(int*)", 72, 208 },
	[KERNEL_BLEND] = { "_Z13blend_r56_s48Pd", "blend_r56_s48(double*)", 56, 48 },
};

/* The contexts have the numbers 1 to 3. Their devices are chosen so that the column of the context
 * is not equal to that of the device. */
static const int device_of[CONTEXTS] = { 0, 1, 0 };

static struct {
	CUcontext context;
	CUmodule module;
	CUstream streams[STREAMS];
} contexts[CONTEXTS];
static CUlibrary library;
static CUgraphExec graph;

enum call { CALL_PLAIN, CALL_EXTENDED, CALL_COOPERATIVE, CALL_LIBRARY, CALL_GRAPH };

enum { STREAM_DEFAULT = -1, STREAM_THREAD = -2 };

struct launch {
	enum call call;
	enum kernel kernel;
	int context, stream;
	unsigned grid[3], block[3], dynamic_shared;
	unsigned threads, kernels; /* 0: they follow from the shape */
};

enum { GRAPH_CONTEXT = 1, GRAPH_STREAM = 1, GRAPH_THREADS = 64 * (3 + 5), GRAPH_KERNELS = 2 };

/* clang-format off */
static const struct launch launches[] = {
	{ CALL_PLAIN, KERNEL_SHADE, 0, 1, { 2, 3, 5 }, { 32, 7, 4 }, 1000, 0, 0 },
	{ CALL_EXTENDED, KERNEL_REDUCE, 1, 2, { 11, 13, 17 }, { 64, 6, 1 }, 2000, 0, 0 },
	{ CALL_COOPERATIVE, KERNEL_BLEND, 2, 0, { 19, 23, 29 }, { 96, 2, 5 }, 3000, 0, 0 },
	{ CALL_PLAIN, KERNEL_SHADE, 1, 0, { 31, 37, 41 }, { 128, 8, 1 }, 4000, 0, 0 },
	{ CALL_LIBRARY, KERNEL_BLEND, 0, 2, { 43, 47, 53 }, { 160, 1, 6 }, 5000, 0, 0 },
	{ CALL_PLAIN, KERNEL_REDUCE, 0, STREAM_DEFAULT, { 59, 61, 67 }, { 192, 5, 1 }, 6000, 0, 0 },
	{ CALL_PLAIN, KERNEL_REDUCE, 2, STREAM_THREAD, { 71, 73, 79 }, { 224, 1, 4 }, 7000, 0, 0 },
	{ CALL_GRAPH, GRAPH, GRAPH_CONTEXT, GRAPH_STREAM, { 0 }, { 0 }, 0, GRAPH_THREADS,
	  GRAPH_KERNELS },
	{ CALL_EXTENDED, KERNEL_SHADE, 2, 1, { 83, 89, 53 }, { 256, 3, 1 }, 8000, 0, 0 },
	{ CALL_PLAIN, KERNEL_BLEND, 2, 0, { 101, 103, 7 }, { 288, 1, 3 }, 9000, 0, 0 },
};
/* clang-format on */

static CUstream stream_of(const struct launch *l)
{
	return l->stream == STREAM_DEFAULT  ? NULL
	       : l->stream == STREAM_THREAD ? CU_STREAM_PER_THREAD
					    : contexts[l->context].streams[l->stream];
}

static CUfunction function_of(const struct launch *l)
{
	CUfunction f;
	CUkernel k;

	if (l->call == CALL_LIBRARY) {
		check("cuLibraryGetKernel",
		      cuLibraryGetKernel(&k, library, kernels[l->kernel].mangled));
		return (CUfunction)k;
	}
	check("cuModuleGetFunction",
	      cuModuleGetFunction(&f, contexts[l->context].module, kernels[l->kernel].mangled));
	return f;
}

static CUresult call(const struct launch *l)
{
	CUstream stream = stream_of(l);
	CUlaunchConfig c = {
		l->grid[0],  l->grid[1],	l->grid[2], l->block[0], l->block[1],
		l->block[2], l->dynamic_shared, stream,	    NULL,	 0,
	};

	switch (l->call) {
	case CALL_EXTENDED:
		return cuLaunchKernelEx(&c, function_of(l), NULL, NULL);
	case CALL_COOPERATIVE:
		return cuLaunchCooperativeKernel(function_of(l), c.gridDimX, c.gridDimY, c.gridDimZ,
						 c.blockDimX, c.blockDimY, c.blockDimZ,
						 c.sharedMemBytes, stream, NULL);
	case CALL_GRAPH:
		return cuGraphLaunch(graph, stream);
	default:
		return cuLaunchKernel(function_of(l), c.gridDimX, c.gridDimY, c.gridDimZ,
				      c.blockDimX, c.blockDimY, c.blockDimZ, c.sharedMemBytes,
				      stream, NULL, NULL);
	}
}

/* --- what is printed of launches --- */

static void format_uuid(char *text, size_t size, CUdevice device)
{
	size_t n = (size_t)snprintf(text, size, "GPU-");
	CUuuid uuid;

	check("cuDeviceGetUuid", cuDeviceGetUuid(&uuid, device));
	for (int i = 0; i < 16; i++) {
		n += (size_t)snprintf(text + n, size - n, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				      (unsigned char)uuid.bytes[i]);
	}
}

static const char *kind_of(const struct launch *l)
{
	return l->call == CALL_COOPERATIVE ? "cooperative"
	       : l->call == CALL_GRAPH	   ? "graph"
					   : "kernel";
}

static void set_place(char field[][TEXT_MAX], const struct launch *l)
{
	const struct fake_hooks *driver = fakecuda_hooks();
	CUcontext context = contexts[l->context].context;
	unsigned long long number;
	uint32_t stream;

	check("cuCtxGetId", cuCtxGetId(context, &number));
	driver->stream_find(context, stream_of(l), false, &stream);
	append(field[FIELD_PID], "%d", (int)getpid());
	append(field[FIELD_DEVICE], "%d", device_of[l->context]);
	format_uuid(field[FIELD_UUID], TEXT_MAX, device_of[l->context]);
	append(field[FIELD_CONTEXT], "%llu", number);
	append(field[FIELD_STREAM], "%u", stream);
	append(field[FIELD_CORRELATION], "%u", driver->last_correlation());
	append(field[FIELD_THREAD], "%u", thread_id());
}

static void set_kernel(char field[][TEXT_MAX], const struct launch *l)
{
	unsigned threads = l->threads ? l->threads : 1;

	append(field[FIELD_KIND], "%s", kind_of(l));
	if (l->call == CALL_GRAPH) {
		append(field[FIELD_KERNEL], "(CUDA graph)");
		append(field[FIELD_MANGLED], "(CUDA graph)");
	} else {
		append(field[FIELD_KERNEL], "%s", kernels[l->kernel].name);
		append(field[FIELD_MANGLED], "%s", kernels[l->kernel].mangled);
		append(field[FIELD_STATIC_SHARED], "%d", kernels[l->kernel].static_shared);
		append(field[FIELD_REGISTERS], "%d", kernels[l->kernel].registers);
	}
	for (int i = 0; i < 3; i++) {
		append(field[FIELD_GRID + i], "%u", l->grid[i]);
		append(field[FIELD_BLOCK + i], "%u", l->block[i]);
		threads *= l->threads ? 1 : l->grid[i] * l->block[i];
	}
	append(field[FIELD_DYNAMIC_SHARED], "%u", l->dynamic_shared);
	append(field[FIELD_THREADS], "%u", threads);
	append(field[FIELD_KERNELS], "%u", l->kernels ? l->kernels : 1);
}

/* Makes launch number index, with these ranges open around it. */
static void launch(size_t index, range_list open, range_list active)
{
	static char field[FIELD_PROGRAM][TEXT_MAX];
	const struct launch *l = &launches[index];

	memset(field, 0, sizeof(field));
	check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[l->context].context));
	append(field[FIELD_START], "%llu", now_ns());
	check("launch", call(l));
	append(field[FIELD_UNTIL], "%llu", now_ns());
	set_kernel(field, l);
	set_place(field, l);
	ranges_add_messages(field[FIELD_NVTX], open, "/");
	ranges_add_stack(field[FIELD_STACK], open);
	ranges_add_messages(field[FIELD_RANGES], active, ";");
	ranges_add_stack(field[FIELD_ACTIVE], active);
	ranges_add_payload(field[FIELD_PAYLOAD], open);
	printf("launch");
	for (int i = 0; i < FIELD_PROGRAM; i++) {
		printf("\t%s", field[i]);
	}
	printf("\n");
}

/* --- the program --- */

/* Later contexts have more streams, so the number of a stream tells its context as well. */
static void open_context(int i)
{
	CUstream unused;

	check("cuCtxCreate", cuCtxCreate(&contexts[i].context, NULL, 0, device_of[i]));
	check("cuModuleLoadData", cuModuleLoadData(&contexts[i].module, "image"));
	for (int k = 0; k < i * STREAMS; k++) {
		check("cuStreamCreate", cuStreamCreate(&unused, CU_STREAM_NON_BLOCKING));
	}
	for (int s = 0; s < STREAMS; s++) {
		check("cuStreamCreate",
		      cuStreamCreate(&contexts[i].streams[s], CU_STREAM_NON_BLOCKING));
	}
}

static void make_graph(void)
{
	CUstream stream = contexts[GRAPH_CONTEXT].streams[GRAPH_STREAM];
	CUfunction f;
	CUgraph g;

	check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[GRAPH_CONTEXT].context));
	check("cuModuleGetFunction",
	      cuModuleGetFunction(&f, contexts[GRAPH_CONTEXT].module, "_Z4nodePf"));
	check("begin", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	check("launch", cuLaunchKernel(f, 3, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
	check("launch", cuLaunchKernel(f, 5, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
	check("end", cuStreamEndCapture(stream, &g));
	check("cuGraphInstantiate", cuGraphInstantiate(&graph, g, 0));
	check("cuGraphDestroy", cuGraphDestroy(g));
}

static void *worker(void *unused)
{
	(void)unused;
	range_push(RANGE_WORKER);
	launch(5, OPEN(RANGE_WORKER), OPEN(RANGE_WHOLE, RANGE_BESIDE));
	range_mark(MARK_INNER, OPEN(RANGE_WORKER, MARK_INNER));
	range_pop(DOMAIN_IO);
	launch(6, OPEN(), OPEN(RANGE_WHOLE, RANGE_BESIDE));
	return NULL;
}

/* A pop ends the last range of its own domain, wherever that is in the stack. */
static void run(void)
{
	nvtxRangeId_t whole, beside;
	pthread_t thread;

	launch(0, OPEN(), OPEN());
	whole = range_start(RANGE_WHOLE);
	range_push(RANGE_FRAME);
	range_mark(MARK_OUTER, OPEN(RANGE_FRAME, MARK_OUTER));
	range_push(RANGE_PASS);
	range_push(RANGE_READ);
	launch(1, OPEN(RANGE_FRAME, RANGE_PASS, RANGE_READ), OPEN(RANGE_WHOLE));
	range_push(RANGE_DRAW);
	beside = range_start(RANGE_BESIDE);
	launch(2, OPEN(RANGE_FRAME, RANGE_PASS, RANGE_READ, RANGE_DRAW),
	       OPEN(RANGE_WHOLE, RANGE_BESIDE));
	range_pop(DOMAIN_IO);
	launch(3, OPEN(RANGE_FRAME, RANGE_PASS, RANGE_DRAW), OPEN(RANGE_WHOLE, RANGE_BESIDE));
	range_pop(DOMAIN_DEFAULT);
	launch(4, OPEN(RANGE_PASS, RANGE_DRAW), OPEN(RANGE_WHOLE, RANGE_BESIDE));
	range_mark(MARK_MIDDLE, OPEN(RANGE_PASS, RANGE_DRAW, MARK_MIDDLE));
	pthread_create(&thread, NULL, worker, NULL);
	pthread_join(thread, NULL);
	range_end(RANGE_WHOLE, whole);
	range_pop(DOMAIN_RENDER);
	launch(7, OPEN(RANGE_PASS), OPEN(RANGE_BESIDE));
	range_end(RANGE_BESIDE, beside);
	range_pop(DOMAIN_RENDER);
	launch(8, OPEN(), OPEN());
	launch(9, OPEN(), OPEN()); /* the same context, another stream */
}

static void print_device(int i)
{
	char uuid[64], name[64];
	int sm, memory;

	format_uuid(uuid, sizeof(uuid), i);
	check("cuDeviceGetName", cuDeviceGetName(name, sizeof(name), i));
	check("clock", cuDeviceGetAttribute(&sm, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, i));
	check("clock", cuDeviceGetAttribute(&memory, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, i));
	printf("device\t%d\t%s\t%s\t%d\t%d\n", i, uuid, name, sm / 1000, memory / 1000);
}

int main(void)
{
	check("cuInit", cuInit(0));
	ranges_begin();
	for (int i = 0; i < CONTEXTS; i++) {
		open_context(i);
	}
	check("cuLibraryLoadData",
	      cuLibraryLoadData(&library, "image", NULL, NULL, 0, NULL, NULL, 0));
	make_graph();
	run();
	for (int i = 0; i < DEVICES; i++) {
		print_device(i);
	}
	for (int i = 0; i < CONTEXTS; i++) {
		check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[i].context));
		check("cuCtxSynchronize", cuCtxSynchronize());
		check("cuCtxDestroy", cuCtxDestroy(contexts[i].context));
	}
	return 0;
}
