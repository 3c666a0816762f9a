/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The codes themselves are public: enum gpuctr_error_code in <gpuctr/gpuctr.h>. */

#include <stdint.h>

#include <gpuctr/gpuctr.h>

const char *status_to_string(int code);

/* A refusal on its way to a peer: code, cause and remedy, with storage of its own. */
struct refusal {
	int code;
	char message[768];
	char remedy[768];
};

/* Fills r. format and its arguments, as for printf, make the cause; remedy is plain text. Both are
 * copied, and cut to their room. */
void refusal_set(struct refusal *r, int code, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The code of a refusal that a peer has sent, as a function may return it: always positive, since 0
 * would be success and a negative number an errno. */
int refusal_code(uint32_t sent);
