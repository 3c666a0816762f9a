/* SPDX-License-Identifier: Apache-2.0 */
/* A program such as users have: initialises CUDA, launches kernels, ends. It knows nothing of
 * measuring; its output and exit status must not depend on being measured.
 *
 * Each host thread launches --kernels kernels. Launch i is kernel k<i % 8> on grid (i % 97 + 1, 1,
 * 1), block (128, 1, 1), in context (thread + i) % contexts, stream i % streams of that context
 * (without --streams: the default stream). Context c is on device c % devices. README.md has the
 * rest. */

#include <cuda.h>
#include <cudaProfiler.h>
#include <nvtx3/nvToolsExt.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	KERNEL_NAMES = 8,
	MAX_CONTEXTS = 32,
	MAX_STREAMS = 64,
	BLOCK = 128,
	LAYERS = 4,
	OWN_NAME_MAX = 8192,
};

enum option_id {
	OPT_KERNELS = 1,
	OPT_THREADS,
	OPT_STREAMS,
	OPT_CONTEXTS,
	OPT_DEVICES,
	OPT_CHILDREN,
	OPT_SLEEP_US,
	OPT_UNTIL,
	OPT_LEAVE,
	OPT_EXIT,
	OPT_CRASH,
	OPT_NVTX,
	OPT_NVTX_FROM,
	OPT_NVTX_NAMES,
	OPT_GRAPH,
	OPT_GRAPH_NODES,
	OPT_GRAPH_LAUNCHES,
	OPT_GRAPH_NESTED,
	OPT_CAPTURE,
	OPT_FORK,
	OPT_SIGNAL,
	OPT_OWN_CUPTI,
	OPT_NO_CUDA,
	OPT_PRINT,
	OPT_MIXED,
	OPT_KEEP,
	OPT_HOLD,
	OPT_MARKS,
	OPT_LIBRARY,
	OPT_GRIDS,
	OPT_BLOCKS,
	OPT_PROFILER,
	OPT_STEPS,
	OPT_OUTER,
	OPT_OPERATORS,
	OPT_FILLS,
	OPT_SHUFFLE_FROM,
	OPT_COUNT,
};

static long value[OPT_COUNT];
static const char *hold_place = "", *leave_how = "", *until_path;

static const struct option options[] = {
	{ "kernels", required_argument, NULL, OPT_KERNELS },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "streams", required_argument, NULL, OPT_STREAMS },
	{ "contexts", required_argument, NULL, OPT_CONTEXTS },
	{ "devices", required_argument, NULL, OPT_DEVICES },
	{ "children", required_argument, NULL, OPT_CHILDREN },
	{ "sleep-us", required_argument, NULL, OPT_SLEEP_US },
	{ "until", required_argument, NULL, OPT_UNTIL },
	{ "leave", required_argument, NULL, OPT_LEAVE },
	{ "exit", required_argument, NULL, OPT_EXIT },
	{ "crash-after", required_argument, NULL, OPT_CRASH },
	{ "nvtx", no_argument, NULL, OPT_NVTX },
	{ "nvtx-from", required_argument, NULL, OPT_NVTX_FROM },
	{ "nvtx-names", required_argument, NULL, OPT_NVTX_NAMES },
	{ "graph", no_argument, NULL, OPT_GRAPH },
	{ "graph-nodes", required_argument, NULL, OPT_GRAPH_NODES },
	{ "graph-launches", required_argument, NULL, OPT_GRAPH_LAUNCHES },
	{ "graph-nested", no_argument, NULL, OPT_GRAPH_NESTED },
	{ "capture", no_argument, NULL, OPT_CAPTURE },
	{ "fork", no_argument, NULL, OPT_FORK },
	{ "exit-in-signal", no_argument, NULL, OPT_SIGNAL },
	{ "own-cupti", no_argument, NULL, OPT_OWN_CUPTI },
	{ "no-cuda", no_argument, NULL, OPT_NO_CUDA },
	{ "print", no_argument, NULL, OPT_PRINT },
	{ "mixed", no_argument, NULL, OPT_MIXED },
	{ "keep-contexts", no_argument, NULL, OPT_KEEP },
	{ "hold", required_argument, NULL, OPT_HOLD },
	{ "marks", required_argument, NULL, OPT_MARKS },
	{ "profiler", required_argument, NULL, OPT_PROFILER },
	{ "library-steps", no_argument, NULL, OPT_STEPS },
	{ "outer", no_argument, NULL, OPT_OUTER },
	{ "operators", no_argument, NULL, OPT_OPERATORS },
	{ "fills", required_argument, NULL, OPT_FILLS },
	{ "library", no_argument, NULL, OPT_LIBRARY },
	{ "grids", required_argument, NULL, OPT_GRIDS },
	{ "blocks", required_argument, NULL, OPT_BLOCKS },
	{ "shuffle-from", required_argument, NULL, OPT_SHUFFLE_FROM },
	{ NULL, 0, NULL, 0 },
};

struct app_context {
	CUcontext context;
	CUfunction function[KERNEL_NAMES];
	CUstream stream[MAX_STREAMS];
};

static struct app_context contexts[MAX_CONTEXTS];
static _Atomic long launched;
static nvtxDomainHandle_t domain;
static nvtxStringHandle_t registered;

static void check(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "fakeapp: %s: error %d\n", what, (int)r);
		exit(3);
	}
}

/* Waits here, while a test looks at the rest of the world, or kills the program. */
static void hold(const char *place)
{
	const char *folder = getenv("GPUCTR_FAKE_DIR");
	char path[512];
	int fd;

	if (!folder || strcmp(place, hold_place) != 0) {
		return;
	}
	snprintf(path, sizeof(path), "%s/held.%d", folder, (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0) {
		return;
	}
	close(fd);
	while (access(path, F_OK) == 0) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/* --library: kernels as CUDA's runtime has them, the same handles in all contexts. */
static CUfunction library_kernel(const char *name)
{
	static CUlibrary library;
	CUkernel kernel;

	if (!library) {
		check(cuLibraryLoadData(&library, "image", NULL, NULL, 0, NULL, NULL, 0),
		      "cuLibraryLoadData");
	}
	check(cuLibraryGetKernel(&kernel, library, name), "cuLibraryGetKernel");
	return (CUfunction)kernel;
}

static void open_context(long index)
{
	static const char image[] = "image";
	struct app_context *c = &contexts[index];
	CUdevice device;
	CUmodule module;

	check(cuDeviceGet(&device, (int)(index % value[OPT_DEVICES])), "cuDeviceGet");
	check(cuCtxCreate(&c->context, NULL, 0, device), "cuCtxCreate");
	check(cuModuleLoadData(&module, image), "cuModuleLoadData");
	for (int k = 0; k < KERNEL_NAMES; k++) {
		char name[16];

		snprintf(name, sizeof(name), "_Z2k%dPf", k);
		if (value[OPT_LIBRARY]) {
			c->function[k] = library_kernel(name);
			continue;
		}
		check(cuModuleGetFunction(&c->function[k], module, name), "cuModuleGetFunction");
	}
	for (long s = 0; s < value[OPT_STREAMS]; s++) {
		check(cuStreamCreate(&c->stream[s], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	}
	check(cuCtxPopCurrent(NULL), "cuCtxPopCurrent");
}

/* --mixed: every seventh kernel by the extended launch, every eighth as a cooperative one. */
static CUresult launch(CUfunction f, int kernel, unsigned int grid, CUstream stream)
{
	CUlaunchConfig config = {
		.gridDimX = grid,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = BLOCK,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream,
	};

	if (value[OPT_MIXED] && kernel == 6) {
		return cuLaunchKernelEx(&config, f, NULL, NULL);
	}
	if (value[OPT_MIXED] && kernel == 7) {
		return cuLaunchCooperativeKernel(f, grid, 1, 1, BLOCK, 1, 1, 0, stream, NULL);
	}
	return cuLaunchKernel(f, grid, 1, 1, BLOCK, 1, 1, 0, stream, NULL, NULL);
}

static void on_signal(int number)
{
	(void)number;
	exit((int)value[OPT_EXIT]);
}

static void misbehave(long count)
{
	if (count == 1) {
		hold("first");
	}
	if (count == value[OPT_KERNELS] / 2) {
		hold("middle");
	}
	if (value[OPT_CRASH] && count == value[OPT_CRASH]) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	if (value[OPT_SIGNAL] && count == value[OPT_KERNELS] / 2) {
		signal(SIGUSR1, on_signal);
		raise(SIGUSR1);
	}
}

static void range_begin(long i)
{
	nvtxEventAttributes_t event = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
		.message.registered = registered,
	};
	char name[32];

	if (i % LAYERS == 0) {
		snprintf(name, sizeof(name), "step %ld", i / LAYERS);
		nvtxRangePushA(name);
		nvtxDomainRangePushEx(domain, &event);
	}
	snprintf(name, sizeof(name), value[OPT_OPERATORS] ? "aten::relu, seq = %ld" : "layer %ld",
		 i % LAYERS);
	nvtxRangePushA(name);
}

static void range_end(long i)
{
	nvtxRangePop();
	if (i % LAYERS == LAYERS - 1 || i == value[OPT_KERNELS] - 1) {
		nvtxDomainRangePop(domain);
		nvtxRangePop();
		nvtxMarkA("step done");
	}
}

static unsigned int grid_of(long i)
{
	return (unsigned int)((i % value[OPT_GRIDS] + 1) * value[OPT_BLOCKS]);
}

/* In turn; with --shuffle-from N, from the N-th launch on (from 1), in no order that recurs. */
static int kernel_of(long i)
{
	uint64_t x = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);

	return (int)(value[OPT_SHUFFLE_FROM] && i + 1 >= value[OPT_SHUFFLE_FROM]
			     ? (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 40
			     : (uint64_t)i) %
	       KERNEL_NAMES;
}

static void launch_one(long thread, long i)
{
	long at = (thread + i) % value[OPT_CONTEXTS];
	long s = value[OPT_STREAMS] ? i % value[OPT_STREAMS] : -1;
	struct app_context *c = &contexts[at];
	unsigned int grid = grid_of(i);
	int kernel = kernel_of(i);

	check(cuCtxSetCurrent(c->context), "cuCtxSetCurrent");
	check(launch(c->function[kernel], kernel, grid, s < 0 ? NULL : c->stream[s]), "launch");
	for (long k = 0; k < value[OPT_FILLS]; k++) {
		check(cuMemsetD32Async(1, 0, 4096, s < 0 ? NULL : c->stream[s]), "fill");
	}
	if (value[OPT_PRINT]) {
		printf("launch %ld %ld k%d %u %d %ld %ld\n", thread, i, kernel, grid, BLOCK, at, s);
	}
}

/* Of the build that this program is of, where it lies in one. By its path: a search path in the
 * program would be the agent's as well, and find it the fakes. */
static void *open_own_library(void)
{
	char path[PATH_MAX + 64];
	void *library = NULL;
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	if (n > 0) {
		path[n] = '\0';
		strcpy(strrchr(path, '/'), "/../../client/lib/libgpuctr.so.0");
		library = dlopen(path, RTLD_NOW);
	}
	return library ? library : dlopen("libgpuctr.so.0", RTLD_NOW);
}

/* gpuctr_step() of our library, which programs need not have: most of its runs are without. */
static void say_step(void)
{
	static void (*_Atomic step)(void);

	if (!step) {
		void *library = open_own_library();

		step = library ? (void (*)(void))dlsym(library, "gpuctr_step") : NULL;
	}
	if (!step) {
		fprintf(stderr, "fakeapp: %s\n", dlerror());
		exit(1);
	}
	step();
}

/* Captures kernels k0, k1, ... with grids 1, 2, ... from the stream and returns the graph. within:
 * launched into it as well, or NULL. */
static CUgraph capture_graph(CUstream stream, CUgraphExec within)
{
	CUgraph graph;

	check(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin capture");
	for (long i = 0; i < value[OPT_GRAPH_NODES]; i++) {
		int k = (int)(i % KERNEL_NAMES);

		check(launch(contexts[0].function[k], k, grid_of(i), stream), "launch");
	}
	if (within) {
		check(cuGraphLaunch(within, stream), "cuGraphLaunch");
	}
	check(cuStreamEndCapture(stream, &graph), "end capture");
	return graph;
}

/* A graph that is captured and never runs. */
static void capture_once(void)
{
	CUstream stream;

	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(cuGraphDestroy(capture_graph(stream, NULL)), "cuGraphDestroy");
	check(cuStreamDestroy(stream), "cuStreamDestroy");
}

/* --until: the file is there. */
static bool is_over(void)
{
	return until_path && access(until_path, F_OK) == 0;
}

/* --nvtx-names: a name that no other launch has, of so many bytes. */
static void push_own_name(long thread, long i)
{
	char name[OWN_NAME_MAX];

	snprintf(name, sizeof(name), "%0*ld of thread %ld",
		 (int)(value[OPT_NVTX_NAMES] < OWN_NAME_MAX ? value[OPT_NVTX_NAMES] : 0), i,
		 thread);
	nvtxRangePushA(name);
}

static void *thread_main(void *argument)
{
	long thread = (long)(intptr_t)argument;
	struct timespec pause = { value[OPT_SLEEP_US] / 1000000,
				  value[OPT_SLEEP_US] % 1000000 * 1000 };

	for (long i = 0; i < value[OPT_KERNELS] && !is_over(); i++) {
		if (value[OPT_PROFILER] && i % value[OPT_PROFILER] == 0) {
			check(i / value[OPT_PROFILER] % 2 ? cuProfilerStart() : cuProfilerStop(),
			      "cuProfilerStart");
		}
		if (value[OPT_STEPS] && i % LAYERS == 0) {
			say_step();
		}
		if (value[OPT_NVTX]) {
			range_begin(i);
		}
		if (value[OPT_NVTX_FROM] && i == value[OPT_NVTX_FROM]) {
			nvtxRangePushA("late");
		}
		if (value[OPT_NVTX_NAMES]) {
			push_own_name(thread, i);
		}
		launch_one(thread, i);
		if (value[OPT_NVTX_NAMES]) {
			nvtxRangePop();
		}
		if (value[OPT_NVTX]) {
			range_end(i);
		}
		misbehave(atomic_fetch_add(&launched, 1) + 1);
		if (value[OPT_SLEEP_US]) {
			nanosleep(&pause, NULL);
		}
	}
	return NULL;
}

static void for_each_thread(void *(*run)(void *number))
{
	pthread_t *threads = calloc((size_t)value[OPT_THREADS], sizeof(*threads));

	if (value[OPT_THREADS] == 1) {
		run(NULL);
	}
	for (long t = 0; threads && value[OPT_THREADS] > 1 && t < value[OPT_THREADS]; t++) {
		if (pthread_create(&threads[t], NULL, run, (void *)(intptr_t)t) != 0) {
			exit(3);
		}
	}
	for (long t = 0; threads && value[OPT_THREADS] > 1 && t < value[OPT_THREADS]; t++) {
		pthread_join(threads[t], NULL);
	}
	free(threads);
}

static void run_threads(void)
{
	nvtxRangeId_t loading = 0;

	if (value[OPT_NVTX]) {
		loading = nvtxRangeStartA("whole run");
	}
	if (value[OPT_OUTER]) {
		nvtxRangePushA("outer");
	}
	for (long i = 0; i < value[OPT_MARKS]; i++) {
		nvtxMarkA("mark");
	}
	for_each_thread(thread_main);
	if (value[OPT_OUTER]) {
		nvtxRangePop();
	}
	if (value[OPT_NVTX]) {
		nvtxRangeEnd(loading);
	}
}

/* --graph-nested: a graph that holds the one before it. */
static CUgraphExec make_graph(CUstream stream, CUgraphExec within)
{
	CUgraph graph = capture_graph(stream, within);
	CUgraphExec exec;

	check(cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
	check(cuGraphDestroy(graph), "cuGraphDestroy");
	return exec;
}

static void launch_graph(CUgraphExec exec, CUstream stream, long i)
{
	struct timespec pause = { value[OPT_SLEEP_US] / 1000000,
				  value[OPT_SLEEP_US] % 1000000 * 1000 };
	char name[32];

	snprintf(name, sizeof(name), "replay %ld", i);
	if (value[OPT_NVTX]) {
		nvtxRangePushA(name);
	}
	check(cuGraphLaunch(exec, stream), "cuGraphLaunch");
	if (value[OPT_NVTX]) {
		nvtxRangePop();
	}
	if (value[OPT_SLEEP_US]) {
		nanosleep(&pause, NULL);
	}
}

/* --capture: a graph that is captured and never runs. --graph: one that runs twice, or as often as
 * --graph-launches says, in each thread. */
static void *run_graphs(void *unused)
{
	CUgraphExec exec, nested = NULL;
	CUstream stream;

	(void)unused;
	check(cuCtxSetCurrent(contexts[0].context), "cuCtxSetCurrent");
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	if (value[OPT_CAPTURE]) {
		capture_once();
	}
	if (value[OPT_GRAPH]) {
		exec = make_graph(stream, NULL);
		nested = value[OPT_GRAPH_NESTED] ? make_graph(stream, exec) : NULL;
		for (long i = 0; i < value[OPT_GRAPH_LAUNCHES]; i++) {
			launch_graph(nested ? nested : exec, stream, i);
		}
		check(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
		check(nested ? cuGraphExecDestroy(nested) : CUDA_SUCCESS, "cuGraphExecDestroy");
	}
	check(cuStreamDestroy(stream), "cuStreamDestroy");
	return NULL;
}

/* What torch.profiler does to a tool that has subscribed before it, or the tool to
 * torch.profiler. */
static void on_own_callback(void *user_data, int domain_id, uint32_t cbid, const void *data)
{
	(void)user_data;
	(void)domain_id;
	(void)cbid;
	(void)data;
}

static void use_own_cupti(void)
{
	void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
	int (*subscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *);
	void *subscriber;
	int r = -1;

	if (library) {
		subscribe = (int (*)(void **, void (*)(void *, int, uint32_t, const void *),
				     void *))dlsym(library, "cuptiSubscribe");
		r = subscribe ? subscribe(&subscriber, on_own_callback, NULL) : -1;
	}
	fprintf(stderr, "own cupti: %d\n", r);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			return 3;
		}
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Starts the same program again; the variable keeps that one from having children. */
static pid_t start_child(char **argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		setenv("FAKEAPP_IS_CHILD", "1", 1);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	return pid;
}

static int run_children(char **argv)
{
	long count = value[OPT_CHILDREN];
	pid_t *pids = calloc((size_t)count, sizeof(*pids));
	int worst = 0;

	for (long i = 0; pids && i < count; i++) {
		pids[i] = start_child(argv);
	}
	for (long i = 0; pids && i < count; i++) {
		int status = wait_for(pids[i]);

		worst = status > worst ? status : worst;
	}
	free(pids);
	return worst;
}

/* The child runs exit handlers, as it does after multiprocessing's fork. */
static void run_fork(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		exit(0);
	}
	if (wait_for(pid) != 0) {
		fprintf(stderr, "fakeapp: the forked child failed\n");
	}
}

static void parse(int argc, char **argv)
{
	int id;

	value[OPT_KERNELS] = 10;
	value[OPT_THREADS] = 1;
	value[OPT_GRIDS] = 97;
	value[OPT_BLOCKS] = 1;
	value[OPT_DEVICES] = 1;
	value[OPT_GRAPH_NODES] = 4;
	value[OPT_GRAPH_LAUNCHES] = 2;
	while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (id == '?') {
			exit(2);
		}
		value[id] = optarg ? strtol(optarg, NULL, 10) : 1;
		hold_place = id == OPT_HOLD ? optarg : hold_place;
		leave_how = id == OPT_LEAVE ? optarg : leave_how;
		until_path = id == OPT_UNTIL ? optarg : until_path;
	}
	if (value[OPT_CONTEXTS] == 0) {
		value[OPT_CONTEXTS] = value[OPT_DEVICES];
	}
	if (value[OPT_CONTEXTS] > MAX_CONTEXTS || value[OPT_STREAMS] > MAX_STREAMS ||
	    value[OPT_THREADS] < 1 || value[OPT_DEVICES] < 1) {
		fprintf(stderr, "fakeapp: out of range\n");
		exit(2);
	}
}

static void start_nvtx(void)
{
	domain = nvtxDomainCreateA("fakeapp");
	registered = nvtxDomainRegisterStringA(domain, "epoch");
}

static void run_cuda(void)
{
	CUresult result;

	hold("start");
	result = cuInit(0);
	if (result != CUDA_SUCCESS) {
		hold("failed");
	}
	check(result, "cuInit");
	hold("init");
	if (value[OPT_OWN_CUPTI]) {
		use_own_cupti();
	}
	for (long c = 0; c < value[OPT_CONTEXTS]; c++) {
		open_context(c);
	}
	if (value[OPT_NVTX]) {
		start_nvtx();
	}
	hold("context");
	run_threads();
	if (value[OPT_GRAPH] || value[OPT_CAPTURE]) {
		for_each_thread(run_graphs);
	}
	if (value[OPT_FORK]) {
		run_fork();
	}
	for (long c = 0; c < value[OPT_CONTEXTS] && !value[OPT_KEEP]; c++) {
		check(cuCtxSetCurrent(contexts[c].context), "cuCtxSetCurrent");
		check(cuCtxSynchronize(), "cuCtxSynchronize");
		check(cuCtxDestroy(contexts[c].context), "cuCtxDestroy");
	}
	hold("end");
}

/* --leave: at once, where no handler of exit() is called. */
static void leave(int status)
{
	fflush(stdout);
	if (strcmp(leave_how, "_exit") == 0) {
		_exit(status);
	}
	if (strcmp(leave_how, "quick_exit") == 0) {
		quick_exit(status);
	}
	if (strcmp(leave_how, "kill") == 0) {
		kill(getpid(), SIGKILL);
	}
	if (strcmp(leave_how, "exec") == 0) {
		execl("/bin/sleep", "sleep", "1", NULL);
	}
}

int main(int argc, char **argv)
{
	int status = 0;

	parse(argc, argv);
	if (value[OPT_CHILDREN] && !getenv("FAKEAPP_IS_CHILD")) {
		status = run_children(argv);
	}
	if (value[OPT_OUTER]) {
		nvtxRangePushA("early");
	}
	if (!value[OPT_NO_CUDA]) {
		run_cuda();
	}
	printf("done %ld\n", atomic_load(&launched));
	leave(status);
	return value[OPT_EXIT] ? (int)value[OPT_EXIT] : status;
}
