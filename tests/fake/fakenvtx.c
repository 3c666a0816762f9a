/* SPDX-License-Identifier: Apache-2.0 */
/* A program that calls every function of NVTX that may stand around a kernel.
 *
 * fakenvtx [--fork | --steps N]
 *
 * It launches a kernel after each step and prints, one line a launch, what it knows to be open:
 *
 *	PUSHED, outermost first, separated by "/"<tab>STARTED, in the order of their start
 *
 * and a line "mark<tab>TEXT" for each mark. A level that NVTX returns wrongly ends it with 1.
 *
 * With --fork a thread starts and ends ranges all the time while children are forked, each of which
 * starts, pushes, pops and ends ranges of its own: none of them may hang. Prints "children N".
 *
 * With --steps it launches as N steps of a training do, in ranges that are numbered as PyTorch's
 * emit_nvtx() numbers them, and prints "grown KIB": by how much its memory has grown since the step
 * GROWN_FROM. */

#include <cuda.h>
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEEP = 40, OPEN_MAX = 64, LONG = 200, TOO_LONG = 20000, KEPT = 16 * 1024, CHILDREN = 20 };
enum { GROWN_FROM = 2000, OPERATORS = 3 };

static CUfunction kernel;
static nvtxDomainHandle_t wide_domain;

static const char *pushed[OPEN_MAX], *started[OPEN_MAX];
static size_t n_pushed, n_started;

static void fail(const char *what, int got, int wanted)
{
	fprintf(stderr, "fakenvtx: %s: %d, not %d\n", what, got, wanted);
	exit(1);
}

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fail(what, (int)r, CUDA_SUCCESS);
	}
}

static void print_list(const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		printf("%s%s", i > 0 ? "/" : "", v[i]);
	}
}

static void launch(void)
{
	check("cuLaunchKernel", cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	print_list(pushed, n_pushed);
	printf("\t");
	print_list(started, n_started);
	printf("\n");
}

/* NVTX counts levels from 0, in each domain. */
static void note_push(const char *text, int level, int wanted)
{
	if (level != wanted) {
		fail(text, level, wanted);
	}
	pushed[n_pushed++] = text;
	launch();
}

static void note_pop(size_t index, int level, int wanted)
{
	if (level != wanted) {
		fail("pop", level, wanted);
	}
	n_pushed--;
	memmove(&pushed[index], &pushed[index + 1], (n_pushed - index) * sizeof(pushed[0]));
	launch();
}

static void note_start(const char *text)
{
	started[n_started++] = text;
	launch();
}

static void note_end(size_t index)
{
	n_started--;
	memmove(&started[index], &started[index + 1], (n_started - index) * sizeof(started[0]));
	launch();
}

static void note_mark(const char *text)
{
	printf("mark\t%s\n", text);
}

static nvtxEventAttributes_t wide(const wchar_t *text)
{
	return (nvtxEventAttributes_t){
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_UNICODE,
		.message.unicode = text,
	};
}

static nvtxEventAttributes_t registered(nvtxStringHandle_t s)
{
	return (nvtxEventAttributes_t){
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
		.message.registered = s,
	};
}

/* --- the steps --- */

/* Characters of one to four bytes in UTF-8. */
static void push_and_pop(void)
{
	nvtxEventAttributes_t ex = wide(L"extended \u00fc");
	nvtxEventAttributes_t inner = wide(L"of a domain");
	nvtxEventAttributes_t string =
		registered(nvtxDomainRegisterStringW(wide_domain, L"registriert \u20ac"));

	note_push("ascii", nvtxRangePushA("ascii"), 0);
	note_push("wide \303\274\342\202\254\360\237\224\245",
		  nvtxRangePushW(L"wide \u00fc\u20ac\U0001f525"), 1);
	note_push("extended \303\274", nvtxRangePushEx(&ex), 2);
	note_push("of a domain", nvtxDomainRangePushEx(wide_domain, &inner), 0);
	note_push("registriert \342\202\254", nvtxDomainRangePushEx(wide_domain, &string), 1);
	note_pop(2, nvtxRangePop(), 2);
	note_pop(3, nvtxDomainRangePop(wide_domain), 1);
	note_pop(2, nvtxDomainRangePop(wide_domain), 0);
	note_pop(1, nvtxRangePop(), 1);
	note_pop(0, nvtxRangePop(), 0);
	if (nvtxRangePop() != NVTX_NO_PUSH_POP_TRACKING) {
		fail("a pop without a push", 0, NVTX_NO_PUSH_POP_TRACKING);
	}
	launch();
}

static void start_and_end(void)
{
	nvtxEventAttributes_t ex = wide(L"started ex");
	nvtxEventAttributes_t inner = wide(L"started in a domain");
	nvtxRangeId_t ids[4];

	ids[0] = nvtxRangeStartA("started");
	note_start("started");
	ids[1] = nvtxRangeStartW(L"started \u20ac");
	note_start("started \342\202\254");
	ids[2] = nvtxRangeStartEx(&ex);
	note_start("started ex");
	ids[3] = nvtxDomainRangeStartEx(wide_domain, &inner);
	note_start("started in a domain");
	nvtxRangeEnd(ids[1]);
	note_end(1);
	nvtxDomainRangeEnd(wide_domain, ids[3]);
	note_end(2);
	nvtxRangeEnd(ids[0]);
	note_end(0);
	nvtxRangeEnd(ids[2]);
	note_end(0);
	nvtxRangeEnd(ids[2]); /* it has ended already */
	launch();
}

static void mark(void)
{
	nvtxEventAttributes_t ex = wide(L"mark ex");
	nvtxEventAttributes_t inner = wide(L"mark of a domain");

	nvtxMarkA("mark");
	note_mark("mark");
	nvtxMarkW(L"mark \u00fc");
	note_mark("mark \303\274");
	nvtxMarkEx(&ex);
	note_mark("mark ex");
	nvtxDomainMarkEx(wide_domain, &inner);
	note_mark("mark of a domain");
}

/* Ranges that outgrow the first stack, some with messages that are not kept within it. */
static void go_deep(void)
{
	static char texts[DEEP][LONG + 1];

	for (size_t i = 0; i < DEEP; i++) {
		memset(texts[i], 'a' + (int)(i % 26), i % 3 == 0 ? LONG : 5);
		note_push(texts[i], nvtxRangePushA(texts[i]), (int)i);
	}
	for (int i = DEEP; i-- > 0;) {
		note_pop((size_t)i, nvtxRangePop(), i);
	}
}

static void use_long_messages(void)
{
	static char message[TOO_LONG + 1], kept[KEPT + 1];

	memset(message, 'x', TOO_LONG);
	memset(kept, 'x', KEPT);
	note_push(kept, nvtxRangePushA(message), 0);
	note_pop(0, nvtxRangePop(), 0);
}

/* --- forks --- */

static atomic_bool over;

static void *start_and_end_always(void *unused)
{
	(void)unused;
	while (!atomic_load(&over)) {
		nvtxRangeId_t id = nvtxRangeStartA("of a thread");

		nvtxRangePushA("pushed by a thread");
		nvtxDomainNameCategoryA(wide_domain, 1, "category");
		nvtxRangePop();
		nvtxRangeEnd(id);
	}
	return NULL;
}

static void be_a_child(void)
{
	nvtxRangeId_t id = nvtxRangeStartA("of a child");

	nvtxRangePushA("pushed by a child");
	nvtxMarkA("mark of a child");
	nvtxRangePop();
	nvtxRangeEnd(id);
	_exit(0);
}

static void fork_children(void)
{
	pthread_t thread;
	int good = 0;

	pthread_create(&thread, NULL, start_and_end_always, NULL);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			be_a_child();
		}
		good += waitpid(pid, &status, 0) == pid && status == 0;
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	printf("children %d\n", good);
}

/* --- steps --- */

/* Of memory that no file holds. */
static long resident_kib(void)
{
	long pages = 0, shared = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%*d %ld %ld", &pages, &shared) != 2) {
		fail("statm", 0, 2);
	}
	fclose(f);
	return (pages - shared) * (sysconf(_SC_PAGESIZE) / 1024);
}

static void take_step(int step)
{
	char text[160];
	nvtxRangeId_t loading;

	snprintf(text, sizeof(text), "batch %d", step);
	loading = nvtxRangeStartA(text);
	snprintf(text, sizeof(text), "iteration %d", step);
	nvtxRangePushA(text);
	for (int i = 0; i < OPERATORS; i++) {
		int seq = step * OPERATORS + i;

		snprintf(text, sizeof(text),
			 "aten::op%d, seq = %d, op_id = %d, sizes = [[%d, 8]], input_op_ids = "
			 "[(%d,0)]",
			 i, seq, 7 * seq, i, 7 * seq - 1);
		nvtxRangePushA(text);
		check("cuLaunchKernel",
		      cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
		nvtxRangePop();
	}
	nvtxRangePop();
	nvtxRangeEnd(loading);
}

static void take_steps(int n)
{
	long before = 0;

	for (int step = 0; step < n; step++) {
		before = step == GROWN_FROM ? resident_kib() : before;
		take_step(step);
	}
	printf("grown %ld\n", before ? resident_kib() - before : 0);
}

static void load_kernel(void)
{
	CUcontext context;
	CUmodule module;

	check("cuInit", cuInit(0));
	check("cuCtxCreate", cuCtxCreate(&context, NULL, 0, 0));
	check("cuModuleLoadData", cuModuleLoadData(&module, "image"));
	check("cuModuleGetFunction", cuModuleGetFunction(&kernel, module, "_Z4axpyPf"));
}

int main(int argc, char **argv)
{
	load_kernel();
	wide_domain = nvtxDomainCreateW(L"dom\u00e4ne");
	nvtxDomainNameCategoryW(wide_domain, 1, L"kategorie \u00e4");
	nvtxNameCategoryW(1, L"category \u00e4");
	if (argc > 1 && strcmp(argv[1], "--fork") == 0) {
		fork_children();
	} else if (argc > 2 && strcmp(argv[1], "--steps") == 0) {
		take_steps(atoi(argv[2]));
	} else {
		launch();
		push_and_pop();
		start_and_end();
		mark();
		go_deep();
		use_long_messages();
	}
	nvtxDomainDestroy(wide_domain);
	check("cuCtxSynchronize", cuCtxSynchronize());
	return 0;
}
