/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The name of a kernel as users see it and as --kernel matches it: one function for both, because
 * the two have to agree. Names that come out are valid UTF-8 and cut at the protocol's limit of a
 * string. The caller frees them; NULL: out of memory. */

/* Demangles a name from the driver, which the program chose. A name that cannot be demangled within
 * the limit stays as it is. */
char *demangle_kernel(const char *mangled);

/* The name of the function alone, without namespaces, template arguments, parameters and the type
 * that it returns. One that is not mangled stays as it is. */
char *demangle_function(const char *mangled);

/* As it is. */
char *demangle_nothing(const char *mangled);
