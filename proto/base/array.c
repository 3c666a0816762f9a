/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum { ARRAY_FIRST_ITEMS = 16 };

bool array_make_room(void *items, size_t size, size_t n, size_t *max)
{
	size_t more = *max ? *max * 2 : ARRAY_FIRST_ITEMS;
	void *v;

	if (n < *max) {
		return true;
	}
	memcpy(&v, items, sizeof(v)); /* the caller's pointer has another type than void * */
	v = reallocarray(v, more, size);
	if (!v) {
		return false;
	}
	memcpy(items, &v, sizeof(v));
	*max = more;
	return true;
}
