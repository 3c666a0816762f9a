/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/permission.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/agent/link.h"
#include "proto/base/clock.h"
#include "proto/nvidia/rm.h"
#include "proto/wire/limits.h"

/* libcuda imports ioctl from libc and makes the allocation itself, so one slot of its global offset
 * table is all that is changed in the program: no preloading, no code patched, and no other
 * library's calls are seen. Every ioctl but the allocation of a profiler object goes on as it was.
 * When the daemon cannot be asked, the driver is, and gives its own answer.
 *
 * Each request takes a connection of its own: CUPTI makes two or three in a program's life, from
 * any thread, and none of them may wait behind records. */

enum { ANSWER_TIMEOUT_S = 15 };

typedef int (*ioctl_function)(int fd, unsigned long request, ...);

struct question {
	char socket_path[108];
	char token[LIMIT_TOKEN_BYTES + 1];
};

static struct {
	_Atomic(ioctl_function) next;
	pthread_mutex_t lock; /* of what follows; a leaf */
	bool asks;	      /* a capture is under way */
	struct question question;
	struct refusal refusal;
	void **slot;	/* NULL: the hook is not in */
	bool read_only; /* its page, once the library was relocated */
	void *before;	/* what was in the slot */
} permission = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void remember(const struct wire_permission_reply *r)
{
	pthread_mutex_lock(&permission.lock);
	refusal_set(&permission.refusal, (int)r->code, r->remedy, "%s", r->message);
	pthread_mutex_unlock(&permission.lock);
}

void permission_last_refusal(struct refusal *ret)
{
	pthread_mutex_lock(&permission.lock);
	*ret = permission.refusal;
	pthread_mutex_unlock(&permission.lock);
}

/* What the capture that is under way asks with; false: there is none. */
static bool copy_question(struct question *ret)
{
	bool asks;

	pthread_mutex_lock(&permission.lock);
	asks = permission.asks;
	*ret = permission.question;
	pthread_mutex_unlock(&permission.lock);
	return asks;
}

/* 0 with the driver's status; -errno: the daemon could not be asked. */
static int ask_daemon(int fd, uint32_t root, uint32_t parent, uint32_t object, uint64_t parameters,
		      uint32_t *ret_status)
{
	struct rm_profiler_parameters p = { 0 };
	struct wire_message q = { .type = WIRE_PERMISSION_REQUEST }, a;
	struct question question;
	struct link l;
	int r = copy_question(&question) ? link_open(&l, question.socket_path) : -ENOENT;

	if (r < 0) {
		return r;
	}
	if (parameters != 0) {
		memcpy(&p, (const void *)(uintptr_t)parameters, sizeof(p));
	}
	q.permission_request = (struct wire_permission_request){
		question.token,	  root, parent, object, RM_CLASS_PROFILER_DEVICE, p.client_target,
		p.context_target,
	};
	r = link_send(&l, &q, fd, ANSWER_TIMEOUT_S * CLOCK_NS_PER_S);
	if (r == 0) {
		r = link_receive(&l, &a, ANSWER_TIMEOUT_S * CLOCK_NS_PER_S);
	}
	if (r == 0 && a.type == WIRE_PERMISSION_REPLY) {
		*ret_status = a.permission_reply.status;
		remember(&a.permission_reply);
	} else if (r == 0) {
		r = -EPROTO;
	}
	link_close(&l);
	return r;
}

/* True when the request was answered, by *ret. */
static bool forward(int fd, unsigned long request, void *argument)
{
	struct rm_alloc *p = argument;
	struct rm_alloc_short *s = argument;
	bool is_short = request == RM_IOCTL_ALLOC_SHORT;
	uint32_t status;

	if ((request != RM_IOCTL_ALLOC && !is_short) ||
	    p->object_class != RM_CLASS_PROFILER_DEVICE) {
		return false;
	}
	if (ask_daemon(fd, p->root, p->parent, p->object, p->parameters, &status) < 0) {
		return false;
	}
	if (is_short) {
		s->status = status;
	} else {
		p->status = status;
	}
	return true;
}

static int ioctl_hook(int fd, unsigned long request, ...)
{
	int saved = errno, cancel;
	void *argument;
	va_list ap;
	bool answered;

	va_start(ap, request);
	argument = va_arg(ap, void *);
	va_end(ap);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
			       &cancel); /* libcuda holds locks around this */
	answered = forward(fd, request, argument);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	if (answered) {
		return 0;
	}
	return atomic_load(&permission.next)(fd, request, argument);
}

/* --- finding the slot --- */

struct dynamic {
	const ElfW(Rela) * tables[2];
	size_t counts[2];
	const ElfW(Sym) * symbols;
	const char *strings;
};

static void read_dynamic(const struct dl_phdr_info *info, const ElfW(Dyn) * d, struct dynamic *ret)
{
	/* glibc relocates these addresses in place, other loaders do not. */
	ElfW(Addr) base = info->dlpi_addr;

	*ret = (struct dynamic){ 0 };
	for (; d->d_tag != DT_NULL; d++) {
		ElfW(Addr) p = d->d_un.d_ptr < base ? d->d_un.d_ptr + base : d->d_un.d_ptr;

		switch (d->d_tag) {
		case DT_JMPREL:
			ret->tables[0] = (const void *)p;
			break;
		case DT_PLTRELSZ:
			ret->counts[0] = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELA:
			ret->tables[1] = (const void *)p;
			break;
		case DT_RELASZ:
			ret->counts[1] = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_SYMTAB:
			ret->symbols = (const void *)p;
			break;
		case DT_STRTAB:
			ret->strings = (const void *)p;
			break;
		}
	}
}

static void **find_slot(ElfW(Addr) base, const struct dynamic *d, const char *name)
{
	for (size_t t = 0; t < 2; t++) {
		for (size_t i = 0; d->tables[t] && d->symbols && d->strings && i < d->counts[t];
		     i++) {
			const ElfW(Rela) *r = &d->tables[t][i];
			size_t symbol = ELF64_R_SYM(r->r_info);

			if (symbol != 0 &&
			    strcmp(d->strings + d->symbols[symbol].st_name, name) == 0) {
				return (void **)(base + r->r_offset);
			}
		}
	}
	return NULL;
}

static bool is_libcuda(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strncmp(slash ? slash + 1 : path, "libcuda.so", 10) == 0;
}

static const ElfW(Phdr) * find_segment(const struct dl_phdr_info *info, ElfW(Word) type)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == type) {
			return &info->dlpi_phdr[i];
		}
	}
	return NULL;
}

static uintptr_t page_of(uintptr_t address)
{
	return address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/* Loaders make whole pages of this segment read-only after relocation. That is read here and not in
 * /proc/self/maps: the program may close any descriptor at any time, and open a file of its own
 * where we would read on. */
static bool is_read_only(const struct dl_phdr_info *info, void **slot)
{
	const ElfW(Phdr) *relro = find_segment(info, PT_GNU_RELRO);
	uintptr_t begin = relro ? info->dlpi_addr + relro->p_vaddr : 0;

	return relro && (uintptr_t)slot >= page_of(begin) &&
	       (uintptr_t)slot < page_of(begin + relro->p_memsz);
}

struct found {
	void **slot; /* NULL: none */
	bool read_only;
};

static int on_library(struct dl_phdr_info *info, size_t size, void *ret)
{
	const ElfW(Phdr) *dynamic = find_segment(info, PT_DYNAMIC);
	struct found *found = ret;
	struct dynamic d;

	(void)size;
	if (!is_libcuda(info->dlpi_name)) {
		return 0;
	}
	if (dynamic) {
		read_dynamic(info, (const void *)(info->dlpi_addr + dynamic->p_vaddr), &d);
		found->slot = find_slot(info->dlpi_addr, &d, "ioctl");
		found->read_only = found->slot && is_read_only(info, found->slot);
	}
	return 1;
}

static int write_slot(void **slot, bool read_only, void *value)
{
	void *start = (void *)page_of((uintptr_t)slot);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	/* Always: a loader may have its own idea of what to protect. */
	if (mprotect(start, page, PROT_READ | PROT_WRITE) < 0) {
		return -errno;
	}
	__atomic_store_n(slot, value, __ATOMIC_SEQ_CST);
	if (read_only) {
		mprotect(start, page, PROT_READ);
	}
	return 0;
}

/* With the lock. */
static int put_hook_in(struct refusal *r)
{
	struct found found = { 0 };
	void **slot;
	void *now;

	dl_iterate_phdr(on_library, &found);
	slot = found.slot;
	if (!slot) {
		refusal_set(r, GPUCTR_E_DRIVER_TOO_OLD, "Report the driver's version.",
			    "libcuda does not import ioctl as drivers 535 to 580 do");
		return r->code;
	}
	/* Not what the slot holds: that may still be the loader's stub. */
	now = dlsym(RTLD_DEFAULT, "ioctl");
	atomic_store(&permission.next, (ioctl_function)(uintptr_t)now);
	permission.before = __atomic_load_n(slot, __ATOMIC_SEQ_CST);
	if (!now || write_slot(slot, found.read_only, (void *)(uintptr_t)ioctl_hook) < 0) {
		refusal_set(r, GPUCTR_E_INTERNAL, "",
			    "libcuda's import of ioctl could not be redirected");
		return r->code;
	}
	permission.slot = slot;
	permission.read_only = found.read_only;
	return 0;
}

int permission_install(const char *socket_path, const char *token, struct refusal *r)
{
	int code;

	pthread_mutex_lock(&permission.lock);
	permission.refusal = (struct refusal){ 0 };
	snprintf(permission.question.socket_path, sizeof(permission.question.socket_path), "%s",
		 socket_path);
	snprintf(permission.question.token, sizeof(permission.question.token), "%s", token);
	code = permission.slot ? 0 : put_hook_in(r);
	permission.asks = code == 0;
	pthread_mutex_unlock(&permission.lock);
	return code;
}

/* A call that is within the hook goes on there: our code stays loaded, and so does next. Where
 * somebody has put a hook of their own over ours, the slot is theirs, and ours only passes on. */
void permission_remove(void)
{
	pthread_mutex_lock(&permission.lock);
	permission.asks = false;
	memset(&permission.question, 0, sizeof(permission.question));
	if (permission.slot &&
	    __atomic_load_n(permission.slot, __ATOMIC_SEQ_CST) == (void *)(uintptr_t)ioctl_hook &&
	    write_slot(permission.slot, permission.read_only, permission.before) == 0) {
		permission.slot = NULL;
	}
	pthread_mutex_unlock(&permission.lock);
}
