/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include <cuda.h>

/* Formats a CUDA UUID as the driver prints it. */
void uuid_format(const CUuuid *uuid, char *text, size_t size);
