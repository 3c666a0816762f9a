/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose launches fail and whose contexts come and go.
 *
 * fakerough [CONTEXTS [KERNELS]]
 *
 * Makes one context after the other, and destroys each before it makes the next, with KERNELS
 * launches in it that succeed. Before every fourth one it makes a launch with an empty grid, which
 * the driver refuses. Prints "done GOOD BAD SAME": the number of launches of each kind, and of
 * contexts that had the address of an earlier one. */

#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>

enum { CONTEXTS_MAX = 64, THREADS = 128 };

static CUcontext before[CONTEXTS_MAX];
static unsigned good, bad, same;

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, (int)r);
		exit(1);
	}
}

static void launch(CUfunction f, unsigned grid)
{
	CUresult r = cuLaunchKernel(f, grid, 1, 1, THREADS, 1, 1, 0, NULL, NULL, NULL);

	good += r == CUDA_SUCCESS;
	bad += r != CUDA_SUCCESS;
}

static void use_context(unsigned number, unsigned kernels)
{
	CUcontext context;
	CUmodule module;
	CUfunction f;

	check("cuCtxCreate", cuCtxCreate(&context, NULL, 0, 0));
	for (unsigned i = 0; i < number; i++) {
		if (before[i] == context) {
			same++;
			break;
		}
	}
	before[number] = context;
	check("cuModuleLoadData", cuModuleLoadData(&module, "rough"));
	check("cuModuleGetFunction", cuModuleGetFunction(&f, module, "_Z5roughPf"));
	for (unsigned i = 0; i < kernels; i++) {
		if (i % 4 == 3) {
			launch(f, 0);
		}
		launch(f, i % 97 + 1);
	}
	check("cuCtxDestroy", cuCtxDestroy_v2(context));
}

int main(int argc, char **argv)
{
	unsigned contexts = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 3;
	unsigned kernels = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 20;

	check("cuInit", cuInit(0));
	for (unsigned i = 0; i < contexts && i < CONTEXTS_MAX; i++) {
		use_context(i, kernels);
	}
	printf("done %u %u %u\n", good, bad, same);
	fflush(stdout); /* before the agent waits for whoever reads its records */
	return 0;
}
