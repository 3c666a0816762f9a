/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_WIRE_DEMANGLE_H
#define GPUCTR_WIRE_DEMANGLE_H

/* The name of a kernel as users see it and as --kernel matches it: one function for both, because
 * the two have to agree. */

/* Demangles the name that the driver tells, which the program chose. A name that cannot be
 * demangled within the protocol's limit of a string stays as it is, but valid UTF-8 and cut at the
 * limit. The caller frees it; NULL: out of memory. */
char *demangle_kernel(const char *mangled);

#endif
