/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/nvtx.h"
#include "client/agent/nvtx_stack.h"
#include "proto/base/clean.h"

/* The functions that NVTX's headers call, and their registration. Each library that uses NVTX has a
 * function table of its own, in which the agent puts them. */

/* --- the functions NVTX calls --- */

static const struct nvtx_domain *domain_of(nvtxDomainHandle_t handle)
{
	return (const struct nvtx_domain *)handle;
}

/* Marks, starts and pushes have functions with the same arguments: an event's attributes, with or
 * without a domain, or a message of char or wchar_t. */
#define EVENT_FUNCTIONS(type, name)                                       \
	static type on_domain_##name##_ex(nvtxDomainHandle_t domain,      \
					  const nvtxEventAttributes_t *a) \
	{                                                                 \
		struct event e;                                           \
                                                                          \
		nvtx_event_from_attributes(&e, domain_of(domain), a);     \
		return nvtx_##name(&e);                                   \
	}                                                                 \
                                                                          \
	static type on_##name##_ex(const nvtxEventAttributes_t *a)        \
	{                                                                 \
		return on_domain_##name##_ex(NULL, a);                    \
	}                                                                 \
                                                                          \
	static type on_##name##_a(const char *message)                    \
	{                                                                 \
		struct event e;                                           \
                                                                          \
		nvtx_event_from_ascii(&e, NULL, message);                 \
		return nvtx_##name(&e);                                   \
	}                                                                 \
                                                                          \
	static type on_##name##_w(const wchar_t *message)                 \
	{                                                                 \
		struct nvtx_text text;                                    \
                                                                          \
		return on_##name##_a(nvtx_narrow(message, &text));        \
	}

EVENT_FUNCTIONS(void, mark)
EVENT_FUNCTIONS(nvtxRangeId_t, start)
EVENT_FUNCTIONS(int, push)

static void on_domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
	nvtx_end(id);
}

static int on_domain_pop(nvtxDomainHandle_t domain)
{
	return nvtx_pop(domain_of(domain));
}

static int on_pop(void)
{
	return nvtx_pop(NULL);
}

static void on_domain_name_category_a(nvtxDomainHandle_t domain, uint32_t id, const char *name)
{
	nvtx_name_category((struct nvtx_domain *)domain, id, name);
}

static void on_domain_name_category_w(nvtxDomainHandle_t domain, uint32_t id, const wchar_t *name)
{
	struct nvtx_text text;

	on_domain_name_category_a(domain, id, nvtx_narrow(name, &text));
}

static void on_name_category_a(uint32_t id, const char *name)
{
	on_domain_name_category_a(NULL, id, name);
}

static void on_name_category_w(uint32_t id, const wchar_t *name)
{
	on_domain_name_category_w(NULL, id, name);
}

/* The handle of a registered string is the address of its text, which lives as long as the process.
 * A list keeps it reachable, so that a program that has lost the handle gets no leak report for our
 * memory. */
struct registered {
	struct registered *next;
	char text[];
};

static _Atomic(struct registered *) registered;

static nvtxStringHandle_t on_register_a(nvtxDomainHandle_t domain, const char *s)
{
	size_t size = s ? strlen(s) + 1 : 1;
	struct registered *r = malloc(sizeof(*r) + size);

	if (!r) {
		return NULL;
	}
	memcpy(r->text, s ? s : "", size);
	r->next = atomic_load(&registered);
	while (!atomic_compare_exchange_weak(&registered, &r->next, r)) {
	}
	return (nvtxStringHandle_t)r->text;
}

static nvtxStringHandle_t on_register_w(nvtxDomainHandle_t domain, const wchar_t *s)
{
	struct nvtx_text text;

	return on_register_a(domain, nvtx_narrow(s, &text));
}

static nvtxDomainHandle_t on_domain_create_a(const char *name)
{
	return (nvtxDomainHandle_t)nvtx_new_domain(name);
}

static nvtxDomainHandle_t on_domain_create_w(const wchar_t *name)
{
	struct nvtx_text text;

	return on_domain_create_a(nvtx_narrow(name, &text));
}

static void on_domain_destroy(nvtxDomainHandle_t domain)
{
}

/* --- registration --- */

struct callback {
	unsigned id;
	NvtxFunctionPointer function;
};

#define CALLBACK(id, f)                      \
	{                                    \
		id, (NvtxFunctionPointer)(f) \
	}

static const struct callback core[] = {
	CALLBACK(NVTX_CBID_CORE_MarkEx, on_mark_ex),
	CALLBACK(NVTX_CBID_CORE_MarkA, on_mark_a),
	CALLBACK(NVTX_CBID_CORE_MarkW, on_mark_w),
	CALLBACK(NVTX_CBID_CORE_RangeStartEx, on_start_ex),
	CALLBACK(NVTX_CBID_CORE_RangeStartA, on_start_a),
	CALLBACK(NVTX_CBID_CORE_RangeStartW, on_start_w),
	CALLBACK(NVTX_CBID_CORE_RangeEnd, nvtx_end),
	CALLBACK(NVTX_CBID_CORE_RangePushEx, on_push_ex),
	CALLBACK(NVTX_CBID_CORE_RangePushA, on_push_a),
	CALLBACK(NVTX_CBID_CORE_RangePushW, on_push_w),
	CALLBACK(NVTX_CBID_CORE_RangePop, on_pop),
	CALLBACK(NVTX_CBID_CORE_NameCategoryA, on_name_category_a),
	CALLBACK(NVTX_CBID_CORE_NameCategoryW, on_name_category_w),
};

static const struct callback core2[] = {
	CALLBACK(NVTX_CBID_CORE2_DomainMarkEx, on_domain_mark_ex),
	CALLBACK(NVTX_CBID_CORE2_DomainRangeStartEx, on_domain_start_ex),
	CALLBACK(NVTX_CBID_CORE2_DomainRangeEnd, on_domain_end),
	CALLBACK(NVTX_CBID_CORE2_DomainRangePushEx, on_domain_push_ex),
	CALLBACK(NVTX_CBID_CORE2_DomainRangePop, on_domain_pop),
	CALLBACK(NVTX_CBID_CORE2_DomainNameCategoryA, on_domain_name_category_a),
	CALLBACK(NVTX_CBID_CORE2_DomainNameCategoryW, on_domain_name_category_w),
	CALLBACK(NVTX_CBID_CORE2_DomainRegisterStringA, on_register_a),
	CALLBACK(NVTX_CBID_CORE2_DomainRegisterStringW, on_register_w),
	CALLBACK(NVTX_CBID_CORE2_DomainCreateA, on_domain_create_a),
	CALLBACK(NVTX_CBID_CORE2_DomainCreateW, on_domain_create_w),
	CALLBACK(NVTX_CBID_CORE2_DomainDestroy, on_domain_destroy),
};

static bool install(const NvtxExportTableCallbacks *t, NvtxCallbackModule module,
		    const struct callback *v, size_t n)
{
	NvtxFunctionTable functions = NULL;
	unsigned size = 0;

	if (!t->GetModuleFunctionTable(module, &functions, &size) || !functions) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (v[i].id < size && functions[v[i].id]) {
			*functions[v[i].id] = v[i].function;
		}
	}
	return true;
}

int nvtx_initialize(const void *(*export_table)(uint32_t))
{
	const NvtxExportTableCallbacks *t = export_table(NVTX_ETID_CALLBACKS);

	if (!t || t->struct_size < sizeof(*t)) {
		return 0;
	}
	nvtx_stack_prepare();
	return install(t, NVTX_CB_MODULE_CORE, core, ARRAY_SIZE(core)) &&
	       install(t, NVTX_CB_MODULE_CORE2, core2, ARRAY_SIZE(core2));
}
