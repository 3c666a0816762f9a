/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "proto/nvidia/uuid.h"

void uuid_format(const CUuuid *uuid, char *text, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(text, size,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}
