/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client/lib/internal.h"

/* A struct that a program passes in begins with its size as the program was compiled. A shorter one
 * is of an older program: members that it lacks are zero, which means the behaviour from before
 * they came. A longer one is of a newer program, and is accepted if the members that this library
 * does not know are zero. */

int options_copy(struct gpuctr *g, void *ret, size_t size, const void *given)
{
	size_t given_size;

	memcpy(&given_size, given, sizeof(given_size));
	if (given_size < sizeof(given_size)) {
		return connection_fail(g, GPUCTR_E_BAD_REQUEST,
				       "a struct given to libgpuctr does not begin with its size",
				       "Initialize it with GPUCTR_INIT.");
	}
	for (size_t i = size; i < given_size; i++) {
		if (((const unsigned char *)given)[i] != 0) {
			return connection_fail(g, GPUCTR_E_BAD_REQUEST,
					       "the program asks for something that came after "
					       "libgpuctr " GPUCTR_VERSION,
					       "Install the libgpuctr that it was built with.");
		}
	}
	memset(ret, 0, size);
	memcpy(ret, given, given_size < size ? given_size : size);
	return 0;
}
