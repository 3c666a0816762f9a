/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/account.h"

#include <inttypes.h>

#include "tests/system/fixture.h"

const char *const account_fields[N_FIELDS] = {
	[FIELD_PID] = "pid",
	[FIELD_KIND] = "kind",
	[FIELD_KERNEL] = "kernel",
	[FIELD_MANGLED] = "mangled",
	[FIELD_STATIC_SHARED] = "static_shared_bytes",
	[FIELD_REGISTERS] = "registers",
	[FIELD_GRID] = "grid_x",
	[FIELD_GRID + 1] = "grid_y",
	[FIELD_GRID + 2] = "grid_z",
	[FIELD_BLOCK] = "block_x",
	[FIELD_BLOCK + 1] = "block_y",
	[FIELD_BLOCK + 2] = "block_z",
	[FIELD_DYNAMIC_SHARED] = "dynamic_shared_bytes",
	[FIELD_DEVICE] = "device",
	[FIELD_UUID] = "uuid",
	[FIELD_CONTEXT] = "context",
	[FIELD_STREAM] = "stream",
	[FIELD_CORRELATION] = "correlation",
	[FIELD_THREAD] = "thread",
	[FIELD_NVTX] = "nvtx",
	[FIELD_STACK] = "(stack of ranges)",
	[FIELD_RANGES] = "ranges",
	[FIELD_ACTIVE] = "(active ranges)",
	[FIELD_PAYLOAD] = "(payload)",
	[FIELD_START] = "start_ns",
	[FIELD_DURATION] = "duration_ns",
	[FIELD_CLOCK] = "clock",
	[FIELD_METRICS] = "dram__bytes_read.sum",
	[FIELD_METRICS + 1] = "dram__bytes_write.sum",
	[FIELD_METRICS + 2] = "lts__t_bytes.sum",
	[FIELD_METRICS + 3] = "lts__t_sectors_op_write.sum",
};

account_launch *account_new_launch(struct account *a, unsigned index)
{
	assert_true(a->n_launches < ACCOUNT_LAUNCHES_MAX);
	a->indexes[a->n_launches] = index;
	return &a->launches[a->n_launches++];
}

struct account_mark *account_new_mark(struct account *a)
{
	assert_true(a->n_marks < ACCOUNT_OTHERS_MAX);
	return &a->marks[a->n_marks++];
}

void account_set(char *field, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(field, ACCOUNT_TEXT_MAX, format, ap);
	va_end(ap);
	assert_true(n < ACCOUNT_TEXT_MAX);
}

enum field account_field_named(const char *name)
{
	int i = 0;

	while (i < N_FIELDS && (!account_fields[i] || strcmp(account_fields[i], name) != 0)) {
		i++;
	}
	return (enum field)i;
}

void account_add_device(struct account *a, const struct gpuctr_device *d)
{
	assert_true(a->n_devices < ACCOUNT_OTHERS_MAX);
	snprintf(a->devices[a->n_devices++], sizeof(a->devices[0]), "%u\t%s\t%s\t%u\t%u", d->index,
		 d->uuid, d->name, d->clock_sm_mhz, d->clock_mem_mhz);
}

/* --- the program --- */

/* tests/fake/README.md has the rules; a metric is a multiple of the threads. */
static void set_measured(account_launch *l)
{
	static const double factors[N_METRICS] = { 16, 8, 32, 0.25 };
	unsigned long threads = strtoul((*l)[FIELD_THREADS], NULL, 10);
	unsigned long kernels = strtoul((*l)[FIELD_KERNELS], NULL, 10);

	account_set((*l)[FIELD_DURATION], "%lu",
		    kernels * 200 + threads / 64 + (kernels - 1) * 100);
	account_set((*l)[FIELD_CLOCK], "gpu");
	for (int m = 0; m < N_METRICS; m++) {
		account_set((*l)[FIELD_METRICS + m], "%.17g", factors[m] * (double)threads);
	}
}

static void read_launch(struct account *a, char *text)
{
	account_launch *l = account_new_launch(a, (unsigned)a->n_launches);

	for (int i = 0; i < FIELD_PROGRAM; i++) {
		const char *field = strsep(&text, "\t");

		assert_non_null(field);
		account_set((*l)[i], "%s", field);
	}
	assert_null(text);
	set_measured(l);
}

static void read_mark(struct account *a, const char *text)
{
	struct account_mark *m = account_new_mark(a);

	assert_int_equal(sscanf(text, "%15[^\t]\t%1023[^\t]\t%1023[^\t]\t%23[^\t]\t%23s", m->thread,
				m->stack, m->own, m->time_ns, m->until_ns),
			 5);
}

struct account *account_of_program(const char *path)
{
	struct account *a = calloc(1, sizeof(*a));
	CLEAN_FREE char *text = read_file(path);
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")) != NULL && *line) {
		const char *kind = strsep(&line, "\t");

		assert_non_null(line);
		if (strcmp(kind, "launch") == 0) {
			read_launch(a, line);
		} else if (strcmp(kind, "mark") == 0) {
			read_mark(a, line);
		} else {
			snprintf(a->devices[a->n_devices++], sizeof(a->devices[0]), "%s", line);
		}
	}
	return a;
}

/* --- the library --- */

/* As JSON has it. */
static void set_payload(char *text, const struct gpuctr_occurrence *r)
{
	uint32_t bits = (uint32_t)r->payload;
	double wide;
	float narrow;

	memcpy(&wide, &r->payload, sizeof(wide));
	memcpy(&narrow, &bits, sizeof(narrow));
	switch (r->payload_type) {
	case 1: /* nvtxPayloadType_t */
		account_set(text, "%" PRIu64, r->payload);
		break;
	case 2:
		account_set(text, "%" PRId64, (int64_t)r->payload);
		break;
	case 3:
		account_set(text, "%.15g", wide);
		break;
	case 4:
		account_set(text, "%u", bits);
		break;
	case 5:
		account_set(text, "%d", (int32_t)bits);
		break;
	case 6:
		account_set(text, "%g", (double)narrow);
		break;
	default:
		text[0] = '\0';
	}
}

static void add_json(char *text, const struct gpuctr_site *r)
{
	char color[16] = "null";
	size_t n = strlen(text);

	if (r->color) {
		snprintf(color, sizeof(color), "\"#%08x\"", r->color);
	}
	snprintf(text + n, ACCOUNT_TEXT_MAX - n,
		 "%s{\"domain\":\"%s\",\"message\":\"%s\",\"category\":\"%s\",\"color\":%s}",
		 n ? "," : "", r->domain, r->name, r->category, color);
}

static void add_message(char *text, const char *separator, const struct gpuctr_site *r)
{
	size_t n = strlen(text);

	snprintf(text + n, ACCOUNT_TEXT_MAX - n, "%s%s", n ? separator : "", r->name);
}

/* path may be NULL. */
static void add_stack(char *path, char *stack, const struct gpuctr_site *r)
{
	if (r->parent) {
		assert_int_equal(r->depth, r->parent->depth + 1);
		add_stack(path, stack, r->parent);
	} else {
		assert_int_equal(r->depth, 0);
	}
	if (path) {
		add_message(path, "/", r);
	}
	add_json(stack, r);
}

void account_set_nvtx(account_launch *l, const struct gpuctr_site *range,
		      const struct gpuctr_occurrence *at, const struct gpuctr_site *const *active,
		      size_t n_active)
{
	set_payload((*l)[FIELD_PAYLOAD], at);
	(*l)[FIELD_NVTX][0] = '\0';
	if (range) {
		add_stack((*l)[FIELD_NVTX], (*l)[FIELD_STACK], range);
	}
	for (size_t i = 0; i < n_active; i++) {
		add_message((*l)[FIELD_RANGES], ";", active[i]);
		add_json((*l)[FIELD_ACTIVE], active[i]);
	}
}

const char *account_kind(int kind)
{
	static const char *const kinds[] = {
		[GPUCTR_LAUNCH_KERNEL] = "kernel",
		[GPUCTR_LAUNCH_COOPERATIVE] = "cooperative",
		[GPUCTR_LAUNCH_GRAPH] = "graph",
	};

	assert_in_range(kind, 0, ARRAY_SIZE(kinds) - 1);
	return kinds[kind];
}

static void set_known(char *field, int value)
{
	if (value >= 0) {
		account_set(field, "%d", value);
	}
}

/* The pid of a process is in all of its records, and so is a device's UUID: as in the outputs. */
static void set_process(account_launch *l, const struct account *a, unsigned device)
{
	const char *p = a->devices[device];

	assert_true(device < a->n_devices);
	sscanf(p, "%*u\t%63[^\t]", (*l)[FIELD_UUID]);
}

void account_add_process(struct account *a, const struct gpuctr_process *process)
{
	a->n_devices = 0;
	a->pid = process->pid;
	for (size_t i = 0; i < process->n_devices; i++) {
		account_add_device(a, &process->devices[i]);
	}
}

void account_add_record(struct account *a, const struct gpuctr_record *r)
{
	account_launch *l = account_new_launch(a, (unsigned)r->index);

	account_set((*l)[FIELD_PID], "%u", a->pid);
	account_set((*l)[FIELD_KIND], "%s", account_kind((int)r->kind));
	account_set((*l)[FIELD_KERNEL], "%s", r->kernel->name);
	account_set((*l)[FIELD_MANGLED], "%s", r->kernel->mangled);
	set_known((*l)[FIELD_STATIC_SHARED], r->kernel->static_shared_bytes);
	set_known((*l)[FIELD_REGISTERS], r->kernel->registers);
	for (int i = 0; i < 3; i++) {
		account_set((*l)[FIELD_GRID + i], "%u", r->grid[i]);
		account_set((*l)[FIELD_BLOCK + i], "%u", r->block[i]);
	}
	account_set((*l)[FIELD_DYNAMIC_SHARED], "%u", r->dynamic_shared_bytes);
	account_set((*l)[FIELD_DEVICE], "%u", r->device);
	set_process(l, a, r->device);
	account_set((*l)[FIELD_CONTEXT], "%u", r->context);
	account_set((*l)[FIELD_STREAM], "%" PRIu64, r->stream);
	account_set((*l)[FIELD_CORRELATION], "%u", r->correlation);
	account_set((*l)[FIELD_THREAD], "%u", r->thread);
	account_set((*l)[FIELD_START], "%" PRId64, r->start_ns);
	account_set((*l)[FIELD_DURATION], "%" PRId64, r->duration_ns);
	account_set((*l)[FIELD_CLOCK], "%s", r->clock == GPUCTR_CLOCK_GPU ? "gpu" : "another");
	for (int m = 0; m < N_METRICS; m++) {
		account_set((*l)[FIELD_METRICS + m], "%.17g", r->values[m]);
	}
	account_set_nvtx(l, r->site, &r->at, r->active, r->n_active);
}

void account_add_mark(struct account *a, const struct gpuctr_mark *mark)
{
	struct account_mark *m = account_new_mark(a);
	char payload[ACCOUNT_TEXT_MAX];

	snprintf(m->thread, sizeof(m->thread), "%u", mark->thread);
	snprintf(m->time_ns, sizeof(m->time_ns), "%" PRId64, mark->time_ns);
	set_payload(payload, &mark->at);
	add_json(m->own, mark->site);
	snprintf(m->own + strlen(m->own), sizeof(m->own) - strlen(m->own), " %.32s", payload);
	add_stack(NULL, m->stack, mark->site);
}
