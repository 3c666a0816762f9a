/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_NVIDIA_UUID_H
#define GPUCTR_NVIDIA_UUID_H

#include <stddef.h>

#include <cuda.h>

/* Formats a CUDA UUID as the driver prints it. */
void uuid_format(const CUuuid *uuid, char *text, size_t size);

#endif
