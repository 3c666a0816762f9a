/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The name of a kernel for users and for --kernel: one function for both, because the names have to
 * agree. Returned names are valid UTF-8; the caller frees them. NULL: out of memory. Mangled names
 * are cut at the protocol's limit of a string. The functions need no more than 2 KiB of the
 * caller's stack, however long the name is. */

enum { DEMANGLED_MAX_BYTES = 64 * 1024 };

/* Demangles a name from the driver, which the program chose. Copies a name that cannot be demangled
 * within DEMANGLED_MAX_BYTES, or that needs more stack than there is. */
char *demangle_kernel(const char *mangled);

/* The name of the function without namespaces, template arguments, parameters and return type.
 * Copies a name that is not mangled. */
char *demangle_function(const char *mangled);

/* Copies the mangled name. */
char *demangle_nothing(const char *mangled);
