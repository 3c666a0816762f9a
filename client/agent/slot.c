/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/slot.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Loaders make the whole pages of the segment PT_GNU_RELRO read-only after relocation. The segment
 * is used rather than /proc/self/maps, because the program may close any descriptor at any time,
 * and open a file of its own under the number that we read from. */
static bool is_read_only(const struct dl_phdr_info *info, void **slot)
{
	const ElfW(Phdr) *relro = find_segment(info, PT_GNU_RELRO);
	uintptr_t begin = relro ? info->dlpi_addr + relro->p_vaddr : 0;

	return relro && (uintptr_t)slot >= page_of(begin) &&
	       (uintptr_t)slot < page_of(begin + relro->p_memsz);
}

static int on_library(struct dl_phdr_info *info, size_t size, void *ret)
{
	const ElfW(Phdr) *dynamic = find_segment(info, PT_DYNAMIC);
	struct slot *found = ret;
	struct dynamic d;

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

bool slot_find(struct slot *ret)
{
	*ret = (struct slot){ 0 };
	dl_iterate_phdr(on_library, ret);
	return ret->slot != NULL;
}

int slot_write(const struct slot *s, void *value)
{
	void *start = (void *)page_of((uintptr_t)s->slot);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	/* Made writable in any case, because loaders differ in what they protect. */
	if (mprotect(start, page, PROT_READ | PROT_WRITE) < 0) {
		return -errno;
	}
	__atomic_store_n(s->slot, value, __ATOMIC_SEQ_CST);
	if (s->read_only) {
		mprotect(start, page, PROT_READ);
	}
	return 0;
}
