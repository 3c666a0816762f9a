/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The name of a kernel as users see it and as --kernel matches it: one function for both, because
 * the two have to agree. Names that come out are valid UTF-8; the caller frees them. NULL: out of
 * memory. Mangled ones are cut at the protocol's limit of a string. The functions need no more than
 * 2 KiB of the caller's stack, however long the name is. */

enum { DEMANGLED_MAX_BYTES = 64 * 1024 };

/* Demangles a name from the driver, which the program chose. A name that cannot be demangled within
 * DEMANGLED_MAX_BYTES, or that needs more stack than there is, stays as it is. */
char *demangle_kernel(const char *mangled);

/* The name of the function alone, without namespaces, template arguments, parameters and the type
 * that it returns. One that is not mangled stays as it is. */
char *demangle_function(const char *mangled);

/* As it is. */
char *demangle_nothing(const char *mangled);
