/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/permit.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "proto/base/clean.h"

/* A program that cannot be read counts as fit: it is run in any case, and the end reports that no
 * process asked for counters. A script counts as its interpreter, which is dynamically linked. */

/* As execve(2) has it: with the rights of another user or group, or more than its caller has. */
static bool gains_rights(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		return false;
	}
	return ((st.st_mode & S_ISUID) != 0 && st.st_uid != geteuid()) ||
	       ((st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0 &&
		st.st_gid != getegid()) ||
	       (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* The class and machine of this client are those of the library. */
static bool is_ours(const ElfW(Ehdr) * header)
{
	CLEAN_FD int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ElfW(Ehdr) own;

	return fd < 0 || pread(fd, &own, sizeof(own), 0) != (ssize_t)sizeof(own) ||
	       (own.e_ident[EI_CLASS] == header->e_ident[EI_CLASS] &&
		own.e_machine == header->e_machine);
}

static bool has_interpreter(int fd, const ElfW(Ehdr) * header)
{
	ElfW(Phdr) segment;

	for (unsigned i = 0; i < header->e_phnum; i++) {
		off_t at = (off_t)(header->e_phoff + i * sizeof(segment));

		if (pread(fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment) ||
		    segment.p_type == PT_INTERP) {
			return true;
		}
	}
	return false;
}

enum permit_program permit_look_at(const char *path)
{
	CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ElfW(Ehdr) header;

	if (fd < 0) {
		return PERMIT_PROGRAM_GOOD;
	}
	if (gains_rights(path, fd)) {
		return PERMIT_PROGRAM_SETUID;
	}
	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
		return PERMIT_PROGRAM_GOOD;
	}
	if (!is_ours(&header)) {
		return PERMIT_PROGRAM_OTHER_MACHINE;
	}
	return header.e_phentsize == sizeof(ElfW(Phdr)) && !has_interpreter(fd, &header)
		       ? PERMIT_PROGRAM_STATIC
		       : PERMIT_PROGRAM_GOOD;
}
