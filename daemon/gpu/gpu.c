/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clean.h"
#include "daemon/base/log.h"
#include "daemon/gpu/catalogue.h"
#include "daemon/gpu/device.h"
#include "daemon/gpu/plan.h"
#include "proto/limits.h"
#include "proto/wire.h"

/* A plain blocking loop: requests are rare and short (a plan costs about 2 ms), and the front keeps
 * its own time limits. Catalogues are made when a chip is first asked for and kept, about 1 MiB
 * each. */

struct service {
	int link;
	struct vendor_host vendor;
	struct refusal no_vendor; /* code 0: vendor is usable */
	struct device_list devices;
	struct catalogue catalogues[64];
	size_t n_catalogues;
	struct buffer in, out;
	struct arena request, answer;
};

static const char default_chip[] = "GH100";

static int flush(struct service *s)
{
	while (buffer_length(&s->out) > 0) {
		ssize_t n = send(s->link, s->out.data + s->out.start, buffer_length(&s->out),
				 MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		if (n > 0) {
			buffer_consume(&s->out, (size_t)n);
		}
	}
	return 0;
}

static int reply(struct service *s, const struct wire_message *m)
{
	int r = wire_encode(&s->answer, &s->out, m);

	return r < 0 ? r : flush(s);
}

static int reply_refusal(struct service *s, uint32_t request, const struct refusal *refusal)
{
	struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = { request, (uint32_t)refusal->code, refusal->message, refusal->remedy },
	};

	return reply(s, &m);
}

static const char *machine_chip(const struct service *s)
{
	return s->devices.n > 0 && s->devices.devices[0].chip[0] ? s->devices.devices[0].chip
								 : default_chip;
}

/* NULL with r filled. A chip's name reaches CUPTI only when it is one of CUPTI's own. */
static struct catalogue *find_catalogue(struct service *s, const char *chip, struct refusal *r)
{
	CUpti_Profiler_Host_GetSupportedChips_Params p = {
		.structSize = CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE,
	};
	char known[512] = "";

	if (s->no_vendor.code != 0) {
		*r = s->no_vendor;
		return NULL;
	}
	chip = chip[0] ? chip : machine_chip(s);
	for (size_t i = 0; i < s->n_catalogues; i++) {
		if (strcmp(s->catalogues[i].host.chip, chip) == 0) {
			return &s->catalogues[i];
		}
	}
	s->vendor.cuptiProfilerHostGetSupportedChips(&p);
	for (size_t i = 0; i < p.numChips; i++) {
		struct catalogue *c = &s->catalogues[s->n_catalogues];

		if (strcmp(p.ppChipNames[i], chip) == 0 &&
		    s->n_catalogues < ARRAY_SIZE(s->catalogues)) {
			if (catalogue_init(c, &s->vendor, p.ppChipNames[i], r) != 0) {
				return NULL;
			}
			s->n_catalogues++;
			return c;
		}
		strncat(known, " ", sizeof(known) - strlen(known) - 1);
		strncat(known, p.ppChipNames[i], sizeof(known) - strlen(known) - 1);
	}
	refusal_set(r, GPUCTR_E_CHIP_UNKNOWN, "", "CUPTI knows no chip %s", chip);
	snprintf(r->remedy, sizeof(r->remedy), "Name one of:%s.", known);
	return NULL;
}

/* --- metrics --- */

struct listing {
	struct service *s;
	struct catalogue *c;
	uint32_t request;
	bool describe;
	struct wire_metric metrics[LIMIT_METRICS_PER_FRAME];
	size_t n, bytes;
};

static int listing_flush(struct listing *l, bool last)
{
	struct wire_message m = {
		.type = WIRE_METRICS_REPLY,
		.metrics_reply = { l->request, l->c->host.chip, { l->n, l->metrics }, last },
	};
	int r = reply(l->s, &m);

	l->n = l->bytes = 0;
	arena_reset(&l->s->answer);
	return r;
}

/* Before a metric is built in the answer's arena, which a flush resets. */
static int listing_make_room(struct listing *l)
{
	bool full = l->n == ARRAY_SIZE(l->metrics) || l->bytes > LIMIT_FRAME_BYTES / 2;

	return full ? listing_flush(l, false) : 0;
}

static void listing_add(struct listing *l, const struct wire_metric *metric)
{
	l->bytes += 512;
	for (size_t i = 0; i < metric->submetrics.n; i++) {
		l->bytes += strlen(metric->submetrics.v[i]) + 8;
	}
	l->metrics[l->n++] = *metric;
}

/* Submetrics are borrowed from CUPTI until its next call: copied, as one array, into the answer. */
static struct wire_strings copy_submetrics(struct listing *l, const struct catalogue_base *base)
{
	const char **v = NULL, **copy;
	size_t n = catalogue_submetrics(l->c, base, &v);

	n = n > LIMIT_SUBMETRICS ? LIMIT_SUBMETRICS : n;
	copy = arena_alloc(&l->s->answer, n * sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = arena_printf(&l->s->answer, "%s", v[i]);
		n = copy[i] ? n : i;
	}
	return (struct wire_strings){ copy ? n : 0, copy };
}

static int list_base(struct listing *l, const struct catalogue_base *base)
{
	struct wire_metric m = { .name = base->name, .kind = base->kind };
	int r = listing_make_room(l);

	if (r < 0) {
		return r;
	}
	catalogue_describe(l->c, base->name, &m.unit, &m.hardware_unit, &m.description);
	if (l->describe) {
		m.submetrics = copy_submetrics(l, base);
	} else {
		m.description = NULL;
	}
	listing_add(l, &m);
	return 0;
}

static int list_named(struct listing *l, const struct catalogue_named *named)
{
	struct wire_metric m = {
		.name = named->name,
		.kind = named->kind,
		.unit = named->unit,
		.description = named->description,
	};
	int r = listing_make_room(l);
	const char **terms;
	size_t n = 0;

	if (r < 0) {
		return r;
	}
	terms = arena_alloc(&l->s->answer, sizeof(named->terms));
	for (; terms && n < ARRAY_SIZE(named->terms) && named->terms[n].metric; n++) {
		terms[n] = named->terms[n].metric;
	}
	m.submetrics = (struct wire_strings){ n, terms };
	listing_add(l, &m);
	return 0;
}

static int list_all(struct listing *l)
{
	const struct catalogue_named *named;
	int r = 0;

	for (size_t i = 0; r == 0 && (named = catalogue_named_at(i)); i++) {
		r = list_named(l, named);
	}
	for (size_t i = 0; r == 0 && i < l->c->n_bases; i++) {
		r = list_base(l, &l->c->bases[i]);
	}
	return r < 0 ? r : listing_flush(l, true);
}

static int handle_metrics(struct service *s, const struct wire_message *m)
{
	const struct wire_metrics_request *q = &m->metrics_request;
	struct refusal refusal = { 0 };
	CLEAN_FREE struct listing *l = calloc(1, sizeof(*l));
	struct catalogue *c = l ? find_catalogue(s, q->chip, &refusal) : NULL;

	if (!c) {
		return l ? reply_refusal(s, q->request, &refusal) : -ENOMEM;
	}
	*l = (struct listing){ .s = s, .c = c, .request = q->request, .describe = q->describe };
	return list_all(l);
}

/* --- plans --- */

static const char *other_chips(void *userdata, struct arena *a, const char *metric)
{
	CUpti_Profiler_Host_GetSupportedChips_Params p = {
		.structSize = CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE,
	};
	struct service *s = userdata;
	const char *text = "";
	unsigned found = 0;

	s->vendor.cuptiProfilerHostGetSupportedChips(&p);
	for (size_t i = 0; i < p.numChips && found < 4 && text; i++) {
		struct refusal unused;
		struct catalogue *c = find_catalogue(s, p.ppChipNames[i], &unused);

		if (c && catalogue_has(c, metric)) {
			text = arena_printf(a, "%s%s%s", text, found ? ", " : "", p.ppChipNames[i]);
			found++;
		}
	}
	return text ? text : "";
}

static int handle_plan(struct service *s, const struct wire_message *m)
{
	struct wire_message answer = { .type = WIRE_PLAN_REPLY,
				       .plan_reply = { .request = m->plan_request.request } };
	struct refusal refusal = { 0 };
	struct catalogue *c = find_catalogue(s, m->plan_request.chip, &refusal);

	if (!c || plan_make(c, &s->answer, &m->plan_request.metrics, other_chips, s,
			    &answer.plan_reply.plan, &refusal) != 0) {
		return reply_refusal(s, m->plan_request.request, &refusal);
	}
	return reply(s, &answer);
}

/* --- status --- */

static int handle_status(struct service *s, const struct wire_message *m)
{
	struct wire_gpu gpus[LIMIT_GPUS];
	char cupti[32] = "", trouble[sizeof(s->no_vendor.message) * 2 + 4] = "";
	const struct refusal *t = s->no_vendor.code ? &s->no_vendor : &s->devices.trouble;
	struct wire_message answer = {
		.type = WIRE_STATUS_REPLY,
		.status_reply = {
			.request = m->status_request.request,
			.driver = s->devices.driver,
			.cupti = cupti,
			.restricted = s->devices.restricted,
			.gpus = { s->devices.n, gpus },
			.trouble = trouble,
		},
	};

	for (size_t i = 0; i < s->devices.n; i++) {
		const struct device *d = &s->devices.devices[i];

		gpus[i] = (struct wire_gpu){ (uint32_t)i, d->uuid, d->name, d->chip, 0, 0 };
	}
	if (s->no_vendor.code == 0) {
		vendor_version_format(s->vendor.version, cupti, sizeof(cupti));
	}
	if (t->code != 0) {
		snprintf(trouble, sizeof(trouble), "%s. %s", t->message, t->remedy);
	}
	return reply(s, &answer);
}

static int handle_tenants(struct service *s, const struct wire_message *m)
{
	uint32_t gpus[LIMIT_TENANTS], pids[LIMIT_TENANTS];
	size_t n;
	struct wire_message answer = { .type = WIRE_TENANTS_REPLY };

	answer.tenants_reply.request = m->tenants_request.request;
	answer.tenants_reply.known =
		device_list_tenants(&s->devices, gpus, pids, LIMIT_TENANTS, &n);
	answer.tenants_reply.gpu = (struct wire_u32s){ n, gpus };
	answer.tenants_reply.pid = (struct wire_u32s){ n, pids };
	return reply(s, &answer);
}

/* --- loop --- */

static int handle_frame(struct service *s, const struct frame *f)
{
	struct wire_message m;
	int r;

	arena_reset(&s->request);
	arena_reset(&s->answer);
	r = wire_decode(&s->request, f->type, f->payload, f->size, &m);
	if (r != 0) {
		return -EPROTO;
	}
	switch (m.type) {
	case WIRE_METRICS_REQUEST:
		return handle_metrics(s, &m);
	case WIRE_PLAN_REQUEST:
		return handle_plan(s, &m);
	case WIRE_STATUS_REQUEST:
		return handle_status(s, &m);
	case WIRE_TENANTS_REQUEST:
		return handle_tenants(s, &m);
	default:
		return -EPROTO;
	}
}

static int read_more(struct service *s)
{
	ssize_t n;
	int r = buffer_reserve(&s->in, 64 * 1024);

	if (r < 0) {
		return r;
	}
	do {
		n = recv(s->link, s->in.data + s->in.end, s->in.size - s->in.end, 0);
	} while (n < 0 && errno == EINTR);
	if (n <= 0) {
		return n < 0 ? -errno : -EPIPE;
	}
	s->in.end += (size_t)n;
	return 0;
}

static int serve_one(struct service *s)
{
	struct frame f;
	int r = frame_parse(s->in.data + s->in.start, buffer_length(&s->in), &f);

	if (r == FRAME_E_MORE) {
		return read_more(s);
	}
	if (r != 0) {
		return -EPROTO;
	}
	r = handle_frame(s, &f);
	buffer_consume(&s->in, FRAME_HEADER_BYTES + f.size);
	return r;
}

/* What the driver's libraries would otherwise take from the environment. */
static void clean_environment(void)
{
	static const char *const names[] = {
		"CUDA_VISIBLE_DEVICES",
		"CUDA_INJECTION64_PATH",
		"NVTX_INJECTION64_PATH",
		"CUDA_DEVICE_ORDER",
		"CUDA_HOME",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		unsetenv(names[i]);
	}
}

int gpu_run(int link)
{
	static struct service s;
	int r;

	s.link = link;
	clean_environment();
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	arena_init(&s.request, LIMIT_UNPACKED_BYTES);
	arena_init(&s.answer, 4 * LIMIT_UNPACKED_BYTES);
	vendor_open_host(&s.vendor, &s.no_vendor);
	device_list_read(&s.devices, s.no_vendor.code == 0 ? &s.vendor : NULL);
	do {
		r = serve_one(&s);
	} while (r == 0);
	if (r != -EPIPE && r != -ECONNRESET) {
		log_error("stopped: %s", strerror(-r));
		return 1;
	}
	return 0;
}
