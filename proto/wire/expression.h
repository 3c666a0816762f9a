/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_PROTO_EXPRESSION_H
#define GPUCTR_PROTO_EXPRESSION_H

#include <regex.h>
#include <stddef.h>

#include "proto/wire/status.h"

/* The expression that chooses kernels: POSIX extended. 0 and *ret to be freed with regfree(), or
 * GPUCTR_E_BAD_PATTERN with r filled. */
int expression_compile(regex_t *ret, const char *text, struct refusal *r);

/* The character, from 1, at which a text that does not compile goes wrong. Compiles up to once for
 * each byte: for the user's own process, not for one that answers others. */
size_t expression_wrong_at(const char *text);

#endif
