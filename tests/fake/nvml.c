/* SPDX-License-Identifier: Apache-2.0 */
/* The fake NVML: driver, modes of GPUs, processes. The toolkit has no header for it, so the
 * few types are our own, laid out as the library's documentation says.
 *
 * GPUCTR_FAKE_NVML_FAIL="name:code[,name:code...]" makes a call return a code, the knob nvml_fail
 * all of them but nvmlInit_v2().
 *
 * GPUCTR_FAKE_GPM="50,25,-,..." are the GPM metrics of all GPUs, in the order of gpm_ids: '-' is
 * not told. Without it no GPU is supported. NVML has two samples of one GPU, the older one first.
 *
 * Processes come from $GPUCTR_FAKE_DIR/nvml_processes, one a line: "gpu pid [bytes]", and, with the
 * knob nvml_auto, from the contexts that programs hold on the fake driver. */

#include "tests/fake/state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,

	MAX_PROCESSES = 256,
};

struct nvml_device {
	int gpu;
};

struct nvml_process {
	unsigned int pid;
	unsigned long long used_bytes;
	unsigned int gpu_instance, compute_instance;
};

static int init_count;
static struct nvml_device devices[FAKE_MAX_GPUS];

/* The code with which this call is to fail; 0: the call is made. */
static int fails(const char *call)
{
	const char *rule = getenv("GPUCTR_FAKE_NVML_FAIL");
	size_t length = strlen(call);

	while (rule && *rule) {
		if (strncmp(rule, call, length) == 0 && rule[length] == ':') {
			return atoi(rule + length + 1);
		}
		rule = strchr(rule, ',');
		rule = rule ? rule + 1 : NULL;
	}
	return strcmp(call, "nvmlInit_v2") == 0 ? 0 : atomic_load(&fake_state()->nvml_fail);
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
	int failure = fails(__func__);

	if (failure) {
		return failure;
	}
	for (int i = 0; i < FAKE_MAX_GPUS; i++) {
		devices[i].gpu = i;
	}
	init_count++;
	return NVML_SUCCESS;
}

static int copy_text(char *out, unsigned int size, const char *text)
{
	if (!init_count) {
		return NVML_ERROR_UNINITIALIZED;
	}
	if (!out || strlen(text) >= size) {
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	strcpy(out, text);
	return NVML_SUCCESS;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned int size);
EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned int size)
{
	int failure = fails(__func__);
	const char *version = getenv("GPUCTR_FAKE_DRIVER");

	if (failure) {
		return failure;
	}
	return copy_text(out, size, version ? version : "580.159.04");
}

struct nvml_confidential {
	unsigned int environment, feature, devtools;
};

EXPORT int nvmlSystemGetConfComputeState(struct nvml_confidential *ret);
EXPORT int nvmlSystemGetConfComputeState(struct nvml_confidential *ret)
{
	int failure = fails(__func__);

	if (failure) {
		return failure;
	}
	*ret = (struct nvml_confidential){ .feature = getenv("GPUCTR_FAKE_CONFIDENTIAL") != NULL };
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetVirtualizationMode(struct nvml_device *device, int *ret);
EXPORT int nvmlDeviceGetVirtualizationMode(struct nvml_device *device, int *ret)
{
	int failure = fails(__func__);
	const char *mode = getenv("GPUCTR_FAKE_VIRTUALIZATION");

	if (failure) {
		return failure;
	}
	for (int gpu = device->gpu; mode && gpu > 0; gpu--) {
		mode = strchr(mode, ',') ? strchr(mode, ',') + 1 : mode;
	}
	*ret = mode ? atoi(mode) : 0;
	return NVML_SUCCESS;
}

static void format_uuid(int gpu, char text[48])
{
	uint8_t u[16];

	fake_gpu_uuid(gpu, u);
	snprintf(text, 48,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **ret);
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **ret)
{
	int failure = fails(__func__);
	char text[48];

	if (failure) {
		return failure;
	}
	for (int i = 0; i < fake_gpu_count(); i++) {
		format_uuid(i, text);
		if (strcmp(text, uuid) == 0) {
			*ret = &devices[i];
			return init_count ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

static void add_process(struct nvml_process *list, unsigned int *count, int pid,
			unsigned long long bytes)
{
	for (unsigned int i = 0; i < *count; i++) {
		if (list[i].pid == (unsigned int)pid) {
			return;
		}
	}
	if (*count < MAX_PROCESSES) {
		list[(*count)++] = (struct nvml_process){
			.pid = (unsigned int)pid,
			.used_bytes = bytes,
			.gpu_instance = UINT_MAX,
			.compute_instance = UINT_MAX,
		};
	}
}

static void read_processes(int gpu, struct nvml_process *list, unsigned int *count)
{
	const char *dir = getenv("GPUCTR_FAKE_DIR");
	char path[PATH_MAX], line[128];
	FILE *file;

	if (!dir) {
		return;
	}
	snprintf(path, sizeof(path), "%s/nvml_processes", dir);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		unsigned long long bytes = 1 << 20;
		int g, pid;

		if (sscanf(line, "%d %d %llu", &g, &pid, &bytes) >= 2 && g == gpu) {
			add_process(list, count, pid, bytes);
		}
	}
	if (file) {
		fclose(file);
	}
}

static void list_contexts(int gpu, struct nvml_process *list, unsigned int *count)
{
	struct fake_state *st = fake_state();

	if (!atomic_load(&st->nvml_auto)) {
		return;
	}
	fake_lock(st);
	for (size_t i = 0; i < FAKE_MAX_USERS; i++) {
		const struct fake_user *u = &st->users[i];

		if (u->pid && u->gpu == gpu && fake_start_time(u->pid) == u->start_time) {
			add_process(list, count, u->pid, 512ull << 20);
		}
	}
	fake_unlock(st);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned int *count,
						   struct nvml_process *out);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned int *count,
						   struct nvml_process *out)
{
	int failure = fails(__func__);
	static _Thread_local struct nvml_process list[MAX_PROCESSES];
	unsigned int found = 0, room = *count;

	if (failure) {
		return failure;
	}
	if (!init_count) {
		return NVML_ERROR_UNINITIALIZED;
	}
	read_processes(device->gpu, list, &found);
	list_contexts(device->gpu, list, &found);
	*count = found;
	if (found > room || (found && !out)) {
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	if (found) {
		memcpy(out, list, found * sizeof(*out));
	}
	return NVML_SUCCESS;
}

/* --- GPM ------------------------------------------------------------------------------------- */

struct nvml_gpm_sample {
	struct nvml_device *device; /* NULL: not taken */
	uint64_t number;
};

EXPORT const char *nvmlErrorString(int result);
EXPORT const char *nvmlErrorString(int result)
{
	return result == NVML_ERROR_NOT_SUPPORTED ? "Not Supported" : "Unknown Error";
}

EXPORT int nvmlGpmQueryDeviceSupport(struct nvml_device *device, unsigned int *version_and_is);
EXPORT int nvmlGpmQueryDeviceSupport(struct nvml_device *device, unsigned int *version_and_is)
{
	int failure = fails(__func__);

	if (failure || version_and_is[0] != 1) {
		return failure ? failure : NVML_ERROR_INVALID_ARGUMENT;
	}
	version_and_is[1] = getenv("GPUCTR_FAKE_GPM") != NULL;
	return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(struct nvml_gpm_sample **ret);
EXPORT int nvmlGpmSampleAlloc(struct nvml_gpm_sample **ret)
{
	int failure = fails(__func__);

	*ret = failure ? NULL : calloc(1, sizeof(**ret));
	return failure;
}

EXPORT int nvmlGpmSampleGet(struct nvml_device *device, struct nvml_gpm_sample *sample);
EXPORT int nvmlGpmSampleGet(struct nvml_device *device, struct nvml_gpm_sample *sample)
{
	static uint64_t taken;
	int failure = fails(__func__);

	if (failure == 0) {
		*sample = (struct nvml_gpm_sample){ device, ++taken };
	}
	return failure;
}

struct nvml_gpm_metrics {
	unsigned int version, n;
	const struct nvml_gpm_sample *before, *now;
	struct {
		unsigned int id;
		int result;
		double value;
		const char *names[3];
	} metrics[];
};

/* Of a metric by its place in GPUCTR_FAKE_GPM. */
static int find_gpm(unsigned int id, double *ret)
{
	static const unsigned int gpm_ids[] = { 2, 5, 10, 20, 21, 61, 60 };
	const char *text = getenv("GPUCTR_FAKE_GPM");
	size_t i = 0;

	while (i < sizeof(gpm_ids) / sizeof(gpm_ids[0]) && gpm_ids[i] != id) {
		text = text && strchr(text, ',') ? strchr(text, ',') + 1 : "-";
		i++;
	}
	*ret = text ? atof(text) : 0;
	return !text || *text == '-' ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

EXPORT int nvmlGpmMetricsGet(struct nvml_gpm_metrics *m);
EXPORT int nvmlGpmMetricsGet(struct nvml_gpm_metrics *m)
{
	int failure = fails(__func__);

	if (failure || m->version != 1 || !m->before->device ||
	    m->before->device != m->now->device || m->before->number >= m->now->number) {
		return failure ? failure : NVML_ERROR_INVALID_ARGUMENT;
	}
	for (unsigned int i = 0; i < m->n; i++) {
		m->metrics[i].result = find_gpm(m->metrics[i].id, &m->metrics[i].value);
	}
	return NVML_SUCCESS;
}
